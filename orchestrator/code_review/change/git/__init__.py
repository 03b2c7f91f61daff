"""Reading a git repository without executing anything that it configures."""
