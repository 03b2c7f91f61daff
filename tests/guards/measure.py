"""How often the guards are wrong: on ordinary text, on attacks, on text that nobody here wrote."""

import ast
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.catalog.data_file_layers import check_merged, read_shipped_layer
from orchestrator.catalog.guard_policy import GuardsFile
from orchestrator.engine.text_guards import TextGuard
from orchestrator.guards.plain_text_guards import ClaimRule
from orchestrator.guards.registry import GUARDS, GuardSettings

HERE = Path(__file__).parent
TRIGGER = re.compile(
    r"\b(?:ignor\w*|previous\w*|disregard|forget|instruct\w*|prompt|password|kill|attack\w*|inject\w*"
    r"|overrid\w*|approve\w*|secret\w*|token\w*|reviewer|model|system)\b|\d{6,}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Measured:
    """Texts in all, and those that a guard would block or change, each with the guard's name."""

    texts: int
    hit: Sequence[tuple[str, str]]

    @property
    def share(self) -> float:
        return len({text for _, text in self.hit}) / self.texts


def config() -> GuardsFile:
    found = check_merged([read_shipped_layer()], "config/guards.yaml", GuardsFile, [])
    assert found is not None
    return found[1]


SUGGESTED = (
    "CA_SIN", "CRYPTO", "DE_ID_CARD", "DE_PASSPORT", "DE_SOCIAL_SECURITY", "EMAIL_ADDRESS", "ES_NIE",
    "ES_NIF", "FI_PERSONAL_IDENTITY_CODE", "IN_PAN", "KR_RRN", "MEDICAL_LICENSE", "PHONE_NUMBER",
    "SG_NRIC_FIN", "UK_NINO", "US_ITIN", "US_MBI", "US_SSN",
)  # fmt: skip
"""What the page on guards suggests to ask presidio for."""


def every_guard(
    ran: Callable[[], frozenset[str]] = frozenset,
    entities: Sequence[str] = (),
    note: Callable[[str], None] = lambda said: None,
) -> Mapping[str, TextGuard]:
    """All of them, those that are off by default as well; presidio only with entities."""
    given = config()
    claims = [ClaimRule(c.what, c.words, frozenset(c.tools)) for c in given.claims]
    setting = GuardSettings(
        given.limits.characters, ["en"], claims, ran, note, given.toxic, entities
    )
    return {name: build(setting) for name, build in GUARDS.items()}


def lines(name: str) -> list[str]:
    """The texts of a file: one a line, ``\\n`` and ``\\uXXXX`` in it stand for the character."""
    escape = re.compile(r"\\n|\\u[0-9a-f]{4}")
    found = (HERE / f"{name}.txt").read_text("utf-8").splitlines()
    return [escape.sub(lambda m: ast.literal_eval(f'"{m.group()}"'), line) for line in found]


def elsewhere(most: int) -> Iterator[str]:
    """Comments and docstrings of Python's own library with a trigger word in them."""
    count = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for part in re.findall(r'"""(.*?)"""|#\s?(.{20,})', path.read_text("utf-8"), re.DOTALL):
            for text in re.split(r"\n\s*\n", part[0] or part[1]):
                if TRIGGER.search(text):
                    yield text
                    count += 1
                    if count == most:
                        return


def measured(texts: Sequence[str], guards: Mapping[str, TextGuard]) -> Measured:
    hit = [(name, text) for text in texts for name, guard in guards.items() if guard.detect(text)]
    return Measured(len(texts), hit)
