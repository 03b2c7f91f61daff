"""Secret scanning: tokens, keys, and passwords by name, format and context."""
