"""Reports of other analyzers: reading them, and which of their results are the change's."""
