"""Reviews for programs: the same as ``diffcourt review``, as a function."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import to_builtins

from orchestrator.app.run_review import open_new_run
from orchestrator.app.types import ReviewOptions
from orchestrator.engine.observer_events import Observer, ignore_event
from orchestrator.foreign_json import escape_surrogates, map_strings
from orchestrator.library.verdict_models import Verdict


async def review(  # noqa: PLR0913 - options, all by keyword
    repo: str | Path = ".",
    *,
    base: str | None = None,
    head: str | None = None,
    worktree: bool = False,
    diff: bytes | None = None,
    paths: Sequence[str] = (),
    title: str | None = None,
    description: str | None = None,
    provider: str | None = None,
    pattern: str | None = None,
    effort: str | None = None,
    max_minutes: float | None = None,
    max_usd: float | None = None,
    run_tests: bool | None = None,
    run_analyzers: bool | None = None,
    allow_spending: bool | None = None,
    observer: Observer = ignore_event,
) -> Verdict:
    """Review a change, on asyncio or trio. The run is kept in the repository's state directory.

    >>> anyio.run(partial(review, repository, base="HEAD~1")).verdict
    'needs_changes'

    Args:
        repo: a directory of the repository.
        base, head: the git refs to compare; None: the merge base with the default branch, HEAD.
        worktree, diff: review the files of the work tree, committed or not, or a unified diff.
        paths: directories or files of the repository to which the review is limited; empty: all.
        title, description: the author's title and description; None: those of the CI's variables.
        provider, pattern, effort, max_minutes, max_usd: as the command's; None: the policy's.
        run_tests, run_analyzers, allow_spending: base's tests and agents' snippets may run, so may
            its analyzers, and its paid provider and bounds hold; None: the environment decides.
        observer: called with every event of the run.

    Raises:
        InputError, ConfigError: the change cannot be reviewed; says what to do.
        ProviderRefused: the provider refuses every call; ``diffcourt resume`` continues the run.
    """
    given = {name: value for name, value in locals().items() if name != "observer"}
    options = ReviewOptions(**{**given, "repo": Path(repo)})
    with open_new_run(options, observer) as session:
        document = map_strings(to_builtins(await session.review()), escape_surrogates)
        return Verdict.model_validate(document)
