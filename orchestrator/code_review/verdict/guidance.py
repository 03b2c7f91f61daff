"""What a verdict says of the repository's own guidance for changes."""

from typing import Annotated

from msgspec import Meta

from orchestrator.engine.field_types import Strict


class Guideline(Strict, frozen=True):
    """A line of the repository's own guidance, as of base, that something goes against."""

    path: Annotated[str, Meta(description="the guidance's file, as it is named there")]
    line: Annotated[int, Meta(ge=1)]
    quote: Annotated[str, Meta(description="text of that line, letter for letter")]


class GuidanceFile(Strict, frozen=True):
    """Guidance of the repository itself, as of base, that agents were shown as data."""

    path: str
    applies_to: Annotated[str, Meta(description="globs or a directory; empty: the whole change")]
    lines: Annotated[int, Meta(ge=0)]
    shown: Annotated[int, Meta(ge=0, description="how many of the lines agents were shown")]
    sha256: str
    why_not: Annotated[str, Meta(description="why some or all lines were not shown")] = ""
