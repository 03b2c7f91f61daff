"""The fixtures of those who run analyzers."""

from tests.review.analyzers.conftest import export, fake_program, rules

__all__ = ["export", "fake_program", "rules"]
