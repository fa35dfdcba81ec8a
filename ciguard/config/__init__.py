"""The configuration of a project: what its files and flags say, checked."""
