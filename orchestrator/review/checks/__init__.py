"""Checks in pure Python; they run in a worker process."""
