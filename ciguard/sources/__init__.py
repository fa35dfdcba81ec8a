"""From the reference to a run, as a command line has it, to the records of the run."""
