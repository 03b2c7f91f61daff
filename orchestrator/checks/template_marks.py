"""The marks by which a file that does not parse is known as a template."""

import re

_MARKS = (
    (re.compile(r"\{%.*?%\}"), "{% %}, as Jinja and Django have"),
    (re.compile(r"<%.*?%>", re.DOTALL), "<% %>, as ERB, EJS and Mako have"),
    (re.compile(r"\{\{.*?\}\}"), "{{ }}, as Jinja, Go, Mustache and cookiecutter have"),
)


def describe_template(text: str) -> str:
    """The first kind of mark that a text has, in words; empty for none."""
    return next((words for mark, words in _MARKS if mark.search(text)), "")
