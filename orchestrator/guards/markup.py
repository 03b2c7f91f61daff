"""Detect images, links and scripts in an agent's text, which a page that renders it would load."""

import re

from orchestrator.engine.text_guards import Detection, Place

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
# Only what loads or leads somewhere once it is rendered; `List<T>` is code.
_ACTIVE = re.compile(
    r"!?\[[^\]\n]{0,300}\]\(\s{0,9}<?[a-z][a-z0-9+.-]{1,20}:"
    r"|<(?:a|embed|form|iframe|img|link|meta|object|script|style|svg|video)\b[^<>]{0,2000}>",
    re.IGNORECASE,
)


class MarkupGuard:
    """Detects what a page that renders the text would load or link to.

    The text stays as it is, since a report on HTML quotes HTML: who prints it escapes it.
    """

    name = "markup"
    places: frozenset[Place] = frozenset({"report"})

    def detect(self, text: str) -> Detection | None:
        """Whether a text outside of code holds a link, an image or an active HTML element."""
        return Detection("links, images or HTML") if _ACTIVE.search(_CODE.sub("", text)) else None
