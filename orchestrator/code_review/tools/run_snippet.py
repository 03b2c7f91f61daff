"""The tool that runs a few lines of Python, so that an agent can show what code does.

A snippet is untrusted: a model that has read the change wrote it, and it may import the change's
modules. So it runs in its own namespaces like tests, only if the user who runs the review allows
this repository's code to run, and it cannot write the tree.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread

from orchestrator.catalog.settings import Tests
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.test_runners import python_of
from orchestrator.code_review.tools.tool_specs import make_spec
from orchestrator.data_directories import read_beside
from orchestrator.engine.ports import CallContext
from orchestrator.engine.program_output_collection import keep_ends
from orchestrator.engine.types import Json, Observation
from orchestrator.errors import InputError, SandboxError
from orchestrator.sandbox.isolated_run import TimeUp, run_isolated
from orchestrator.sandbox.private_paths import require_shareable
from orchestrator.sandbox.process_start import ISOLATED_PYTHON
from orchestrator.sandbox.program_permissions import ResourceLimits

RUN_SNIPPET = "run_snippet"
MAX_CODE = 4 << 10
"""Bytes of a snippet."""
MAX_OUTPUT = 4 << 10
"""Bytes of what it prints that are shown, its beginning and end: an exception's name is last."""
LIMITS = ResourceLimits(seconds=20.0, memory=1 << 30, file_size=16 << 20, files=256, processes=32)
_STATUS = re.compile(r"(?:(?:base|head), )?exit status \d+")
SECONDS = 120.0
"""Of a call: the first one writes the side's tree out."""
OPTIONS = ("-B", "-u", "-X", "utf8")
RUNNER = read_beside(__file__, "snippet_runner.txt")
"""Runs statement by statement and prints each expression with its value."""


class RunSnippet:
    """Runs a snippet in its own namespaces, over a read-only tree of one side.

    Args:
        tests: whose Python and packages it runs with; without any, only our own Python.
        private_paths: what these may not read.
    """

    spec = make_spec(
        RUN_SNIPPET, {"SECONDS": f"{LIMITS.seconds:g}", "BYTES": MAX_OUTPUT}, timeout=SECONDS
    )

    def __init__(
        self,
        workspace: ReviewWorkspace,
        tests: Tests | None = None,
        private_paths: Sequence[Path] = (),
    ) -> None:
        self._workspace, self._private_paths = workspace, private_paths
        python = python_of(tests) if tests else []
        self._python = python or [*ISOLATED_PYTHON, "-S"]
        self._reads = [Path(path) for path in tests.reads] if tests and python else []

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Run the snippet; its output and status are the answer, even if it fails.

        Raises:
            InputError: it is too long, or Python cannot decode it.
            SandboxError: there are no namespaces to run it in.
        """
        code = arguments["code"]
        try:
            size = len(code.encode())
        except UnicodeEncodeError:
            raise InputError("the code is not valid Unicode") from None
        if size > MAX_CODE or "\0" in code:
            raise InputError(f"the code has {size} bytes or a NUL; at most {MAX_CODE}, without NUL")
        if (side := arguments.get("side", "head")) != "both":
            return Observation(await self._run_on(side, code))
        head, base = await self._run_on("head", code), await self._run_on("base", code)
        return Observation(f"head, {head}\n{base}")

    async def _run_on(self, side: SideName, code: str) -> str:
        """Status and output on one side."""
        regular = [*await self._workspace.contents.regular(side)]
        exported, _ = await self._workspace.side(side, regular)
        tree, reads = exported.root.resolve(), self._reads
        argv = [*self._python, *OPTIONS, "-c", RUNNER, str(tree), code]
        try:
            await anyio.to_thread.run_sync(require_shareable, reads, self._private_paths)
            done = await run_isolated(argv, tree, reads=reads, limits=LIMITS, read_only=True)
            how = f"exit status {done.code}"
        except TimeUp as late:
            done, how = late.output, f"ended after {LIMITS.seconds:g} s, because it ran out of time"
        except SandboxError as error:
            raise SandboxError(f"snippet not run: {error}") from None
        # The tree's path differs in each run and means nothing to a reader.
        printed = done.stdout.replace(os.fsencode(f"{tree}/"), b"")
        how = f"base, {how}" if side == "base" else how
        shown = keep_ends(printed, MAX_OUTPUT).decode("utf-8", "replace").rstrip("\n")
        return f"{how}\n{shown}"


def citable_part(answer: str, code: str) -> str:
    """An answer without its status and the snippet's own lines, which are no evidence."""
    lines = answer.split("\n")
    kept = (line for line in lines if line.strip() not in code and not _STATUS.fullmatch(line))
    return "\n".join(kept)
