"""The agents' hands and eyes."""
