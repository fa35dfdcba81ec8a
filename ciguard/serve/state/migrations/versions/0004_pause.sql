CREATE TABLE pause (
    repository_id BIGINT NOT NULL,
    problem VARCHAR(4000) NOT NULL,
    since_ms BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    CONSTRAINT pk_pause PRIMARY KEY (repository_id)
);
