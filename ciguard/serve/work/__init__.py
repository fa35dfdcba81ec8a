"""The worker process: judges completed runs, reconciles with GitHub, and deletes old data."""
