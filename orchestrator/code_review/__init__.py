"""The application: review of a change."""
