"""Migrations of the tables from one version to the next, for Alembic."""
