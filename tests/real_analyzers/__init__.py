"""Whole reviews in which real analyzers run: ``make analyzers``."""
