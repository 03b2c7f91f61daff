"""Fingerprints of findings, and which files may hold a counterpart of one."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from diffchecks.new_findings import RuledFinding, identity, remove_white_space
from orchestrator.engine.canonical_json import digest

_WORD = re.compile(r"\w+")


class CitedTexts:
    """The lines that findings cite, to find the files that hold them as well.

    Args:
        cited: of each finding its lines.
    """

    def __init__(self, cited: Iterable[Sequence[str]]) -> None:
        self._texts: dict[str, str] = {}
        for lines in cited:
            words = _WORD.findall("\n".join(lines))
            self._texts[remove_white_space(lines)] = max(words, key=len, default="")

    def occur_in(self, lines: Sequence[str]) -> bool:
        """Whether a file holds the text of one of them, white space aside."""
        whole = "\n".join(lines)
        likely = [text for text, word in self._texts.items() if word in whole]
        if not likely:
            return False
        bare = remove_white_space(lines)
        return any(text in bare for text in likely)


def assign_fingerprints(
    findings: Iterable[RuledFinding], base: Iterable[RuledFinding] = ()
) -> Mapping[str, RuledFinding]:
    """Findings by fingerprint, in reading order; 16 hex digits, stable across runs.

    Args:
        base: findings that are numbered first, so that a further equal finding gets a new
            fingerprint: that of an old one may be waived.
    """
    counts = Counter((*identity(finding), finding[1].path) for finding in base)
    numbered: dict[str, RuledFinding] = {}
    for finding in sorted(
        findings, key=lambda found: (found[1].path, found[1].line, *identity(found)[:2])
    ):
        place = (*identity(finding), finding[1].path)
        numbered[digest([*place, counts[place]])[:16]] = finding
        counts[place] += 1
    return numbered
