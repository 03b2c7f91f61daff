"""The pages of ``diffcourt view``: runs, one run, two side by side, and what people decide."""
