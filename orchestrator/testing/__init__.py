"""The model server of a clone, under the name by which scripts outside the repository start it."""
