"""How a statement of JavaScript, Go, Java, Ruby or PHP leaves its block."""

import re

_NO = re.compile(r"return\s*(?:false|null|nil|undefined|None|''|\"\")?\s*;?$")
_REFUSES = re.compile(
    r"(?i)\berr(?:or)?\b|\berr_?(?=[a-z])|error|reject|forbid|denied|abort|\b40[0-9]\b|unauthori|invalid|fail|exit"
)


def read_ending(last: str, whole: str) -> tuple[str, str]:
    """How a block ends early by its last statement and its text, and with what; empty if not."""
    if re.match(r"throw\b|raise\b|panic\(|die\b", last):
        return "raise", last
    if re.match(r"return\b", last):
        if _REFUSES.search(whole):
            return "reject", whole
        return ("return" if _NO.match(last) else "value"), last
    if re.match(r"continue\b|break\b|next\b", last):
        return "skip", ""
    refusing = _REFUSES.search(last.partition("(")[0]) and "(" in last
    return ("reject", last) if refusing else ("", "")
