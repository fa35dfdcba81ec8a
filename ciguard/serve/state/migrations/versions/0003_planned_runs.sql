CREATE INDEX IF NOT EXISTS ix_run_planned ON run (repository_id, completed_at_ms, run_id, run_attempt) WHERE verdict != 'foreign';
