"""Takes runs from the work list and judges them, one at a time per pull request."""
