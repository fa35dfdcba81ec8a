"""`ciguard culprit`: the commit since which a test fails, or needs more time or memory."""
