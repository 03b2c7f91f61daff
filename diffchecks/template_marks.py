"""Recognizes a file that does not parse as a template by its markers."""

import re

_MARKS = (
    (re.compile(r"\{%.*?%\}"), "{% %}, as Jinja and Django have"),
    (re.compile(r"<%.*?%>", re.DOTALL), "<% %>, as ERB, EJS and Mako have"),
    (re.compile(r"\{\{.*?\}\}"), "{{ }}, as Jinja, Go, Mustache and cookiecutter have"),
)


# Their own programs evaluate ``${{ }}``.
_WITH_EXPRESSIONS = re.compile(
    r"(?:^|/)(?:\.github/.*|\.(?:gitea|forgejo)/.*|action|azure-pipelines[^/]*)\.ya?ml$"
)


def describe_template(path: str, text: str) -> str:
    """A description of the first template marker in a file's text; empty: none."""
    if _WITH_EXPRESSIONS.search(path):
        text = text.replace("${{", "")
    return next((words for mark, words in _MARKS if mark.search(text)), "")
