"""`ciguard init`: configuration and workflow files, generated from a repository's files."""
