"""Files that the user gives a review, copied for the run before anything reads them."""
