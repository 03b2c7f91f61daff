"""Control groups: bounds on memory, processes and processors for many programs together."""
