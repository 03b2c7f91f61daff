"""The tools that agents can call."""
