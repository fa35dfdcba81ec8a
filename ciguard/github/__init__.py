"""GitHub: the current run by environment and event, and the REST API of runs and comments."""
