"""The repository's memory: dismissals, waivers, and what past reviews suggest to remember."""
