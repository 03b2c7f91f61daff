"""Fit weights and thresholds to labels, and prove them on groups that the fit never saw."""
