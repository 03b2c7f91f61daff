"""Checks of tests: removed, weakened, missing and failing tests, and uncovered lines."""
