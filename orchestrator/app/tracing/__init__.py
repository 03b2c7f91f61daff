"""Traces of runs: spans made from a journal, and their export over OTLP."""
