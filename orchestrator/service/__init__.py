"""The service for an organization: webhooks, a durable queue in PostgreSQL, and workers."""
