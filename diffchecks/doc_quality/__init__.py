"""Checks of documentation: docstrings, links, stale references, the changelog."""
