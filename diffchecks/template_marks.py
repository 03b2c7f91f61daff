"""Recognizes a file that does not parse as a template by its markers."""

import re

_MARKS = (
    (re.compile(r"\{%.*?%\}"), "{% %}, as Jinja and Django have"),
    (re.compile(r"<%.*?%>", re.DOTALL), "<% %>, as ERB, EJS and Mako have"),
    (re.compile(r"\{\{.*?\}\}"), "{{ }}, as Jinja, Go, Mustache and cookiecutter have"),
)


def describe_template(text: str) -> str:
    """A description of the first template marker in a text; empty: none."""
    return next((words for mark, words in _MARKS if mark.search(text)), "")
