"""Verification of a run's journal, and what it says of who did what."""
