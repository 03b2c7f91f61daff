"""Remove links, images and HTML from an agent's text before it is posted."""

import re

from orchestrator.engine.text_guards import Detection, Place

LINK = "[link removed]"

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_IMAGE = re.compile(r"!\[([^\]\n]{0,300})\](?:\([^)\n]{0,2000}\)|\[[^\]\n]{0,300}\])")
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\(\s{0,9}(?![\s)])[^)\n]{1,2000}\)")
_REFERENCE = re.compile(r"^[ ]{0,3}\[[^\]\n]{1,300}\]:[ ]{0,9}\S{1,2000}.*$", re.MULTILINE)
_ADDRESS = re.compile(
    r"<?\b(?:[a-z][a-z0-9+.-]{1,20}://|www\.)[^\s<>\"'`)\]]*[^\s<>\"'`)\].,;:!?]>?"
    r"|\b(?:javascript|data|vbscript):[^\s<>]{1,2000}",
    re.IGNORECASE,
)
# Tags that HTML has, and anything with an attribute: List<String> is code, not HTML.
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|</?(?:a|abbr|audio|b|base|blockquote|body|br|button|center|code|details|div|em|embed|font"
    r"|form|frame|h[1-6]|head|hr|html|i|iframe|img|input|kbd|li|link|math|meta|object|ol|p|picture"
    r"|pre|s|script|source|span|strong|style|sub|summary|sup|svg|table|tbody|td|textarea|th|thead"
    r"|title|tr|u|ul|video)(?:\s[^<>]{0,2000})?/?>"
    r"|<[a-z][\w-]{0,40}\s[^<>]{0,2000}=[^<>]{0,2000}>",
    re.IGNORECASE | re.DOTALL,
)


def strip_markup(text: str) -> str:
    """Remove links, images and HTML; code between backticks stays, for it is inert."""
    parts = _CODE.split(text)
    return "".join(part if at % 2 else _strip_prose(part) for at, part in enumerate(parts))


def _strip_prose(prose: str) -> str:
    prose = _LINK.sub(r"\1", _IMAGE.sub(r"\1", prose))
    return _TAG.sub("", _ADDRESS.sub(LINK, _REFERENCE.sub("", prose)))


class MarkupGuard:
    """Detects links, images and HTML, and removes them."""

    name = "markup"
    places: frozenset[Place] = frozenset({"report"})

    def detect(self, text: str) -> Detection | None:
        """Whether a text holds markup, and the text without."""
        stripped = strip_markup(text)
        return None if stripped == text else Detection("links, images or HTML", stripped)
