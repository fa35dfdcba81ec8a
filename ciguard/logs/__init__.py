"""Numbers and failures in text logs: one table of patterns, and the reader that applies it."""
