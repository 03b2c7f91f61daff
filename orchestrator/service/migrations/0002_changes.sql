-- What the server and the workers know beside the queue's own tables and the journals.

CREATE TABLE service_deliveries (
    forge TEXT NOT NULL,
    delivery TEXT NOT NULL,
    received TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (forge, delivery)
);
CREATE INDEX service_deliveries_received ON service_deliveries (received);

-- One row for each pull or merge request: the newest push, and the run that reviews it.
CREATE TABLE service_changes (
    change TEXT PRIMARY KEY,
    forge TEXT NOT NULL,
    installation TEXT NOT NULL,
    repository TEXT NOT NULL,
    number INTEGER NOT NULL,
    clone_url TEXT NOT NULL,
    base TEXT NOT NULL,
    head TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    description TEXT NOT NULL DEFAULT '',
    lines INTEGER,
    received TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    pushes INTEGER NOT NULL DEFAULT 1,
    run TEXT NOT NULL DEFAULT '',
    run_base TEXT NOT NULL DEFAULT '',
    run_head TEXT NOT NULL DEFAULT '',
    base_commit TEXT NOT NULL DEFAULT '',
    crashes INTEGER NOT NULL DEFAULT 0,
    is_paused BOOLEAN NOT NULL DEFAULT false,
    is_full BOOLEAN NOT NULL DEFAULT false,
    posted_head TEXT NOT NULL DEFAULT '',
    problem TEXT NOT NULL DEFAULT ''
);
CREATE INDEX service_changes_repository ON service_changes (repository);

-- Whether a job is still the attempt of a worker; if so, nobody else changes it before the
-- transaction ends.
CREATE FUNCTION service_owns_job(job BIGINT, attempt INTEGER, worker BIGINT) RETURNS BOOLEAN
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM procrastinate_jobs
    WHERE id = job AND status = 'doing' AND attempts = attempt
      AND worker_id IS NOT DISTINCT FROM worker
    FOR UPDATE;
    RETURN FOUND;
END;
$$;

-- What each run may cost, then what it did, for the budgets of a day.
CREATE TABLE service_spending (
    run TEXT PRIMARY KEY,
    forge TEXT NOT NULL,
    installation TEXT NOT NULL,
    repository TEXT NOT NULL,
    day DATE NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')::date,
    usd DOUBLE PRECISION NOT NULL,
    most_usd DOUBLE PRECISION NOT NULL
);
CREATE INDEX service_spending_day ON service_spending (day, forge, installation);

-- While draining, workers take nothing new.
CREATE TABLE service_state (
    is_one BOOLEAN PRIMARY KEY DEFAULT true CHECK (is_one),
    is_draining BOOLEAN NOT NULL DEFAULT false
);
INSERT INTO service_state DEFAULT VALUES;

-- What happened, counted for the metrics.
CREATE TABLE service_counts (name TEXT PRIMARY KEY, value BIGINT NOT NULL DEFAULT 0);
