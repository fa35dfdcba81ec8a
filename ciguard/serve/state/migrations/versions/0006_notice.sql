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
	state VARCHAR(16) NOT NULL,
	due_at_ms BIGINT NOT NULL,
	CONSTRAINT pk_notice PRIMARY KEY (repository_id, run_id, run_attempt, owner)
);

CREATE INDEX ix_notice_state_due_at_ms ON notice (state, due_at_ms);
