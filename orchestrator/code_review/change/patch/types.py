"""The parts of a patch, as data."""

from msgspec import Struct, field

from orchestrator.code_review.change.patch.file_names import Names


class Hunk(Struct):
    """Lines that belong together.

    Attributes:
        line: 1-based line of its header in the patch.
        old_start, old_count, new_start, new_count: as its header says.
        lines: marker (``b" "``, ``b"-"`` or ``b"+"``) and contents with their line end.
        end: 1-based line after its last one.
    """

    line: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: list[tuple[bytes, bytes]] = field(default_factory=list)
    end: int = 0


class FilePatch(Struct):
    """What a patch says of one file.

    Attributes:
        line: 1-based line in the patch at which it begins.
        end: 1-based line after its last one.
        names: as they stand in the patch, prefix included.
        created, deleted: it has no old, or no new side.
        header: git's extended header lines, key → value.
        binary: it holds a binary patch, or says only that two binary files differ.
        has_data: False when it says only that binary files differ.
        hunks: in order.
    """

    line: int
    end: int = 0
    names: Names = (None, None)
    created: bool = False
    deleted: bool = False
    header: dict[str, bytes] = field(default_factory=dict)
    binary: bool = False
    has_data: bool = True
    hunks: list[Hunk] = field(default_factory=list)
