"""Proof that every planned test ran, and the cause if a job did not end by itself."""
