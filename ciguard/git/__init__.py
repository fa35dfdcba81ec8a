"""Calls of git: files and ancestry of commits in a checkout, and advice where git refuses."""
