"""Post a verdict to a forge: a check, one summary comment, and comments at the lines.

No model takes part, and nothing of the change is checked out or run. The verdict may come from an
untrusted job, so its text is data: it is escaped, bounded, and searched for secrets here.
"""
