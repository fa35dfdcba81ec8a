"""Arms, run in turn until it is clear which is faster than the first, or smaller."""
