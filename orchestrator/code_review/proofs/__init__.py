"""Tests that prove findings: how they are run, and what counts as a proof."""
