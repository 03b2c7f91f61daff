"""What changed between the head that an earlier review read and the head of a change."""

from msgspec import Struct

from orchestrator.code_review.change.changed_files import changed_files
from orchestrator.code_review.change.git.commands import OID, Git
from orchestrator.code_review.change.git.commits import Commits
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.change.types import Change, to_ranges
from orchestrator.errors import InputError

OTHER_BASE = "it began at another base"
NO_COMMIT = "its head is no commit"
NOT_HERE = "its head is not in this clone"


class ChangedSince(Struct, frozen=True):
    """A file that differs from what the earlier review read.

    Attributes:
        path: in head; of a file that was deleted since, as it was.
        old_path: as it was then; None where it was not there.
        added: first and last line, in head, of what was added or altered since.
    """

    path: str
    old_path: str | None
    added: tuple[tuple[int, int], ...]


async def find_changed_since(
    change: Change, base: str, head: str
) -> tuple[tuple[ChangedSince, ...], str]:
    """The files that changed since an earlier review of the same change, or why nobody knows.

    Args:
        base, head: the commits that the earlier review compared.

    Returns:
        The files, by path, and an empty text; or none, and why what changed cannot be told.
    """
    if not change.has_tree or not OID.fullmatch(head):
        return (), NO_COMMIT
    try:
        async with Objects(Git.of(change)) as objects:
            commits = Commits(objects)
            if base != change.base and await commits.tree(base) != change.base_tree:
                return (), OTHER_BASE
            found = await changed_files(objects, await commits.tree(head), change.head_tree)
    except InputError:
        return (), NOT_HERE
    return tuple(
        ChangedSince(file.path, file.old_path, tuple((a, b) for a, b in to_ranges(file.added)))
        for file in found
    ), ""
