"""Recognizes a file that does not parse as a template by its markers."""

from diffchecks.data_files import read_patterns

_MARKS = read_patterns("template_marks")
# Their own programs evaluate ``${{ }}``.
_WITH_EXPRESSIONS = read_patterns("with_expressions")["path"]


def describe_template(path: str, text: str) -> str:
    """A description of the first template marker in a file's text; empty: none."""
    if _WITH_EXPRESSIONS.search(path):
        text = text.replace("${{", "")
    return next((words for words, mark in _MARKS.items() if mark.search(text)), "")
