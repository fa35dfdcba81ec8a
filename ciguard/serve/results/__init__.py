"""Results of tests: immutable Parquet files, the table that names them, and what they answer."""
