-- How often the review of a head failed in a way that may pass: the forge or the database was away.
ALTER TABLE service_changes ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
