"""From refs, a work tree or a patch to a `Change`."""
