"""The repository as other commits have it: its files, its policy, and which commit came first."""
