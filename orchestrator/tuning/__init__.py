"""The application: tuning of a rubric against people's labels."""
