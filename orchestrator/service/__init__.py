"""Reviews for an organization: webhooks in, a durable queue in PostgreSQL, workers, posts out."""
