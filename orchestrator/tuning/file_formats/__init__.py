"""Files of items and rubrics, ours and other tools'."""
