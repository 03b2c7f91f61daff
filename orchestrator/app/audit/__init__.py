"""Verification of a run's journal, and its audit trail."""
