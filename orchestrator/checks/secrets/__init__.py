"""Secret scanning."""
