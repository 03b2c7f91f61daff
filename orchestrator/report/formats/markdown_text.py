"""Untrusted text in Markdown, escaped so that it cannot link, mention or mark up anything."""

import re

from orchestrator.report.terminal_escaping import escape_line, escape_unprintable

_MARKUP = re.compile(
    r"[\\`*_{}\[\]<>#+!|~&$@]|:(?=\S)|(?<=www)\.|(?<=\d)\.(?=\s)|(?<=GH)-|^[-=/]", re.IGNORECASE
)
COMMAND = re.compile(r"/\w")
"""How a line begins that GitLab carries out as a quick action, such as ``/merge``."""


def plain(text: str) -> str:
    """Prose on one line in which no character acts as markup, link or mention.

    Punctuation becomes a numeric character reference, which Markdown shows as the character and
    never reads as syntax: ``@team``, ``#1``, ``https://host`` and ``<img>`` have no effect.
    """
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", escape_line(text))


def code(text: str) -> str:
    """Text on one line as a code span that its own backticks cannot end."""
    shown = escape_unprintable(text.replace("\n", " "))
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if not shown.strip() or shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def code_block(lines: list[str], language: str = "") -> str:
    """Lines as a fenced block that the lines cannot end.

    Where one could be a quick action of GitLab, which knows few fences, all are indented.
    """
    if any(map(COMMAND.match, lines)):
        lines = [f" {line}" for line in lines]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *lines, fence])
