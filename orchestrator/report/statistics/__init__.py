"""Statistics over many runs as text, CSV, a page, and Prometheus metrics."""
