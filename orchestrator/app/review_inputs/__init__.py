"""Input files of a review, copied for the run before they are read."""
