"""The tables of the service: repositories, runs, work list, and the manifest of result files."""
