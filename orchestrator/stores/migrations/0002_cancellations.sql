-- Who asks the writer of a run to stop: the one with this fencing token, and no later one.
CREATE TABLE diffcourt_cancellations (
    run TEXT PRIMARY KEY REFERENCES diffcourt_runs ON DELETE CASCADE,
    fence BIGINT NOT NULL,
    who TEXT NOT NULL,
    why TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL
);
