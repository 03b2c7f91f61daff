"""Claims that a check passed, compared with the checks that ran."""

import re
from collections.abc import Callable, Sequence, Set

from msgspec import Struct

from orchestrator.data_directories import read_table
from orchestrator.engine.text_guards import Detection, Place

_PHRASES = read_table(__file__, "claim_phrases.yaml")
_WELL = _PHRASES["well"]
_DENIED = re.compile(_PHRASES["denied"], re.IGNORECASE)
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
        rf"\b(?:{listed})\b(?:\s+\w+){{0,3}}?\s+{_PHRASES['well']}"
        rf"|\b(?:passes|passed|passing)\s+(?:\w+\s+){{0,2}}(?:{listed})\b"
        rf"|\b(?:i|we)\s+(?:have\s+)?(?:ran|run|executed)\s+(?:\w+\s+){{0,2}}(?:{listed})\b",
        re.IGNORECASE,
    )
