"""Checks of declared dependencies."""
