"""GitHub, seen from inside a workflow: what run this is, its API, its comments, its commands."""
