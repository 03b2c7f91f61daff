"""The repository's memory (``.diffcourt/memory/``): what people dismissed and what they prefer."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.catalog.data_file_layers import Layer, find_versions
from orchestrator.catalog.shared_literals import Severity
from orchestrator.catalog.verdict_policy import Waiver
from orchestrator.catalog.yaml_validation import read_page, read_yaml
from orchestrator.data_directories import DISMISSED, PREFERENCES
from orchestrator.engine.field_types import NonEmptyStr, Strict, UnitFloat
from orchestrator.errors import ConfigError

MAX_ENTRIES = 1_000
"""Dismissals, or preferences, of a repository."""

_FRONT = b"---"


class DismissedFinding(Strict, frozen=True, kw_only=True):
    """What a dismissal is about, as the verdict said it: how it is known again in other words.

    Attributes:
        side: whose text ``quote`` is; base: the change removed it.
        line: 1-based; the nearest of several places of the quotation is meant.
        scope: the first line of the function that it stands in; empty: in none.
        context: digest of the lines around it (``FindingContext.lines``); empty: not known.
        flow: digest of the lines elsewhere that lead to it; empty: there are none.
    """

    title: NonEmptyStr
    path: NonEmptyStr
    rule: NonEmptyStr
    severity: Severity
    category: str = ""
    cwe: tuple[int, ...] = ()
    side: Literal["head", "base"] = "head"
    line: Annotated[int, Meta(ge=1)]
    quote: str = ""
    scope: str = ""
    context: str = ""
    flow: str = ""


class Dismissal(Waiver, frozen=True, kw_only=True):
    """A waiver that a person gave to a finding of a review, with what it was about.

    By fingerprint it is of one finding; by rule, of all of that rule in its paths.

    Attributes:
        on: the day it was dismissed.
        recorded_by: who ran the command; ``by`` is the person who answers for it.
        about: the finding; None: it is known by its fingerprint alone.
    """

    on: date | None = None
    recorded_by: str = ""
    about: DismissedFinding | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.about is not None and (self.fingerprint is None or len(self.paths) != 1):
            raise ValueError(
                "a dismissal with about: names one fingerprint and the path of its file"
            )

    @property
    def who(self) -> str:
        """The person, or else the user who ran the command; empty if neither is known."""
        return self.by or self.recorded_by


class DismissalFile(Strict, frozen=True):
    """The file ``.diffcourt/memory/dismissed.yaml``."""

    dismissed: Annotated[tuple[Dismissal, ...], Meta(max_length=MAX_ENTRIES)] = ()


class Preference(Waiver, frozen=True, kw_only=True):
    """A rule that people want less of: it weighs less in some files, or is switched off there.

    Attributes:
        severity: what its findings are at most; ``off``: they are waived.
        below_confidence: it is for findings of less confidence than this only; None: for all.
    """

    severity: Severity | Literal["off"]
    below_confidence: UnitFloat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule is None:
            raise ValueError("a preference needs a rule; allowed: rule")


class PreferencesFrontMatter(Strict, frozen=True):
    """The front matter of ``.diffcourt/memory/preferences.md``; the text below it is for agents."""

    rules: Annotated[tuple[Preference, ...], Meta(max_length=MAX_ENTRIES)] = ()


def read_memory(layers: Sequence[Layer], errors: list[ConfigError]) -> tuple[Waiver, ...]:
    """The structured memory of all layers: dismissals, then preferences."""
    found: list[Waiver] = []
    for file in find_versions(layers, DISMISSED):
        try:
            found += read_yaml(DismissalFile, file.data, file.display_path).dismissed
        except ConfigError as error:
            errors.append(error)
    for file in find_versions(layers, PREFERENCES):
        if file.data.startswith(_FRONT):
            front = read_page(PreferencesFrontMatter, file.data, file.display_path, errors)
            found += front[1].rules if front else ()
    return tuple(found)
