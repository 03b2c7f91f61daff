"""The verdict: its data model, how it is computed, and its JSON Schema."""
