"""Workflow files as GitHub reads them: values, positions of their nodes, and a job's matrix."""
