"""Plans, supervises, proves and compares large test suites on GitHub Actions."""

__version__ = "0.2.0"
