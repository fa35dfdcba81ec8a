"""Webhook deliveries of GitHub: each is checked, and applied once."""
