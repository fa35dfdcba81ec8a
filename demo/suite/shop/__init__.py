"""A small shop: what the demo's tests exercise."""
