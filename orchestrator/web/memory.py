"""Proposed memory entries from past reviews, as a patch for a person to commit."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from starlette.responses import PlainTextResponse, Response

from orchestrator.app.memory.past_reviews import load_reviews
from orchestrator.app.memory.patch import propose_entries
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.web.site import SitePage, SitePart, Visit


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
        found = [self._propose(repo) for repo in self._repos]
        return visit.render("memory.html", title="Memory", found=found)

    def download(self, visit: Visit) -> Response:
        """One patch as a file."""
        number = visit.values["number"]
        if not (number.isascii() and number.isdigit() and int(number) < len(self._repos)):
            raise InputError("there is no such repository")
        found = self._propose(self._repos[int(number)])
        headers = {"Content-Disposition": 'attachment; filename="memory.patch"'}
        return PlainTextResponse(found.patch, headers=headers)

    def _propose(self, repo: Path) -> Proposal:
        try:
            change = propose_entries(repo, load_reviews(repo, ()))
        except DiffcourtError as error:
            return Proposal(repo, problem=str(error))
        return Proposal(repo, change.patch, change.notes)


def make_memory_part(repos: Sequence[Path]) -> SitePart:
    """The part with memory proposals of some repositories."""
    page = MemoryPage(repos)
    return SitePart(
        [SitePage("/memory", page.show), SitePage("/memory/{number}/memory.patch", page.download)],
        title="Memory",
        path="/memory",
    )
