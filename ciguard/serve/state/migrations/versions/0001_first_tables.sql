CREATE TABLE repository (
    id BIGINT NOT NULL,
    full_name VARCHAR(256) NOT NULL,
    is_private BOOLEAN NOT NULL,
    default_branch VARCHAR(256) NOT NULL,
    installation_id BIGINT,
    state VARCHAR(16) NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    reconciled_at_ms BIGINT,
    CONSTRAINT pk_repository PRIMARY KEY (id)
);

CREATE INDEX ix_repository_full_name ON repository (full_name);

CREATE TABLE delivery (
    id VARCHAR(64) NOT NULL,
    event VARCHAR(64) NOT NULL,
    action VARCHAR(64) NOT NULL,
    repository_id BIGINT,
    received_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_delivery PRIMARY KEY (id)
);

CREATE INDEX ix_delivery_received_at_ms ON delivery (received_at_ms);

CREATE TABLE work (
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    lane VARCHAR(512) NOT NULL,
    state VARCHAR(16) NOT NULL,
    source VARCHAR(16) NOT NULL,
    tries INTEGER NOT NULL,
    due_at_ms BIGINT NOT NULL,
    added_at_ms BIGINT NOT NULL,
    finished_at_ms BIGINT,
    problem VARCHAR(4000) NOT NULL,
    CONSTRAINT pk_work PRIMARY KEY (repository_id, run_id, run_attempt)
);

CREATE INDEX ix_work_lane_state_run_id ON work (lane, state, run_id);

CREATE INDEX ix_work_state_due_at_ms ON work (state, due_at_ms);

CREATE TABLE lane (
    "key" VARCHAR(512) NOT NULL,
    worker VARCHAR(128) NOT NULL,
    until_ms BIGINT NOT NULL,
    CONSTRAINT pk_lane PRIMARY KEY ("key")
);

CREATE TABLE run (
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    workflow VARCHAR(256) NOT NULL,
    event VARCHAR(64) NOT NULL,
    branch VARCHAR(256) NOT NULL,
    head_sha VARCHAR(64) NOT NULL,
    pull_request INTEGER,
    is_base_branch BOOLEAN NOT NULL,
    started_at_ms BIGINT NOT NULL,
    completed_at_ms BIGINT NOT NULL,
    judged_at_ms BIGINT NOT NULL,
    verdict VARCHAR(16) NOT NULL,
    comparison VARCHAR(32) NOT NULL,
    headline VARCHAR(4000) NOT NULL,
    exit_code INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    makespan_s FLOAT,
    bound_s FLOAT,
    price_usd FLOAT,
    answer VARCHAR(256) NOT NULL,
    CONSTRAINT pk_run PRIMARY KEY (repository_id, run_id, run_attempt)
);

CREATE INDEX ix_run_repository_id_completed_at_ms ON run (repository_id, completed_at_ms);

CREATE TABLE run_suite (
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    suite VARCHAR(256) NOT NULL,
    variant VARCHAR(256) NOT NULL,
    planned INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    counts JSON NOT NULL,
    wall_s FLOAT,
    peak_bytes BIGINT,
    budget_bytes BIGINT,
    CONSTRAINT pk_run_suite PRIMARY KEY (repository_id, run_id, run_attempt, suite, variant),
    CONSTRAINT fk_run_suite_repository_id_run_id_run_attempt_run FOREIGN KEY(repository_id, run_id, run_attempt) REFERENCES run (repository_id, run_id, run_attempt) ON DELETE CASCADE
);

CREATE TABLE file (
    name VARCHAR(256) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    pair VARCHAR(64) NOT NULL,
    rows BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    added_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_file PRIMARY KEY (name)
);

CREATE INDEX ix_file_kind_added_at_ms ON file (kind, added_at_ms);

CREATE TABLE file_run (
    file VARCHAR(256) NOT NULL,
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    rows BIGINT NOT NULL,
    digest VARCHAR(32) NOT NULL,
    CONSTRAINT pk_file_run PRIMARY KEY (file, repository_id, run_id, run_attempt),
    CONSTRAINT fk_file_run_file_file FOREIGN KEY(file) REFERENCES file (name) ON DELETE CASCADE
);

CREATE INDEX ix_file_run_repository_id_run_id ON file_run (repository_id, run_id);

CREATE TABLE artifact (
    repository_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    run_attempt INTEGER NOT NULL,
    name VARCHAR(256) NOT NULL,
    object VARCHAR(256) NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    stored_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_artifact PRIMARY KEY (repository_id, run_id, run_attempt, name)
);

CREATE INDEX ix_artifact_stored_at_ms ON artifact (stored_at_ms);

CREATE TABLE history (
    repository_id BIGINT NOT NULL,
    object VARCHAR(256) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    bytes BIGINT NOT NULL,
    version BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_history PRIMARY KEY (repository_id)
);

CREATE TABLE token (
    id VARCHAR(16) NOT NULL,
    repository_id BIGINT NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    created_at_ms BIGINT NOT NULL,
    revoked_at_ms BIGINT,
    CONSTRAINT pk_token PRIMARY KEY (id),
    CONSTRAINT uq_token_sha256 UNIQUE (sha256)
);

CREATE TABLE session (
    sha256 VARCHAR(64) NOT NULL,
    login VARCHAR(64) NOT NULL,
    visible JSON NOT NULL,
    visible_at_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    CONSTRAINT pk_session PRIMARY KEY (sha256)
);

CREATE INDEX ix_session_until_ms ON session (until_ms);
