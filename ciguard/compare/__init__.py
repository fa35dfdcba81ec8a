"""The comparison of two runs: changed outcomes of tests, and numbers that exceed noise."""
