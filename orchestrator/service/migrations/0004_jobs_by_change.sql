-- The jobs of one change, also where many have ended: for the trace of a push.
CREATE INDEX service_jobs_change ON procrastinate_jobs ((args->>'change'));
