"""People's decisions about a run, recorded in its journal with their names."""
