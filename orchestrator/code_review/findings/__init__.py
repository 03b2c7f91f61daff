"""Findings: from what analyzers and agents report to the findings of a verdict."""
