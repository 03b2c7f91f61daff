"""What decides how much effort a review makes (``config/effort.yaml``)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Literal, get_args

from orchestrator.catalog.shared_literals import Severity
from orchestrator.engine.field_types import NonEmptyStr, PositiveInt, Strict

EFFORT_FILE = "config/effort.yaml"

Tier = Literal["trivial", "ordinary", "risky"]
Effort = Literal["quick", "standard", "thorough"]
Measure = Literal["lines", "tokens", "files", "public names", "earlier fixes"]
TIERS: tuple[Tier, ...] = get_args(Tier)
TIER_OF: Mapping[str, Tier] = dict(zip(get_args(Effort), TIERS, strict=True))

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def highest(tiers: Iterable[Tier]) -> Tier:
    """The highest of these tiers; trivial of none."""
    return max(tiers, key=TIERS.index, default="trivial")


class Area(Strict, frozen=True):
    """Files, changes of which have at least a tier.

    Attributes:
        words, lines: of paths, and of changed lines of code; ``*`` stands for any ending.
        paths: globs as in ``.gitignore``, in lower case.
    """

    tier: Tier
    words: tuple[NonEmptyStr, ...] = ()
    lines: tuple[NonEmptyStr, ...] = ()
    paths: tuple[NonEmptyStr, ...] = ()


class FindingKind(Strict, frozen=True):
    """Analyzers' findings that give a change at least a tier; no tools, categories: of any."""

    tier: Tier
    severity: Severity
    tools: tuple[NonEmptyStr, ...] = ()
    categories: tuple[NonEmptyStr, ...] = ()


class ReaderBounds(Strict, frozen=True, kw_only=True):
    """The most that an agent has whose own limits are higher."""

    turns: PositiveInt
    tool_calls: PositiveInt
    tokens: PositiveInt


class TrivialReview(ReaderBounds, frozen=True):
    """The tools and the most that the agent of a trivial change has."""

    tools: tuple[NonEmptyStr, ...]


class EffortFile(Strict, frozen=True):
    """The table from which code computes the tier of a change, and what its agents are shown."""

    areas: Mapping[NonEmptyStr, Area]
    findings: Mapping[NonEmptyStr, FindingKind]
    measures: Mapping[Measure, Mapping[Tier, PositiveInt]]
    test_tokens: PositiveInt
    beside: ReaderBounds
    trivial: TrivialReview


def word_finder(words: Sequence[str]) -> Callable[[str], list[str]]:
    """The words of a text that are in a list: ``OAuthLogin`` has ``auth`` and ``login``."""
    known = re.compile("|".join(map(translate, words)) or r"(?!)")
    return lambda text: sorted(filter(known.match, {w.lower() for w in _WORD.findall(text)}))
