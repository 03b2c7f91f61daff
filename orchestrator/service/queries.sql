-- name: record_delivery
INSERT INTO service_deliveries (forge, delivery)
VALUES (%(forge)s, %(id)s), (%(forge)s, %(signed)s) ON CONFLICT DO NOTHING

-- name: record_push
INSERT INTO service_changes AS c
    (change, forge, installation, repository, number, clone_url, base, head, title, description,
     lines)
VALUES (%(change)s, %(forge)s, %(installation)s, %(repository)s, %(number)s, %(clone_url)s,
        %(base)s, %(head)s, %(title)s, %(description)s, %(lines)s)
ON CONFLICT (change) DO UPDATE SET
    installation = excluded.installation, clone_url = excluded.clone_url, base = excluded.base,
    head = excluded.head, title = excluded.title, description = excluded.description,
    lines = excluded.lines, received = clock_timestamp(), pushes = c.pushes + 1,
    crashes = 0, failures = 0, problem = '', is_full = false
RETURNING is_paused

-- name: record_open
INSERT INTO service_changes AS c
    (change, forge, installation, repository, number, clone_url, base, head, title, description,
     lines)
VALUES (%(change)s, %(forge)s, %(installation)s, %(repository)s, %(number)s, %(clone_url)s,
        %(base)s, %(head)s, %(title)s, %(description)s, %(lines)s)
ON CONFLICT (change) DO NOTHING

-- name: know_repository
INSERT INTO service_repositories (forge, repository) VALUES (%(forge)s, %(repository)s)
ON CONFLICT DO NOTHING

-- name: wait_on
UPDATE procrastinate_jobs j SET scheduled_at = least(
    now() + make_interval(secs => %(debounce)s),
    (SELECT min(at) FROM procrastinate_events e WHERE e.job_id = j.id)
        + make_interval(secs => %(most_wait)s)
)
WHERE queueing_lock = %(place)s AND status = 'todo'

-- name: changes_at
SELECT change FROM service_changes WHERE forge = %s AND repository = %s AND head = %s

-- name: recent_reviews
SELECT count(DISTINCT j.id), count(DISTINCT j.id) FILTER (WHERE c.repository = %(repository)s)
FROM procrastinate_events e
JOIN procrastinate_jobs j ON j.id = e.job_id
JOIN service_changes c ON c.change = j.args->>'change'
WHERE e.type = 'started' AND e.at > now() - interval '1 hour' AND j.id <> %(job)s
  AND j.task_name = %(task)s AND c.forge = %(forge)s AND c.installation = %(installation)s

-- name: is_reviewing
SELECT 1 FROM procrastinate_jobs
WHERE status IN ('todo', 'doing') AND task_name = %s AND args->>'change' = %s LIMIT 1

-- name: cancel_begun
-- The states are repeated so that the index of live jobs is used.
SELECT procrastinate_cancel_job_v1(id, true, false) FROM procrastinate_jobs
WHERE status IN ('todo', 'doing') AND task_name <> %(answer)s AND args->>'change' = %(change)s
  AND queueing_lock IS NULL AND status = ANY(%(states)s)

-- name: cancel_all
SELECT procrastinate_cancel_job_v1(id, true, false) FROM procrastinate_jobs
WHERE status IN ('todo', 'doing') AND task_name <> %(answer)s AND args->>'change' = %(change)s

-- name: choose_run
UPDATE service_changes SET run = %s, run_base = base, run_head = head, base_commit = ''
WHERE change = %s AND (run_head, run_base) <> (head, base)

-- name: count_failure
UPDATE service_changes SET failures = failures + 1 WHERE change = %s RETURNING failures

-- name: count_crash
UPDATE service_changes
SET crashes = CASE WHEN is_alone THEN crashes + 1 ELSE greatest(crashes, 1) END WHERE change = %s
RETURNING CASE WHEN is_alone THEN crashes ELSE 0 END

-- name: spent_today
SELECT coalesce(sum(usd), 0), coalesce(sum(usd) FILTER (WHERE repository = %(repository)s), 0)
FROM service_spending
WHERE day = (now() AT TIME ZONE 'UTC')::date AND forge = %(forge)s
  AND installation = %(installation)s AND run <> %(run)s

