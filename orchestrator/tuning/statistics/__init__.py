"""Agreement, rates and their intervals, by resampling whole groups."""
