"""The tool that proves a finding by a test: base passes it, and head fails as was predicted.

The test is code that a model wrote after it had read a hostile change. It runs as the change's own
tests do: in namespaces without a network, in a scratch copy, only where the user allows it. Both
sides have the test set-up of base, so that nothing of the change decides how its defect is tested.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from posixpath import dirname

import anyio.to_thread
from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from diffchecks.test_quality.proof_ends import (
    NoProof,
    Prediction,
    is_as_predicted,
    passes_base,
    require_as_predicted,
    require_imports,
)
from diffchecks.test_quality.proof_python import ProofTestJob
from diffchecks.test_quality.proof_runs import TestEnd
from orchestrator.catalog.settings import Tests
from orchestrator.code_review.agent_report_contracts import WrittenTest
from orchestrator.code_review.analyzers.own_checks import call_check
from orchestrator.code_review.analyzers.run_tests import (
    LIMITS,
    link_packages,
    save_report,
    side_files,
    with_setup_of_base,
)
from orchestrator.code_review.change.contents import SIDES, SideName
from orchestrator.code_review.json_schema_generation import inlined
from orchestrator.code_review.review_workspace import TREES
from orchestrator.code_review.tools.proof_trees import ProofTree
from orchestrator.code_review.tools.test_runners import SingleTest, require_test_path
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.code_review.verdict.document_parts import NEARBY, UNTIED, Proof, ProofState
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.ports import CallContext
from orchestrator.engine.program_output_collection import ProgramOutput
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.errors import DiffcourtError, SandboxError
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.isolated_run import TimeUp, run_isolated
from orchestrator.sandbox.private_paths import require_shareable
from orchestrator.sandbox.worker_pool import WorkerPool

PROVE_FINDING = "prove_finding"
MAX_SECONDS = 60.0
"""Of processor time, of one run; there are at most seven, and compiling for each side."""
WALL = 4.0
"""How much longer a run may take, on a machine that has other work or where a test waits."""
SHOWN_OUTPUT = 1_500
LATE = "no end within "
REPORT = ".diffcourt-proof-report"
CHECK_SECONDS = 60.0
_VERSIONS = re.compile(r"Python [\d.]+\w*, pytest-[\d.]+\w*")


class Place(Struct, frozen=True):
    """The lines of head, or with ``removed`` of base, and the names, in which a finding sees it."""

    path: str
    first: int
    last: int
    removed: bool = False
    names: Sequence[str] = ()


class PlacedTest(WrittenTest, frozen=True):
    """A test, and what it has to rest on; None: that is known.

    Attributes:
        only_imports: the text is code's own, to see whether base's tests can run at all.
    """

    place: Place | None = None
    only_imports: bool = False


class ProveFinding:
    """Runs a proposed test on base and on head, twice each."""

    about = "Whether a test shows a finding: base passes it, and head fails it as predicted."

    def __init__(self, tests: Tests, single: SingleTest, inputs: ToolInputs) -> None:
        self._tests, self._single, self._inputs = tests, single, inputs
        self._runs = 0
        self._trees: dict[SideName, ProofTree] = {}
        self._compiled = set[tuple[SideName, str]]()
        self._paths, self._base = list[str](), ""
        self._known_versions: str | None = None
        seconds = 9 * WALL * min(tests.seconds, MAX_SECONDS) + 60
        self.spec = ToolSpec(PROVE_FINDING, self.about, inlined(PlacedTest), timeout=seconds)

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Run the test; the answer is how it ended."""
        proposed = convert(arguments, PlacedTest)
        ends: dict[str, list[tuple[TestEnd, str]]] = {"head": [], "base": []}
        state: ProofState = "reproduced"
        reason = untied = ""
        try:
            untied = await self._prove(proposed, ends)
        except NoProof as refused:
            state, reason = refused.state, str(refused)
        except DiffcourtError as error:
            state, reason = "inconclusive", f"it was not run: {error}"
        shown = {side: runs[0][1][-SHOWN_OUTPUT:] if runs else "" for side, runs in ends.items()}
        versions = await self._versions(shown["head"]) if state == "reproduced" else ""
        proof = Proof(
            **shared_fields(proposed, Proof),
            state=state,
            command=self._single.shown(proposed.path),
            base=shown["base"],
            head=shown["head"],
            versions=versions,
            reason=" ".join(reason.split()),
        ).without(untied)
        result = {"state": state, "reason": proof.reason, "base": proof.base, "head": proof.head}
        return Observation(json.dumps(result), to_builtins(proof))

    async def _versions(self, printed: str) -> str:
        """What the test ran with, in the words of these programs."""
        if found := _VERSIONS.search(printed):
            return found[0]
        if self._known_versions is None:
            versions = [await self._said_by(argv) for argv in self._single.version_commands()]
            self._known_versions = ", ".join(filter(None, versions))
        return self._known_versions

    async def _said_by(self, argv: Sequence[str]) -> str:
        with scratch_directory.temporary_directory() as directory:
            tree = directory / "tree"
            tree.mkdir()
            link_packages(self._tests.reads, tree)
            try:
                done = await _isolated(self._tests, argv, tree)
            except SandboxError:
                return ""
        version = " ".join(done.stdout.decode("utf-8", "replace").split())[:100]
        name = Path(argv[-2]).name
        told = version if name[:4] in version.lower() else f"{name} {version}"
        return "" if done.code else told

    async def _prove(self, proposed: PlacedTest, ends: dict[str, list[tuple[TestEnd, str]]]) -> str:
        """Run the test on head and on base, in turns; return if it is reproduced.

        Returns:
            What the runs do not show.
        """
        if not proposed.only_imports:
            await self._require_honest(proposed)
        predicted = Prediction(**shared_fields(proposed, Prediction), base=self._base)
        workspace = self._inputs.workspace
        if not self._trees:
            # What decides how tests run is base's on both sides.
            _, head = await with_setup_of_base(workspace, self._tests)
            parts = {"head": head, "base": [await side_files(workspace, "base", {})]}
            root = workspace.root / TREES
            self._trees = {side: ProofTree(parts[side], root, REPORT) for side in SIDES}
        if proposed.only_imports:
            require_imports((await self._run("base", proposed))[0])
            return ""
        is_removal = False
        for _ in range(2):
            for side in reversed(SIDES):
                ends[side].append(await self._run(side, proposed))
                end, again = ends[side][-1][0], len(ends[side]) > 1
                is_removal |= require_as_predicted(predicted, side, end, self._paths, again=again)
        untied = await self._not_tied(proposed, predicted)
        if is_removal and untied == UNTIED:
            raise NoProof("it shows that a name is gone, which does not rest on the cited lines")
        return untied

    async def _not_tied(self, proposed: PlacedTest, predicted: Prediction) -> str:
        """Run the test on head with base's lines at its place; what that does not show.

        Raises:
            NoProof: head fails there as well, for the sake of another change.
        """
        place = proposed.place
        if place is None:
            return ""
        workspace = self._inputs.workspace
        file = workspace.files.get(place.path)
        if file is None or file.status != "modified":
            return UNTIED
        paths = [one.path for one in workspace.change.files if one.status == "modified"]
        roots = [str((await workspace.side(side, paths))[0].root) for side in SIDES]
        job = {**to_builtins(place), "roots": roots, "paths": paths}
        function, reply = "test_quality.taken_back:run", list[dict[str, str]]
        try:
            levels = await call_check(self._inputs.pool, function, job, CHECK_SECONDS, reply)
        except SandboxError:  # a file is too large to compare
            return UNTIED
        if not levels:
            return UNTIED
        cited, named, whole, alone, near = levels
        taken, (end, _) = cited, await self._run("head", proposed, cited)
        for wider in (named, whole) if is_as_predicted(predicted, end) else (alone, near):
            is_late = end.message.startswith(LATE)  # and a wider part would be as well
            if not (is_late or passes_base(predicted, end) or wider == taken):
                taken, (end, _) = wider, await self._run("head", proposed, wider)
        if passes_base(predicted, end):
            return NEARBY if taken == whole != named else ""
        if is_as_predicted(predicted, end):
            raise NoProof(
                f"head fails it with base's lines at {place.path}:{place.first} as well: it shows "
                "another difference than the finding's"
            )
        return UNTIED

    async def _require_honest(self, proposed: WrittenTest) -> None:
        """Check the text of the test and where it goes.

        Raises:
            NoProof, InputError: it could prove nothing.
        """
        contents, runner = self._inputs.workspace.contents, self._single.runner
        self._paths = [path for side in SIDES for path in await contents.paths(side)]
        require_test_path(proposed.path, runner, self._paths)
        paths = list(self._inputs.workspace.files)
        exported = [await self._inputs.workspace.side(side, paths) for side in SIDES]
        roots = [str(side.root) for side, _ in exported]
        changed = ProofTestJob("", "", paths).changed(roots[:1])
        self._base = "\n".join(text for _, text in changed)
        job = {
            "text": proposed.test,
            "language": runner.language,
            "paths": paths,
            "roots": roots,
            "same": proposed.oracle == "same",
            "exception": proposed.exception,
            "value": proposed.value,
        }
        found = await call_check(
            self._inputs.pool, "test_quality.proof_tests:run", job, CHECK_SECONDS, list[str]
        )
        if found:
            raise NoProof(f"the test proves nothing: it {'; it '.join(found)}")
        reads = [Path(path) for path in self._tests.reads]
        await anyio.to_thread.run_sync(require_shareable, reads, self._inputs.private_paths)

    async def _run(
        self, side: SideName, proposed: WrittenTest, taken_back: Mapping[str, str] = {}
    ) -> tuple[TestEnd, str]:
        """One run: how the test ended, and what the runner printed.

        Args:
            taken_back: path → text instead of the side's, a character a byte.
        """
        await self._compile(side, proposed)
        self._runs += 1
        keep, tree = self._inputs.workspace.root / f"prove_finding-{self._runs}", self._trees[side]
        files = {path: text.encode("latin-1") for path, text in taken_back.items()}
        files[proposed.path] = proposed.test.encode()
        given = (self._tests, self._single, self._inputs.pool)
        (end, printed, _), edited = await tree.run(
            files, lambda place: run_test(*given, place, proposed.path, keep, cache=tree.cache)
        )
        if edited:
            end = TestEnd("broken", message=f"the test changed {edited}")
        return end, printed

    async def _compile(self, side: SideName, proposed: WrittenTest) -> None:
        """Compile what a test imports for the runs on a side, once for the test's directory."""
        argv = self._single.compile_argv(proposed.path)

        async def compiling(tree: Path, cache: Path) -> None:
            with suppress(TimeUp):  # what is compiled by then is kept
                await _isolated(self._tests, _with_cache(argv, cache), tree)

        for one in SIDES[: SIDES.index(side) + 1] if argv else ():
            place = one, dirname(proposed.path)
            if place not in self._compiled:
                self._compiled.add(place)
                test = {proposed.path: proposed.test.encode()}
                await self._trees[one].fill_cache(test, compiling, self._trees["base"].cache)


