"""plan: tests and their history -> a balanced matrix that fits time and memory."""
