"""Journal stores behind the engine's port."""
