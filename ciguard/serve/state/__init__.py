"""What the service knows that is no result: repositories, runs, work, the manifest of files."""
