"""Real repositories in a temporary folder, and cases opened over them."""

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.policy_sources import read_base_layers, read_layers
from orchestrator.app.previous_reviews import know_change
from orchestrator.app.runs.forking import dropped_findings
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.data_file_layers import Layer, read_shipped_layer
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.shared_literals import Environment
from orchestrator.code_review.assemble_verdict import conclude_review
from orchestrator.code_review.change.change_construction import from_refs
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.findings.previous_review import compare_with_previous
from orchestrator.code_review.policy_loading import Policy, load_rules, read_policy
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.review_setup import OpenModel, open_review
from orchestrator.code_review.review_workspace import ReviewWorkspace, open_review_workspace
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine import state_machine
from orchestrator.engine.journal import open_journal
from orchestrator.engine.journal_keys import FORK_NOTE
from orchestrator.engine.model_routing import ModelChoice, choose_named_model
from orchestrator.engine.observer_events import Event, ignore_event
from orchestrator.engine.ports import JournalStore, Model, SystemClock
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.types import AgentSpec
from orchestrator.providers.offline import OfflineModel
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.review import first_commits

SHORT_LIVED = ("-c", "maintenance.auto=false", "-c", "core.fsync=none")
"""What a repository that lives as long as a test does not need takes half the time of a commit."""
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@example.invalid", *SHORT_LIVED)

PYTEST_ALONE = {"pytest.ini": "[pytest]\naddopts = --disable-plugin-autoload\n"}
"""For repositories whose tests are run: pytest alone starts in a fifth of the time."""


def in_ci(patch: pytest.MonkeyPatch) -> None:
    """Set what GitHub Actions sets."""
    patch.setenv("CI", "true")
    patch.setenv("GITHUB_ACTIONS", "true")


class Repo:
    """A git repository that is built commit by commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / ".git").exists():
            shutil.copytree(empty_repository(), path / ".git")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            [*GIT, "-C", str(self.path), *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    @property
    def head(self) -> str:
        """The newest commit, without a process where it is that of a branch."""
        with suppress(OSError):
            name = (self.path / ".git/HEAD").read_text().strip().removeprefix("ref: ")
            return (self.path / ".git" / name).read_text().strip()
        return self.git("rev-parse", "HEAD")

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        for name, content in files.items():
            place = self.path / name
            if content is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, str | bytes | None], message: str = "change") -> str:
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head


@cache
def templates() -> Path:
    """A folder for repositories that tests get copies of."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def empty_repository() -> Path:
    """The .git of a repository without commits: it is copied in a tenth of the time."""
    folder = templates() / "empty"
    subprocess.run([*GIT, "init", "-q", "-b", "main", "--template=", folder], check=True)
    return folder / ".git"


def change(
    path: Path,
    base: Mapping[str, str | bytes],
    head: Mapping[str, str | bytes | None],
    past: Iterable[tuple[str, Mapping[str, str | bytes]]] = (),
) -> Repo:
    """A repository of two commits, and those before them, each with its message."""
    repo = Repo(path)
    commits: list[tuple[str, Mapping[str, str | bytes | None]]] = [
        *past,
        ("change", {"README.md": "# A project\n", **base}),
        ("change", head),
    ]
    if first_commits.can_commit(path, commits):
        for _, files in commits:
            repo.write(files)
        first_commits.commit(path, commits)
    else:
        for message, files in commits:
            repo.commit(files, message)
    return repo


def options(repo: Path | None, **given: Any) -> ReviewOptions:
    """Options that review the newest commit, unless others are given."""
    return ReviewOptions(**{"repo": repo, "base": "HEAD~1", **given})


def unchanged(settings: ReviewSettings) -> ReviewSettings:
    return settings


async def review(
    repo: Repo,
    model: Model | None = None,
    *,
    adjust: Callable[[ReviewSettings], ReviewSettings] = unchanged,
    store: JournalStore | None = None,
    run_id: str = "run",
    environment: Environment = "local",
    observer: Callable[[Event], None] = ignore_event,
    secrets: Sequence[str] = (),
    tier: str = "",
    choose_model: Callable[[AgentSpec], ModelChoice] = choose_named_model,
    base: str = "HEAD~1",
    previous: Verdict | None = None,
    run_tests: bool = False,
    fixer: bool = False,
    prover: bool = False,
    verifier: bool = False,
) -> Verdict:
    """One review with a given model; the rest is what the command wires.

    Args:
        fixer: an agent writes patches at the end, for which the model's script has lines.
        prover: an agent writes tests of findings, for which the model's script has lines.
        verifier: an agent verifies claims, for which the model's script has lines.
    """
    layers: list[Layer] = []

    async def read_policy_layers(objects: Objects, commit: str | None) -> None:
        layers.extend(await read_base_layers(objects, commit))

    found = await from_refs(repo.path, base, "HEAD", read_policy_layers)
    known = await know_change("", [previous] if previous else [], found)
    clock = SystemClock()
    if store is None:
        store = MemoryStore(clock)
        await store.create(run_id, clock.now(), {})
    redact = Redactor(secrets)
    async with open_journal(run_id, store, clock, holder="test", redact=redact) as journal:
        read = _shipped_policy if len(layers) == 1 else partial(read_policy, layers)
        policy = read(environment=environment, author_tier=tier)
        policy = replace(policy, settings=adjust(policy.settings), run_tests=run_tests)
        if not fixer:
            fixes = replace(policy.settings.fixes, agent=None)
            policy = replace(policy, settings=replace(policy.settings, fixes=fixes))
        if not prover:
            proofs = replace(policy.settings.proofs, agent=None)
            policy = replace(policy, settings=replace(policy.settings, proofs=proofs))
        if not verifier:
            verify = replace(policy.settings.verify, agent=None)
            policy = replace(policy, settings=replace(policy.settings, verify=verify))
        opened = OpenModel(model or OfflineModel(), choose_model)
        async with (
            new_pool() as pool,
            open_review(
                policy,
                found,
                journal,
                model=opened,
                pool=pool,
                handed_over=known.handed_over,
                observer=observer,
            ) as state,
        ):
            if forked := journal.noted(FORK_NOTE):
                state.dropped = dropped_findings(forked)
            await state_machine.run(FLOW, state, journal, observer)
            verdict = await conclude_review(state)
            if known.previous is None:
                return verdict
            return await compare_with_previous(
                verdict, known.previous, state.given.workspace.read_head, state.why_unsettled
            )


@cache
def _shipped_policy(*, environment: Environment, author_tier: str) -> Policy:
    """The policy of a base without its own, which most reviews have; it is read once."""
    return read_policy([read_shipped_layer()], environment=environment, author_tier=author_tier)


@asynccontextmanager
async def workspace_of(repo: Repo) -> AsyncIterator[ReviewWorkspace]:
    """The ground of a review of the newest commit."""
    found = await from_refs(repo.path, "HEAD~1", "HEAD")
    rules = load_rules(await read_layers(found))
    async with open_review_workspace(found, rules, {}, cores=1) as workspace:
        yield workspace


def bounded(settings: ReviewSettings, **bounds: float) -> ReviewSettings:
    """Settings with other bounds: ``partial(bounded, tool_calls=3)``."""
    return replace(settings, bounds=replace(settings.bounds, **bounds))


__all__ = [
    "Repo",
    "bounded",
    "change",
    "options",
    "partial",
    "review",
    "templates",
    "unchanged",
    "workspace_of",
]


class MemoryCache:
    """A result cache in memory."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {key: self.entries[key] for key in keys if key in self.entries}

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        self.entries.update(entries)
