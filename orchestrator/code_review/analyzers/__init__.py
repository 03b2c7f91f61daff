"""Analyzers: programs and checks behind the agents' tools."""
