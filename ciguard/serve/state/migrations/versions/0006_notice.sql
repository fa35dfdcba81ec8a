CREATE TABLE notice (
	repository_id BIGINT NOT NULL,
	run_id BIGINT NOT NULL,
	run_attempt INTEGER NOT NULL,
	owner VARCHAR(256) NOT NULL,
	event VARCHAR(16) NOT NULL,
	workflow VARCHAR(256) NOT NULL,
	route VARCHAR(64) NOT NULL,
	content JSON NOT NULL,
	created_at_ms BIGINT NOT NULL,
	sent_at_ms BIGINT,
	CONSTRAINT pk_notice PRIMARY KEY (repository_id, run_id, run_attempt, owner)
);

CREATE INDEX ix_notice_sent_at_ms_created_at_ms ON notice (sent_at_ms, created_at_ms);
