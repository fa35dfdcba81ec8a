"""Experiments: commands or commits (arms) run in turn until their difference is certain."""
