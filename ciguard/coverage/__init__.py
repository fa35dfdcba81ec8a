"""Coverage of a run: the parts that its shards collected, combined to numbers."""
