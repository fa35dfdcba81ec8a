"""Judging completed runs: the work list, its workers, and what is done for each of its rows."""
