"""Models behind the engine's port."""