async def run_test(
    tests: Tests,
    single: SingleTest,
    pool: WorkerPool,
    tree: Path,
    path: str,
    keep: Path,
    *,
    cache: Path | None = None,
) -> tuple[TestEnd, str, int]:
    """Run a test file in the sandbox, in a tree of its own.

    Args:
        keep: where its report is copied to.
        cache: a build cache that it may read.

    Returns:
        How its test ended, what the runner printed, and its exit status, 1 without one.
    """
    link_packages(tests.reads, tree)
    argv = single.argv(path, REPORT)
    try:
        done = await _isolated(tests, argv, tree, cache)
    except TimeUp as late:
        text = (late.output.stdout + late.output.stderr).decode("utf-8", "replace")
        return TestEnd("broken", message=f"{LATE}{late.bound}"), text, 1
    wants_report = any(REPORT in word for word in argv)
    error = await anyio.to_thread.run_sync(save_report, tree, REPORT if wants_report else "", keep)
    printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    # The name of a scratch directory differs in each run.
    shown = printed.replace(f"{tree}/", "").replace(str(tree), ".")
    if error:
        message = f"its report {error}: {shown.strip()[-SHOWN_OUTPUT:]}"
        return TestEnd("broken", message=message), shown, done.code or 1
    job = {
        "format": single.runner.format,
        "code": done.code,
        "printed": printed,
        "report": str(keep) if wants_report else "",
    }
    end = await call_check(pool, "test_quality.proof_runs:run", job, CHECK_SECONDS, TestEnd)
    if end.message.split("\n")[0] not in printed:  # its report alone says how it failed
        shown = f"{end.trace or end.message}\n{shown}".replace(f"{tree}/", "")
    return end, shown, done.code or 0


async def _isolated(
    tests: Tests, argv: Sequence[str], tree: Path, cache: Path | None = None
) -> ProgramOutput:
    reads = [Path(path) for path in tests.reads]
    seconds = min(tests.seconds, MAX_SECONDS)
    limits = replace(LIMITS, seconds=WALL * seconds, processor_seconds=seconds)
    argv = _with_cache(argv, cache) if cache else argv
    ours = [cache] if cache else []
    return await run_isolated(argv, tree, reads=reads, limits=limits, ours=ours)


def _with_cache(argv: Sequence[str], cache: Path) -> list[str]:
    """A command with Go's cache; without an index of files, which it could not write there."""
    return ["env", f"GOCACHE={cache}", "GODEBUG=goindex=0", *argv]
