"""Test doubles that are product code: they fail loudly."""
