"""What a verdict says of how deep the changed files were read."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import Strict, UnitFloat

Depth = Literal["code", "text", "none"]
"""How a file was read: in its language, as text without one, or not at all."""


class HunkReaders(Strict, frozen=True):
    """A hunk of the change, and the agents with a model that read all of it."""

    first: Annotated[int, Meta(ge=1, description="the first line that it adds")]
    last: Annotated[int, Meta(ge=1, description="the last line that it adds")]
    side: Annotated[
        Literal["head", "base"],
        Meta(description="base: it adds none, and the lines are those that it removes"),
    ]
    read_by: Annotated[
        tuple[str, ...], Meta(description="empty: analyzers alone; see by of the file")
    ]


class Checked(Strict, frozen=True):
    """A changed file and what looked at it."""

    path: str
    by: tuple[str, ...]
    tool_calls: Annotated[tuple[str, ...], Meta(description="ids in calls")]
    depth: Annotated[
        Depth,
        Meta(
            description="code: an analyzer of its language or an agent read it; text: it was only "
            "searched for secrets, invisible characters and the like. A file that nobody read is "
            "in skipped alone"
        ),
    ] = "text"
    template: Annotated[
        str, Meta(description="the kind of template that it is by its name; empty: none")
    ] = ""
    read_by: Annotated[
        tuple[str, ...],
        Meta(
            description="agents with a model that were shown its diff, or called read_file or "
            "git_diff for it, and ended with a report"
        ),
    ] = ()
    hunks: Annotated[
        tuple[HunkReaders, ...],
        Meta(description="of a review with a model, where its agents look at the file"),
    ] = ()


class DepthCounts(Strict, frozen=True):
    """How many of the changed files were read how."""

    code: Annotated[int, Meta(ge=0)] = 0
    text: Annotated[int, Meta(ge=0)] = 0
    none: Annotated[int, Meta(ge=0)] = 0
    share_as_code: Annotated[
        UnitFloat,
        Meta(description="of the changed lines, in files read as code; a file counts at least one"),
    ] = 1.0
    hunks: Annotated[int, Meta(ge=0, description="of checked; offline 0")] = 0
    unread_hunks: Annotated[
        int, Meta(ge=0, description="those of hunks that no agent read as a whole")
    ] = 0
