"""Recognizes a file that does not parse as a template by its markers."""

from diffchecks.data_files import read_patterns

_MARKS = read_patterns("template_marks")
_NO_MARKS = read_patterns("no_template_marks")


def describe_template(path: str, text: str) -> str:
    """A description of the first template marker in a file's text; empty: none."""
    for language in ("pipelines", "braces"):
        if _NO_MARKS[language].search(path):
            text = _NO_MARKS[f"in_{language}"].sub("", text)
    return next((words for words, mark in _MARKS.items() if mark.search(text)), "")
