-- What is left of a lease is not asked of the difference of two times: that of an infinite one,
-- which only damage writes, is an error.
-- name: insert_run
INSERT INTO diffcourt_runs (run, repository, started, meta)
VALUES (%(run)s, %(repository)s, %(started)s, %(meta)s) ON CONFLICT DO NOTHING RETURNING run

-- name: rows
SELECT seq, kind, key, at, body, hash FROM diffcourt_journal
WHERE run = %(run)s AND seq > %(after)s ORDER BY seq

-- name: find
SELECT seq, kind, key, at, body, hash FROM diffcourt_journal
WHERE run = %(run)s AND key = %(key)s ORDER BY seq DESC LIMIT 1

-- name: runs_with
SELECT run FROM diffcourt_runs WHERE repository = %(repository)s AND %(body)s = (
    SELECT body FROM diffcourt_journal
    WHERE diffcourt_journal.run = diffcourt_runs.run AND key = %(key)s ORDER BY seq LIMIT 1
) ORDER BY started DESC, run DESC

-- name: lease
SELECT holder, (extract(epoch FROM lease_until) - extract(epoch FROM clock_timestamp()))::float8, fence
FROM diffcourt_runs WHERE run = %(run)s AND repository = %(repository)s FOR UPDATE

-- name: set_lease
UPDATE diffcourt_runs SET lease_until = clock_timestamp() + make_interval(secs => %(ttl)s),
holder = %(holder)s, fence = %(fence)s WHERE run = %(run)s

-- name: extend_lease
UPDATE diffcourt_runs SET lease_until = clock_timestamp() + make_interval(secs => %(ttl)s)
WHERE run = %(run)s AND fence = %(fence)s RETURNING run

-- name: release
UPDATE diffcourt_runs SET lease_until = 'epoch' WHERE run = %(run)s AND fence = %(fence)s

-- name: cancellation
SELECT who, why, at FROM diffcourt_runs JOIN diffcourt_cancellations USING (run, fence)
WHERE run = %(run)s

-- name: insert_cancellation
INSERT INTO diffcourt_cancellations VALUES (%(run)s, %(fence)s, %(who)s, %(why)s, %(at)s)
ON CONFLICT (run) DO UPDATE SET
    (fence, who, why, at) = ROW (EXCLUDED.fence, EXCLUDED.who, EXCLUDED.why, EXCLUDED.at)

-- name: delete_journal
DELETE FROM diffcourt_journal WHERE run = %(run)s

-- name: delete_cancellations
DELETE FROM diffcourt_cancellations WHERE run = %(run)s

-- name: delete_run
DELETE FROM diffcourt_runs WHERE run = %(run)s

-- name: entries
SELECT run, started, meta, holder, (extract(epoch FROM lease_until) - extract(epoch FROM clock_timestamp()))::float8
FROM diffcourt_runs
WHERE (%(all)s OR repository = %(repository)s) AND (%(only)s::text[] IS NULL OR run = ANY(%(only)s))

-- name: leases
SELECT run, holder, (extract(epoch FROM lease_until) - extract(epoch FROM clock_timestamp()))::float8,
    extract(epoch FROM lease_until)::float8, fence
FROM diffcourt_runs WHERE repository = %(repository)s

-- name: mark
SELECT count(*), sum(fence), sum(extract(epoch FROM lease_until)),
    count(*) FILTER (WHERE lease_until > clock_timestamp())
FROM diffcourt_runs WHERE repository = %(repository)s
