"""The commands of ``diffcourt rubric``."""
