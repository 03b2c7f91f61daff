"""Reading unified diffs, and applying them."""
