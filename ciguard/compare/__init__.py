"""What changed between two runs: transitions by name, and numbers told from noise."""
