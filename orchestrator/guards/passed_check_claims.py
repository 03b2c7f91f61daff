"""Claims that a check passed, compared with the checks that ran."""

import re
from collections.abc import Callable, Sequence, Set

from msgspec import Struct

from orchestrator.engine.text_guards import Detection, Place

_WELL = (
    r"(?:(?:all|now|still|both|currently|successfully|locally)\s+){0,2}"
    r"(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|(?:is|are|was|were|came\s+back|runs?|ran|stays?)\s+"
    r"(?:all\s+|now\s+|still\s+)?(?:green|clean|successful|passing|ok|fine))\b"
)
_DENIED = re.compile(
    r"\b(?:not|no|never|cannot|can't|don't|doesn't|didn't|isn't|aren't|wasn't|weren't|without|whether"
    r"|if|unless|until|when|once|should|must|may|might|could|would|need|needs|ensure|verify|check"
    r"|make\s+sure|assum\w+|claims?|says?)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.;!?\n]+(?:\.(?=\w)[^.;!?\n]*)*[.;!?]*")


class ClaimRule(Struct, frozen=True):
    """A check: its name, the words for it, and the tools that perform it."""

    check: str
    words: Sequence[str]
    tools: frozenset[str]


class ClaimGuard:
    """Detects sentences that say a check passed, though none of its tools succeeded."""

    name = "claims"
    places: frozenset[Place] = frozenset({"report"})

    def __init__(self, rules: Sequence[ClaimRule], ran: Callable[[], Set[str]]) -> None:
        self._ran = ran
        self._rules = [(rule, _pattern(rule.words)) for rule in rules]

    def detect(self, text: str) -> Detection | None:
        """The checks that are claimed without evidence, and the text with a note after each."""
        unfounded: dict[str, None] = {}

        def annotate(sentence: re.Match[str]) -> str:
            claim = sentence.group()
            for rule, pattern in self._rules:
                # What ran comes last: it is read from the whole journal.
                if not pattern.search(claim) or _DENIED.search(claim) or rule.tools & self._ran():
                    continue
                unfounded[rule.check] = None
                claim = f"{claim} [not borne out: no {rule.check} ran in this review]"
            return claim

        shown = _SENTENCE.sub(annotate, text)
        return (
            Detection(f"claims without evidence: {', '.join(unfounded)}", shown)
            if unfounded
            else None
        )


def _pattern(words: Sequence[str]) -> re.Pattern[str]:
    listed = "|".join(re.escape(word).replace(r"\ ", r"[\s-]+") for word in words)
    return re.compile(
        rf"\b(?:{listed})\b(?:\s+\w+){{0,3}}?\s+{_WELL}"
        rf"|\b(?:passes|passed|passing)\s+(?:\w+\s+){{0,2}}(?:{listed})\b"
        rf"|\b(?:i|we)\s+(?:have\s+)?(?:ran|run|executed)\s+(?:\w+\s+){{0,2}}(?:{listed})\b",
        re.IGNORECASE,
    )
