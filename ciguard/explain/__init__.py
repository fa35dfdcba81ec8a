"""`ciguard explain`: the answer for a run or one of its tests, small enough for a program."""
