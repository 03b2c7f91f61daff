"""Wiring: the one place that chooses providers and stores."""
