"""The lead's tool: a plan proposed from the names of changed files.

The proposed plan is computed by code. A model may plan differently; files that its plan does not
mention are added when the plan is read.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from diffchecks.jobs import ChangedFile
from diffchecks.path_kinds import path_kinds
from orchestrator.code_review.review_workspace import IterationFocus, ReviewWorkspace
from orchestrator.code_review.tools.tool_specs import make_spec
from orchestrator.engine.ports import CallContext
from orchestrator.engine.types import Json, Observation

LINES_OF_RISK = 200  # more lines add no risk
KINDS_OF_RISK = {"ci": 150, "code": 100, "other": 50, "test": -300}  # below all others

SENSITIVE = (
    "auth", "login", "crypt", "secret", "token", "session", "password", "permission", "sql",
)  # fmt: skip


def kind_of(path: str) -> str:
    """The kind of a file in a plan: ``test``, ``code``, ``docs``, ``ci`` or ``other``."""
    kinds = path_kinds(path)
    if "ci" in kinds:
        return "ci"
    if "documents" in kinds and not kinds >= {"tests", "code"}:
        return "docs"
    if "tests" in kinds:
        return "test"
    return "code" if "code" in kinds else "other"


def risk(file: ChangedFile) -> int:
    """The risk of a file, by which files are ordered for review."""
    size = min(len(file.added) + len(file.removed), LINES_OF_RISK)
    names = 100 * any(word in file.path.lower() for word in SENSITIVE)
    return size + names + KINDS_OF_RISK.get(kind_of(file.path), 0)


def by_risk(files: Iterable[ChangedFile]) -> list[ChangedFile]:
    """The files, riskiest first."""
    return sorted(files, key=lambda file: (-risk(file), file.path))


def describe_file(file: ChangedFile) -> str:
    """Path, status, kind and size of a changed file."""
    renamed = f", from {file.old_path}" if file.old_path not in {None, file.path} else ""
    size = f"+{len(file.added)} -{len(file.removed)}"
    return f"{file.path}: {file.status}, {kind_of(file.path)}, {size}{renamed}"


class ProposePlan:
    """Proposes scopes per specialist, computed from the files.

    Args:
        specialists: agents to give work to, in order.
        focus: the present iteration and what to review again.
        required: names of the checks that the policy requires of this change.
    """

    spec = make_spec("propose_plan")

    def __init__(
        self,
        workspace: ReviewWorkspace,
        specialists: Sequence[str],
        focus: IterationFocus,
        required: Sequence[str],
    ) -> None:
        self._workspace, self._specialists = workspace, specialists
        self._focus, self._required = focus, required

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Propose a plan; it is deterministic."""
        workspace, focus = self._workspace, self._focus
        open_files = [file for file in workspace.change.files if workspace.reviewable(file)]
        ordered = [file.path for file in by_risk(open_files)]
        scopes: Mapping[str, Sequence[str]] = dict.fromkeys(self._specialists, ordered)
        why = "every changed file, riskiest first"
        if focus.retry is not None:
            scopes, why = focus.retry, "what the last iteration missed"
        tasks = [{"agent": name, "paths": [*paths], "why": why} for name, paths in scopes.items()]
        plan = {
            "summary": f"{len(ordered)} files for {len(tasks)} specialists",
            "tasks": tasks,
            "skips": [
                {"path": file.path, "why": reason}
                for file in workspace.change.files
                if not workspace.reviewable(file) and (reason := workspace.left_out(file))
            ],
            "required_checks": list(self._required),
            "open_questions": [],
        }
        return Observation(json.dumps(plan))
