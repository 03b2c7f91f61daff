"""A whole review that other programs read: ``make readers``."""
