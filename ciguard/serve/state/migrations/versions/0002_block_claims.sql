CREATE TABLE claim_plan (
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    "plan" VARCHAR(32) NOT NULL,
    token_sha256 VARCHAR(64) NOT NULL,
    registered_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_claim_plan PRIMARY KEY (repository_id, run_id, run_attempt, "plan"),
    CONSTRAINT uq_claim_plan_token_sha256 UNIQUE (token_sha256)
);

CREATE INDEX ix_claim_plan_registered_at_ms ON claim_plan (registered_at_ms);

CREATE TABLE claim_leg (
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    "plan" VARCHAR(32) NOT NULL,
    leg VARCHAR(128) NOT NULL,
    exchange VARCHAR(256) NOT NULL,
    own_s FLOAT NOT NULL,
    began_at_ms BIGINT,
    ready_at_ms BIGINT,
    ratio FLOAT,
    is_alone BOOLEAN NOT NULL,
    CONSTRAINT pk_claim_leg PRIMARY KEY (repository_id, run_id, run_attempt, "plan", leg),
    CONSTRAINT fk_claim_leg_repository_id_run_id_run_attempt_plan_claim_plan FOREIGN KEY(repository_id, run_id, run_attempt, "plan") REFERENCES claim_plan (repository_id, run_id, run_attempt, "plan") ON DELETE CASCADE
);

CREATE TABLE claim_block (
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    "plan" VARCHAR(32) NOT NULL,
    block VARCHAR(128) NOT NULL,
    leg VARCHAR(128) NOT NULL,
    place INTEGER NOT NULL,
    wall_s FLOAT NOT NULL,
    holder VARCHAR(128) NOT NULL,
    is_confirmed BOOLEAN NOT NULL,
    CONSTRAINT pk_claim_block PRIMARY KEY (repository_id, run_id, run_attempt, "plan", block),
    CONSTRAINT fk_claim_block_repository_id_run_id_run_attempt_plan_claim_plan FOREIGN KEY(repository_id, run_id, run_attempt, "plan") REFERENCES claim_plan (repository_id, run_id, run_attempt, "plan") ON DELETE CASCADE
);
