"""Applies edits to a text, without the code that makes patches of them."""

from collections.abc import Iterable

from diffchecks.check_io import Edit


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits, of which no two overlap; lines end where git says they do."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    spans = [
        (
            starts[e.start_line - 1] + e.start_column - 1,
            starts[e.end_line - 1] + e.end_column - 1,
            e,
        )
        for e in edits
    ]
    for start, end, edit in sorted(spans, key=lambda span: span[:2], reverse=True):
        assert start <= end <= len(text)
        text = text[:start] + edit.text + text[end:]
    return text
