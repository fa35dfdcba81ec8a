"""Guard and compare as one comment, a job summary, annotations."""
