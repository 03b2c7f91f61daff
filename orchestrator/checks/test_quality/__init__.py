"""Checks of tests: removed, weakened, missing, failing, and lines that none runs."""
