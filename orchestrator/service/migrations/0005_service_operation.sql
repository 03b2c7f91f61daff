-- Whether the review's present attempt has its worker for itself: only such a death is its own.
ALTER TABLE service_changes ADD COLUMN is_alone BOOLEAN NOT NULL DEFAULT false;

-- When the first webhook of a repository came, and whether its open requests were listed since.
CREATE TABLE service_repositories (
    forge TEXT NOT NULL,
    repository TEXT NOT NULL,
    since TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    is_listed BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (forge, repository)
);
INSERT INTO service_repositories (forge, repository, since)
SELECT forge, repository, min(received) FROM service_changes GROUP BY 1, 2;

-- Seconds are counted as well, and counters are named as their samples.
ALTER TABLE service_counts ALTER COLUMN value TYPE DOUBLE PRECISION;
UPDATE service_counts SET name = 'diffcourt_queue_' || name || '_total';
