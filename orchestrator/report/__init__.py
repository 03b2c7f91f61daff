"""Output for people and other programs: the verdict, runs and statistics in several formats."""
