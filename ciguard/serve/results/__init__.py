"""Results of tests: immutable Parquet files, the manifest that lists them, and the read model."""
