"""Checks of imports: the import graph, broken imports and calls, import contracts."""
