"""export: the results of a run in formats of other tools, one file for each suite and variant."""
