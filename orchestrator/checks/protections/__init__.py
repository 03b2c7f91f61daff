"""Checks for protection that a change takes away."""
