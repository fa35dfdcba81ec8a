"""What jobs ask the service for: /api/v1."""
