"""`ciguard site`: static pages of histories."""
