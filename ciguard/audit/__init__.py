"""audit: which tests a matrix written by hand runs, runs twice, and leaves out."""
