"""Numbers and failures in text logs: a table of patterns, and the reader that applies them."""
