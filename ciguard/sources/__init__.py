"""From what a person calls a run, on any command line, to the records of that run."""
