"""The parts of a verdict about the repository's own guidance for changes."""

from typing import Annotated

from msgspec import Meta

from orchestrator.engine.field_types import Strict


class Guideline(Strict, frozen=True):
    """A line of the repository's own guidance in base that a finding says is violated."""

    path: Annotated[str, Meta(description="path of the guidance file")]
    line: Annotated[int, Meta(ge=1)]
    quote: Annotated[str, Meta(description="verbatim text of that line")]


class GuidanceFile(Strict, frozen=True):
    """A guidance file of the repository in base that agents were shown as data."""

    path: str
    applies_to: Annotated[str, Meta(description="globs or a directory; empty: the whole change")]
    lines: Annotated[int, Meta(ge=0)]
    shown: Annotated[int, Meta(ge=0, description="number of lines that agents were shown")]
    sha256: str
    why_not: Annotated[str, Meta(description="why some or all lines were not shown")] = ""
