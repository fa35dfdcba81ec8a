"""Lookup of a run by the reference on a command line, and of the run's records."""
