"""Scoring with rubrics: of labeled items by models, and of recorded runs by replay."""
