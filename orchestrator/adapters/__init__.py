"""Other people's agent frameworks behind the harness: a module each, each an extra."""
