"""The API for jobs: /api/v1."""
