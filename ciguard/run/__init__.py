"""The leg: one execution of a shard, or of any command, under supervision.

A leg runs units, which are the tests or test files that a plan divides, in one or several tested
processes. Its job gets this folder, `model` and parts of `codec` in a zip file, so that all of them
are standard library only and Python 3.8+.
"""
