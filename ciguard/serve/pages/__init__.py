"""The pages of the service, each in HTML and as JSON."""
