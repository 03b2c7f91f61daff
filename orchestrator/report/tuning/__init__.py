"""Results of a rubric tuning as text and as an HTML page."""
