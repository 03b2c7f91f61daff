"""Fixes for findings: edits of the finding's own file, made from templates that are data."""
