-- name: insert_run
-- Behind all rows, also those whose run has another number by damage.
INSERT INTO runs (number, run, started, meta) VALUES ((SELECT 1 + max(
    (SELECT coalesce(max(number), 0) FROM runs WHERE number < 0x7fffffff),
    (SELECT coalesce(max(place) >> 32, 0) FROM journal WHERE place < 0x7fffffff00000000)
)), :run, :started, :meta) ON CONFLICT DO NOTHING RETURNING number

-- name: rows
SELECT place & 0xffffffff, kind, key, at, body, hash FROM runs JOIN journal
ON place BETWEEN number << 32 AND number << 32 | 0xffffffff WHERE run = :run
AND place > (number << 32 | :after) ORDER BY place

-- name: find
SELECT place & 0xffffffff, kind, key, at, body, hash FROM runs JOIN journal
ON place BETWEEN number << 32 AND number << 32 | 0xffffffff WHERE run = :run
AND key = :key ORDER BY place DESC LIMIT 1

-- name: runs_with
-- A run has its first row under such a key near its beginning, where the search ends.
SELECT run FROM runs WHERE :body = (
    SELECT body FROM journal WHERE place BETWEEN number << 32 AND number << 32 | 0xffffffff
    AND key = :key ORDER BY place LIMIT 1
) ORDER BY started DESC, run DESC

-- name: lease
SELECT holder, lease_until - :now, fence FROM runs WHERE run = :run

-- name: set_lease
UPDATE runs SET holder = :holder, lease_until = :now + :ttl, fence = :fence WHERE run = :run

-- name: extend_lease
SELECT number, lease_until FROM runs WHERE run = :run AND fence = :fence

-- name: release
UPDATE runs SET lease_until = 0 WHERE run = :run AND fence = :fence

-- name: cancellation
SELECT who, why, at FROM runs JOIN cancellations USING (number, fence) WHERE run = :run

-- name: insert_cancellation
INSERT OR REPLACE INTO cancellations
SELECT number, :fence, :who, :why, :at FROM runs WHERE run = :run

-- name: delete_journal
-- A damaged number, which may be larger, has no rows.
DELETE FROM journal WHERE place
BETWEEN (SELECT number << 32 FROM runs WHERE run = :run AND number <= 0x7fffffff)
AND (SELECT number << 32 | 0xffffffff FROM runs WHERE run = :run AND number <= 0x7fffffff)

-- name: delete_cancellations
DELETE FROM cancellations WHERE number = (SELECT number FROM runs WHERE run = :run)

-- name: delete_run
DELETE FROM runs WHERE run = :run

-- name: odd_runs
-- Runs with numbers that are damaged although SQLite can read them.
SELECT run FROM runs
WHERE number NOT BETWEEN 1 AND 0x7fffffff OR fence NOT BETWEEN 0 AND 0xffffffff
