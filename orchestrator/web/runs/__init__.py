"""The pages of ``diffcourt view``: runs, one run, comparisons, and people's decisions."""
