"""The memory of past runs: what records become, how they are joined, where they are kept."""
