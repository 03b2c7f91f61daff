"""Figures over many runs, from their journals, and alerts about them."""
