"""The parts of a verdict about how deep the changed files were read."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import Strict, UnitFloat

Depth = Literal["code", "text", "none"]
"""How a file was read: as code in its language, as plain text, or not at all."""


class HunkReaders(Strict, frozen=True):
    """A hunk of the change, and the agents with a model that read all of it."""

    first: Annotated[int, Meta(ge=1, description="the first line that it adds")]
    last: Annotated[int, Meta(ge=1, description="the last line that it adds")]
    side: Annotated[
        Literal["head", "base"],
        Meta(description="base: the hunk adds no lines; first and last are lines that it removes"),
    ]
    read_by: Annotated[
        tuple[str, ...], Meta(description="empty: only analyzers read it, see by of the file")
    ]


class Checked(Strict, frozen=True):
    """A changed file, and what examined it."""

    path: str
    by: tuple[str, ...]
    tool_calls: Annotated[tuple[str, ...], Meta(description="ids in calls")]
    depth: Annotated[
        Depth,
        Meta(
            description="code: an analyzer for its language or an agent read it; text: it "
            "was only searched for secrets, invisible characters and the like. A file that "
            "was not read is only in skipped"
        ),
    ] = "text"
    template: Annotated[
        str, Meta(description="the kind of template, by the file name; empty: none")
    ] = ""
    read_by: Annotated[
        tuple[str, ...],
        Meta(
            description="agents with a model that were shown its diff, or called read_file "
            "or git_diff for it, and finished with a report"
        ),
    ] = ()
    hunks: Annotated[
        tuple[HunkReaders, ...],
        Meta(description="only in a review with a model, for files that its agents review"),
    ] = ()


class DepthCounts(Strict, frozen=True):
    """The number of changed files read at each depth."""

    code: Annotated[int, Meta(ge=0)] = 0
    text: Annotated[int, Meta(ge=0)] = 0
    none: Annotated[int, Meta(ge=0)] = 0
    share_as_code: Annotated[
        UnitFloat,
        Meta(
            description="share of the changed lines in files read as code; each file "
            "counts as at least one line"
        ),
    ] = 1.0
    hunks: Annotated[int, Meta(ge=0, description="number of hunks in checked; offline 0")] = 0
    unread_hunks: Annotated[
        int, Meta(ge=0, description="number of hunks that no agent read completely")
    ] = 0