-- name: reserve
INSERT INTO service_spending (run, forge, installation, repository, usd, most_usd)
VALUES (%(run)s, %(forge)s, %(installation)s, %(repository)s, %(usd)s, %(usd)s)
ON CONFLICT (run) DO UPDATE SET usd = service_spending.most_usd
RETURNING most_usd

-- name: queue_figures
SELECT queue_name AS queue, status::text AS state, count(*) AS jobs,
       max(extract(epoch FROM clock_timestamp() - coalesce(scheduled_at, (
           SELECT min(e.at) FROM procrastinate_events e WHERE e.job_id = j.id
       ))))::float8 AS oldest
FROM procrastinate_jobs j WHERE status IN ('todo', 'doing') GROUP BY 1, 2

-- name: count
INSERT INTO service_counts AS c VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value

-- name: jobs
-- The event of a job that waits for its time is in the future.
SELECT j.id, j.queue_name AS queue, j.args->>'change' AS change, j.status::text AS state,
       j.attempts, c.head, c.run, c.crashes, c.is_paused, c.problem,
       greatest(extract(epoch FROM clock_timestamp() - coalesce((
           SELECT max(e.at) FROM procrastinate_events e
           WHERE e.job_id = j.id AND e.at <= clock_timestamp()
       ), now())), 0)::float8 AS seconds
FROM procrastinate_jobs j LEFT JOIN service_changes c ON c.change = j.args->>'change'
WHERE (j.status IN ('todo', 'doing', 'failed') OR %(ended)s) AND

-- name: count_jobs
SELECT count(*), count(*) FILTER (WHERE status = 'failed')
FROM procrastinate_jobs WHERE status IN ('todo', 'doing', 'failed') OR %s

-- name: times_of_push
SELECT extract(epoch FROM c.received)::float8,
       extract(epoch FROM min(e.at) FILTER (WHERE e.type = 'started'))::float8,
       extract(epoch FROM max(e.at) FILTER (WHERE e.type = 'succeeded'))::float8
FROM service_changes c
LEFT JOIN procrastinate_jobs j ON j.args->>'change' = c.change AND j.task_name = %(task)s
LEFT JOIN procrastinate_events e ON e.job_id = j.id AND e.at >= c.received
WHERE c.change = %(change)s GROUP BY c.received

-- name: remove_changes
DELETE FROM service_changes c WHERE received < now() - make_interval(days => %s) AND NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs j
    WHERE j.status IN ('todo', 'doing') AND j.args->>'change' = c.change
)

-- name: remove_repositories
-- What was opened while nobody was there is no missed push.
DELETE FROM service_repositories r WHERE NOT EXISTS (
    SELECT 1 FROM service_changes c
    WHERE (c.forge, c.repository) = (r.forge, r.repository)
      AND c.received > now() - make_interval(days => %s)
)

-- name: remove_spending
DELETE FROM service_spending WHERE day < now() - make_interval(days => %s)

-- name: remove_deliveries
DELETE FROM service_deliveries WHERE received < now() - make_interval(days => %s)

-- name: remove_jobs
DELETE FROM procrastinate_jobs j
WHERE status IN ('succeeded', 'failed', 'aborted', 'cancelled') AND NOT EXISTS (
    SELECT 1 FROM procrastinate_events e
    WHERE e.job_id = j.id AND e.at > now() - make_interval(days => %s)
)

-- name: is_own_job
SELECT 1 WHERE service_owns_job(%(job)s, %(attempt)s, %(worker)s)

-- name: finish_job
SELECT procrastinate_finish_job_v1(%(job)s, %(status)s, %(delete)s)
WHERE service_owns_job(%(job)s, %(attempt)s, %(worker)s)

-- name: retry_job
SELECT procrastinate_retry_job_v2(
    %(job)s, coalesce(%(at)s, now()), %(priority)s, %(queue)s, %(lock)s
) WHERE service_owns_job(%(job)s, %(attempt)s, %(worker)s)

-- name: free_waiting_place
UPDATE procrastinate_jobs SET queueing_lock = NULL
WHERE id = %(job)s AND service_owns_job(%(job)s, %(attempt)s, %(worker)s) RETURNING id

-- name: known
SELECT DISTINCT ON (forge, repository) {}
FROM service_changes JOIN service_repositories USING (forge, repository)
WHERE received > now() - make_interval(days => %s)
ORDER BY forge, repository, received DESC

-- name: set_listed
UPDATE service_repositories SET is_listed = true WHERE (forge, repository) = (%s, %s)
