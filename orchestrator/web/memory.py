"""Proposed memory entries from past reviews, as a patch for a person to commit."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from starlette.responses import PlainTextResponse, Response

from orchestrator.app.memory.past_reviews import load_reviews
from orchestrator.app.memory.patch import make_patch, propose_entries, prune_entries
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.web.site import SitePage, SitePart, Visit

WHICH = {"": propose_entries, "prune": prune_entries}


class Proposal(Struct, frozen=True):
    """A patch to one repository's memory; ``problem`` says why there is none."""

    repo: Path
    patch: str = ""
    notes: Sequence[str] = ()
    problem: str = ""


class MemoryPage:
    """Computes proposals from the runs on each request; writes nothing."""

    def __init__(self, repos: Sequence[Path]) -> None:
        self._repos = repos

    def show(self, visit: Visit) -> Response:
        """The patches, one for each repository."""
        which = visit.query.get("which", "")
        found = [self._propose(repo, which) for repo in self._repos]
        return visit.render("memory.html", title="Memory", found=found, which=which)

    def download(self, visit: Visit) -> Response:
        """One patch as a file."""
        number = visit.values["number"]
        if not (number.isascii() and number.isdigit() and int(number) < len(self._repos)):
            raise InputError("there is no such repository")
        found = self._propose(self._repos[int(number)], visit.query.get("which", ""))
        headers = {"Content-Disposition": 'attachment; filename="memory.patch"'}
        return PlainTextResponse(found.patch, headers=headers)

    def _propose(self, repo: Path, which: str) -> Proposal:
        try:
            change = WHICH.get(which, propose_entries)(repo, load_reviews(repo, ()))
            patch = make_patch(change.before, change.after)
        except DiffcourtError as error:
            return Proposal(repo, problem=str(error))
        return Proposal(repo, patch, change.notes)


def make_memory_part(repos: Sequence[Path]) -> SitePart:
    """The part with memory proposals of some repositories."""
    page = MemoryPage(repos)
    return SitePart(
        [SitePage("/memory", page.show), SitePage("/memory/{number}/memory.patch", page.download)],
        title="Memory",
        path="/memory",
    )
