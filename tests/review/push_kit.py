"""A branch that is pushed to and reviewed again and again, by agents that say what a test says."""

import json
import shutil
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.types import Request, Text
from tests.review.review_kit import Repo, review, templates
from tests.review.team_kit import plan, report, sums
from tests.scripted_model import ScriptedModel, ScriptedReply, text_reply


def said(*findings: Mapping[str, object], **more: object) -> ScriptedReply:
    """A report with these findings."""
    return text_reply(
        json.dumps({"summary": "Looked.", "findings": findings, "checked": [], **more})
    )


def claims(quote: str, title: str, line: int = 1, **more: object) -> dict[str, object]:
    """A finding in ``app.py``, of medium severity unless something else is said."""
    return {
        "path": "app.py", "start_line": line, "end_line": line, "quote": quote, "title": title,
        "detail": f"{title} at runtime.", "severity": "medium", "confidence": 0.8,
        "category": "qa", **more,
    }  # fmt: skip


def disputes(finding: Finding, quote: str, **more: object) -> dict[str, object]:
    """A dispute that cites a line of ``app.py``."""
    return {
        "finding": finding.fingerprint, "action": "dispute", "reason": "It cannot happen.",
        "evidence": [{"source": "file", "name": "app.py", "quote": quote}], **more,
    }  # fmt: skip


TEAM: dict[str, list[ScriptedReply]] = {
    "lead": [plan("security", "qa"), sums()],
    "security": [report()],
    "qa": [report()],
}
"""A lead and two specialists who find nothing."""


def alone(settings: ReviewSettings) -> ReviewSettings:
    """One agent, whom nobody judges, in one round."""
    one_round = replace(settings.bounds, iterations=1)
    return replace(settings, provider="scripted", pattern="single", judge=False, bounds=one_round)


def judged(settings: ReviewSettings) -> ReviewSettings:
    """One agent and a judge, who is asked where a file is ``UNREAD``, whatever findings decide."""
    return replace(alone(settings), judge=True)


UNREAD = {"core.bin": b"\x7fELF\0\1\2"}
"""A file that nobody can read."""


def together(settings: ReviewSettings) -> ReviewSettings:
    """The team, whom nobody judges, in one round."""
    return replace(alone(settings), pattern="team")


class Branch:
    """A branch with a review of each push; ``verdict`` is the last one."""

    verdict: Verdict | None = None
    requests: Sequence[Request] = ()

    def __init__(self, path: Path, base: Mapping[str, str]) -> None:
        self.repo = Repo(path)
        self.repo.commit({"README.md": "# A project\n", **base})
        self.repo.git("checkout", "-q", "-b", "feature")

    @classmethod
    async def pushed(
        cls, path: Path, base: Mapping[str, str], files: Mapping[str, str], *reply: ScriptedReply
    ) -> Self:
        """A branch after its first push, which is reviewed once for all that begin with it."""
        key = (*base.items(), *files.items(), repr(reply))
        if key not in _PUSHED:
            first = cls(templates() / f"branch{len(_PUSHED)}", base)
            await first.push(files, *reply)
            _PUSHED[key] = first
        kept = _PUSHED[key]
        shutil.copytree(kept.repo.path, path, dirs_exist_ok=True)
        made = cls.__new__(cls)
        made.repo, made.verdict, made.requests = Repo(path), kept.verdict, kept.requests
        return made

    async def push(
        self,
        files: Mapping[str, str | None],
        *reply: ScriptedReply,
        team: Mapping[str, Sequence[ScriptedReply]] | None = None,
        **given: object,
    ) -> Verdict:
        """Commit, and have the branch reviewed."""
        self.repo.commit(files)
        return await self.look(*reply, team=team, **given)

    async def look(
        self,
        *reply: ScriptedReply,
        team: Mapping[str, Sequence[ScriptedReply]] | None = None,
        **given: object,
    ) -> Verdict:
        """Have the generalist, or a team, review the branch as it is."""
        model = ScriptedModel(team or {"generalist": list(reply or [said()])})
        adjust = together if team else alone
        options = {"base": "main", "previous": self.verdict, "adjust": adjust, **given}
        self.verdict = await review(self.repo, model, **options)  # type: ignore[arg-type]
        model.finish()
        self.requests = model.requests
        return self.verdict

    def opening(self, number: int = 0) -> str:
        """What the agents of the last review were shown first, in the request of that number."""
        first, *_ = self.requests[number].messages[0].blocks
        assert isinstance(first, Text)
        return first.text


_PUSHED: dict[Hashable, Branch] = {}


def open_titles(verdict: Verdict) -> list[str]:
    """The titles of what is open in ``app.py`` and an agent reports, in their order."""
    return [
        one.title
        for one in verdict.findings
        if one.state == "open" and one.support != "proven" and one.path.startswith("app")
    ]
