"""`ciguard doctor`: whether all that the loop needs is there, before a run finds out."""
