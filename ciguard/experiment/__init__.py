"""Two sides, run in turn until it is clear which is faster, or smaller."""
