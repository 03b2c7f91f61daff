"""Wiring: the one package that chooses providers and stores, and opens them for what uses them."""
