ALTER TABLE run ADD COLUMN facts JSON;

ALTER TABLE repository ADD COLUMN base_state VARCHAR(16) DEFAULT 'waiting' NOT NULL;

ALTER TABLE repository ADD COLUMN base_run_id BIGINT;

ALTER TABLE repository ADD COLUMN base_run_attempt INTEGER;

UPDATE repository SET base_run_id = (
    SELECT max(run.run_id) FROM run
    WHERE run.repository_id = repository.id AND run.is_base_branch AND run.verdict != 'foreign'
);

UPDATE repository SET base_run_attempt = (
    SELECT max(run.run_attempt) FROM run
    WHERE run.repository_id = repository.id AND run.run_id = repository.base_run_id
) WHERE base_run_id IS NOT NULL;

UPDATE repository SET base_state = (
    SELECT CASE WHEN run.verdict = 'passed' AND run.exit_code = 0 THEN 'green' ELSE 'red' END
    FROM run WHERE run.repository_id = repository.id
    AND run.run_id = repository.base_run_id AND run.run_attempt = repository.base_run_attempt
) WHERE base_run_id IS NOT NULL;
