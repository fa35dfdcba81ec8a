"""Proof that every planned unit ran, and an ending for each leg that did not end by itself."""
