"""Checks of the public Python API."""
