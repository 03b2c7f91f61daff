"""Running programs over things we do not trust."""
