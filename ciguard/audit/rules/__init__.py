"""Rules that a repository's workflows and past runs are audited by: one module each."""
