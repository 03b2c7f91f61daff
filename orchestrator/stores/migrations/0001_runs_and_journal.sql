-- Runs, and the rows of their journals. Bodies are bytes: the chain of hashes is over them.
CREATE TABLE diffcourt_runs (
    run TEXT PRIMARY KEY,
    repository TEXT NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    meta TEXT NOT NULL,
    holder TEXT NOT NULL DEFAULT '',
    lease_until TIMESTAMPTZ NOT NULL DEFAULT 'epoch',
    fence BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX diffcourt_runs_repository ON diffcourt_runs (repository);

CREATE TABLE diffcourt_journal (
    run TEXT NOT NULL REFERENCES diffcourt_runs ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (run, seq)
);

-- A list of runs reads one row of each run, its verdict, by key.
CREATE INDEX diffcourt_journal_key ON diffcourt_journal (run, key);
