"""Cgroups: limits on memory, processes and processors for many programs together."""
