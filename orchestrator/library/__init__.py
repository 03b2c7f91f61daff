"""The public API for programs: agents and tools behind the harness, and reviews as a call."""
