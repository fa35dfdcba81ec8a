"""`ciguard init`: what a repository needs to start, written from what lies in its folder."""
