"""What people decide about a run, recorded in its journal with their name."""
