"""Adapters for other agent frameworks, each in its own module and extra."""
