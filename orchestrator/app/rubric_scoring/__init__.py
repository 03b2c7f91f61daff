"""Rubrics applied: to labeled items by models, and to recorded runs again."""
