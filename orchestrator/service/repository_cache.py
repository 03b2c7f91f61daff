"""Bare clones of the reviewed repositories; only git's fetch gets a token."""

import asyncio
import base64
import fcntl
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from orchestrator.code_review.change.git.commands import find_git
from orchestrator.data_directories import read_table
from orchestrator.errors import DiffcourtError
from orchestrator.sandbox.process_start import start_asyncio_process
from orchestrator.service.changes import StoredChange

_GIT: Mapping[str, Mapping[str, str]] = read_table(__file__, "git_options.yaml")
FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
FETCH_SECONDS = 600.0


class FetchFailed(DiffcourtError, exit_code=3):
    """A repository could not be fetched; another attempt may succeed."""


class RepositoryCache:
    """Clones in one directory, which workers of one machine may share.

    Args:
        root: the directory; each installation has its own subdirectory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def place(self, change: StoredChange) -> Path:
        """The directory that holds the clone of a change's repository, as ``.git``.

        A bare repository at its top would not be found where the cache lies in a work tree.
        """
        name = f"{change.forge}\0{change.installation}\0{change.repository}"
        return self._root / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    async def fetch(self, change: StoredChange, kind: str, token: str) -> str:
        """Fetch base and head of a change's run into the clone; returns base's commit id.

        Args:
            kind: of the forge, which determines the refs of requests.
            token: for git; empty for a public repository.

        Raises:
            FetchFailed: the forge does not answer, or has no such repository or commit.
        """
        place = self.place(change)
        place.mkdir(parents=True, exist_ok=True)
        lock = await asyncio.to_thread(_lock, place.with_suffix(".lock"))
        try:
            if not (place / ".git" / "HEAD").exists():
                await _git(place, "init", "--quiet", "--bare")
            await _git(place, "config", "remote.origin.url", change.clone_url)
            base = change.base_commit or change.run_base
            if not (await _has(place, base) and await _has(place, change.run_head)):
                head = _GIT["head_refs"][kind].format(change.number)
                keep = f"refs/diffcourt/{change.number}"
                refs = (f"+{base}:{keep}/base", f"+{head}:{keep}/head")
                await _git(place, *FETCH, "origin", *refs, token=token)
                base = (await _git(place, "rev-parse", f"{keep}/base")).decode().strip()
            if not await _has(place, change.run_head):
                raise FetchFailed(f"{change.change} has no commit {change.run_head[:12]} any more")
        finally:
            os.close(lock)
        return base


def _lock(path: Path) -> int:
    """Wait for a lock on a file; closing the descriptor releases it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


async def _has(place: Path, commit: str) -> bool:
    """Whether a clone has a commit and, since fetches are complete, its history.

    False for a branch: only the forge knows its present commit.
    """
    if commit.startswith("refs/"):
        return False
    try:
        await _git(place, "cat-file", "-e", f"{commit}^{{commit}}")
    except FetchFailed:
        return False
    return True


async def _git(place: Path, *arguments: str, token: str = "") -> bytes:
    """Run git for the clone in a directory; returns what it printed.

    Raises:
        FetchFailed: it failed; says why without the token.
        InputError: git is not installed.
    """
    git_dir = place / ".git"
    process = await start_asyncio_process(
        (find_git(), f"--git-dir={git_dir}", *arguments), env=_environment(token)
    )
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(), FETCH_SECONDS)
    except TimeoutError:
        raise FetchFailed(f"git {arguments[0]} took longer than {FETCH_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        lines = stderr.decode("utf-8", "replace").replace(token or "\0", "[redacted]").splitlines()
        reason = next((line for line in lines if line.startswith("fatal: ")), "it gave no reason")
        raise FetchFailed(f"git {arguments[0]} failed: {reason.removeprefix('fatal: ')[:300]}")
    return stdout


def _environment(token: str) -> Mapping[str, str]:
    """The environment of git; a token is sent only to its address: redirects are not followed."""
    options = dict(_GIT["config"])
    if token:
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        options["http.extraHeader"] = f"Authorization: Basic {basic}"
    numbered = enumerate(options.items())
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        **_GIT["environment"],
        "GIT_CONFIG_COUNT": str(len(options)),
        **{f"GIT_CONFIG_KEY_{number}": name for number, (name, _) in numbered},
        **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(options.values())},
    }
