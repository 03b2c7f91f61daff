"""Apply the patches of a verdict to the work tree, or prove them again."""

import os
import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path, PurePosixPath

import anyio
from msgspec import Struct
from msgspec.structs import replace

from diffchecks.fixes.patches import (
    LineReplacement,
    apply_replacements,
    find_replacements,
    read_patch,
)
from diffchecks.safe_paths import SafeDirectory
from diffchecks.unified_diff import PatchRefused
from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.find_change import resolve_change
from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.memory.waiver_files import find_finding
from orchestrator.app.model_opening import open_model
from orchestrator.app.policy_sources import load_policy, read_layers
from orchestrator.app.run_one_test import project_tests, tests_of
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.rollback import make_rollback
from orchestrator.app.runs.stored_runs import load_verdict, reviewed_here
from orchestrator.app.types import ReviewOptions, is_program_run
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.change.change_construction import find_default_branch
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.findings.located_findings import ProposedFix
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.review_setup import open_review
from orchestrator.code_review.tools.test_runners import RUNNERS, require_test_path
from orchestrator.code_review.verdict.document_parts import Fix, Proof
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine import state_machine
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.errors import InputError, RunNotFound, SandboxError
from orchestrator.sandbox.file_rollback import FileRollback
from orchestrator.stores.sql_store import RunStore
from orchestrator.stores.sqlite_journal import MemoryStore

TOPIC = "fix"
_MISSING = (
    "the change of this checkout has no such finding, or only agents report it; review here, or "
    "name the reviewed base with --base"
)


class ChosenFixes(Struct, frozen=True):
    """The findings of a run whose patches are to be applied, and those that are left out.

    Attributes:
        left_out: finding's id → why.
        names: the findings that a person named; empty for all.
        reviewed_here: else what the verdict says is a claim of its author, also of its base.
        proven_here: this machine proved the patches.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    left_out: dict[str, str]
    names: tuple[str, ...] = ()
    reviewed_here: bool = True
    proven_here: bool = True


class Applied(Struct, frozen=True):
    """The written files, and the name of the call by which they can be restored.

    The call is empty where the verdict's run is not in this repository: nothing records it then.
    """

    paths: tuple[str, ...]
    call: str


def choose_fixes(repo: Path | None, run_id: str, names: Sequence[str]) -> ChosenFixes:
    """The patches of a run to apply: those of the named findings, else all verified ones.

    Raises:
        RunNotFound: no run has that name.
        InputError: it has no such finding, or a named one has no usable patch.
    """
    own = reviewed_here(repo, run_id)
    chosen = _choose(load_verdict(repo, run_id), names)
    return replace(chosen, reviewed_here=own, proven_here=own)


def _choose(verdict: Verdict, names: Sequence[str]) -> ChosenFixes:
    chosen: list[Finding] = []
    left_out: dict[str, str] = {}
    for name in names or [finding.id for finding in verdict.findings]:
        finding = find_finding(verdict, name)
        why = _why_unusable(finding, chosen, named=bool(names))
        if not why:
            chosen.append(finding)
        elif names:
            raise InputError(f"{name} cannot be fixed: {why}")
        elif finding.fix:
            left_out[name] = why
    return ChosenFixes(verdict, tuple(chosen), left_out, tuple(names))


def prove_claims(repo: Path | None, fixes: ChosenFixes, base: str | None = None) -> ChosenFixes:
    """The patches as this machine proves them, if they are of a verdict from elsewhere.

    Neither the change nor the policy that the verdict names is used: its author chose them.

    Args:
        base: the git ref to compare HEAD with; None: as for a review.

    Raises:
        InputError: the change cannot be read, or the patch of a named finding is refused.
    """
    if fixes.proven_here or not fixes.findings:
        return fixes
    proven, again = prove_again(repo, fixes, base), list[Finding]()
    for finding in fixes.findings:
        refused = replace(_fix(finding), state="refused", reason=_MISSING)
        again.append(replace(finding, fix=proven.get(finding.id, refused)))
    found = _choose(replace(fixes.verdict, findings=tuple(again)), fixes.names)
    left_out = {**fixes.left_out, **found.left_out}
    return replace(found, left_out=left_out, reviewed_here=False)


def _why_unusable(finding: Finding, chosen: Sequence[Finding], *, named: bool) -> str:
    """Why a finding's patch is not used; empty if it is.

    A patch that applies but is not proven is used if a person names its finding.
    """
    fix = finding.fix
    if finding.state != "open":
        return f"it is {finding.state}"
    if fix is None:
        return "there is no patch for it: change it by hand, as its text says"
    if fix.state == "refused":
        return f"its patch is refused: {fix.reason}"
    if fix.state == "applies" and not named:
        return f"its patch is not proven: {fix.reason}; name the finding to apply it anyway"
    taken = {other.id for other in chosen}
    if others := [name for name in fix.excludes if name in taken]:
        return f"its patch conflicts with that of {', '.join(others)}"
    return ""


def check_applies(repo: Path | None, fixes: ChosenFixes) -> dict[str, bytes]:
    """The contents of the work tree's files with the patches; nothing is written.

    Raises:
        InputError: a patch does not apply; names its finding.
    """
    root = state_directory.repo_root(repo or Path())
    before: dict[str, bytes] = {}
    parts: dict[str, list[LineReplacement]] = {}
    with SafeDirectory(root) as tree:
        for finding in fixes.findings:
            try:
                for file in read_patch(_fix(finding).patch):
                    if file.path not in before:
                        before[file.path] = tree.read(file.path)
                    found = find_replacements(file, before[file.path])
                    parts[file.path] = [*parts.get(file.path, ()), *found]
                    apply_replacements(before[file.path], parts[file.path])
            except (PatchRefused, OSError) as error:
                why = f"{error}; check out the reviewed head, or review again"
                if isinstance(error, OSError):
                    why = f"{file.path}: {error.strerror}"
                what = f"the patch of {finding.id} does not apply to the work tree"
                raise InputError(f"{what}: {why}") from None
    return {path: apply_replacements(before[path], found) for path, found in parts.items()}


def new_tests(repo: Path | None, fixes: ChosenFixes) -> dict[str, tuple[Finding, Proof]]:
    """Path → the test that showed a finding, to be added; none that exists is overwritten.

    Raises:
        InputError: a file has that name, or it is no path of a test.
    """
    found = {
        proof.path: (finding, proof)
        for finding in fixes.findings
        for proof in finding.proofs
        if proof.is_reproduced
    }
    root = state_directory.repo_root(repo or Path())
    for path, (finding, _) in found.items():
        fit = [one for one in RUNNERS if re.fullmatch(one.names, PurePosixPath(path).name)]
        if not fit:
            raise InputError(f"the test of {finding.id} is no file of tests: {path!r}")
        require_test_path(path, fit[0], ())
        if os.path.lexists(root / path):
            raise InputError(f"{path} exists; rename it, or apply without --with-test")
    if not found:
        raise InputError("no test showed these findings; apply without --with-test")
    return found


async def try_tests(
    repo: Path | None,
    fixes: ChosenFixes,
    tests: Mapping[str, tuple[Finding, Proof]],
    base: str | None = None,
) -> list[str]:
    """Run these tests on HEAD without and with the patches, by base's settings; how they end.

    Raises:
        InputError: one does not fail before and pass after, or a test of a verdict from elsewhere
            cannot be run: it is only a claim.
    """
    git = await Git.open(repo or Path())
    if fixes.reviewed_here:
        base = fixes.verdict.change.base
    elif not base:
        branch = await find_default_branch(git)
        base = branch[1] if branch else ""
    patched, results = check_applies(repo, fixes), list[str]()
    try:
        settings = await tests_of(repo, await git.commit(base))
        project = await project_tests(repo, await git.commit("HEAD"), settings)
        for path, (finding, proof) in tests.items():
            test = {path: proof.test.encode()}
            before, _ = await project.run(path, test)
            after, _ = await project.run(path, {**patched, **test})
            shown = " ".join(f"{before.exception}: {before.message}".split())[:200]
            last, name = " ".join(after.message.split())[:200], f"the test of {finding.id}"
            if before.kind != "failed":
                raise InputError(f"{name} does not fail before the patch: {shown}")
            if after.kind != "passed":
                raise InputError(f"{name} still fails with its patch: {last}; nothing was changed")
            results.append(f"{path} fails before the patch ({shown}) and passes after it")
    except SandboxError as error:
        if not fixes.reviewed_here:
            why = f"a test from elsewhere is added only if it runs here: {error}"
            raise InputError(why) from None
        results += [f"{path} was not run: {error}" for path in tests]
    return results


def apply_fixes(repo: Path | None, fixes: ChosenFixes, tests: Mapping[str, bytes] = {}) -> Applied:
    """Write the patches to the work tree; ``diffcourt rollback`` takes them back.

    Args:
        tests: path → a new file that is added to them.

    A verdict that another clone made, such as a CI job's, has no run here that could record it; its
    patches are proven first.

    Raises:
        InputError: a patch is refused, does not apply or a file cannot be written; all files are
            restored.
    """
    fixes = prove_claims(repo, fixes)
    root = state_directory.repo_root(repo or Path())
    folder = state_directory.state_dir(repo)

    async def write(name: str) -> Applied:
        after = {**check_applies(repo, fixes), **tests}
        files = make_rollback(repo, folder, name, only=after)
        taken = {snapshot.ref for snapshot in files.snapshots()}
        call = next(free for n in count(1) if (free := f"{TOPIC}/{n}") not in taken)
        await _write(files, root, after, call)
        return Applied(tuple(sorted(after)), call)

    async def work(_: RunStore, run: RunMeta, journal: Journal) -> Applied:
        done = await write(run.run_id)
        ids = [finding.id for finding in fixes.findings]
        note = {"who": current_user(), "paths": [*done.paths], "findings": ids}
        journal.add_note(TOPIC, note, done.call)
        return done

    with SafeDirectory(root) as tree, tree.locked():  # two may be applied at once
        try:
            return state_directory.decide_on(repo, fixes.verdict.run_id, work)
        except RunNotFound:
            name = state_directory.new_run_id()
            state_directory.make_scratch_dir(folder, name)
            try:
                return replace(anyio.run(write, name), call="")
            finally:
                state_directory.remove_scratch_dir(folder, name)


async def _write(files: FileRollback, root: Path, after: dict[str, bytes], call: str) -> None:
    """Write the files; if one fails, all are restored."""
    await files.begin(call)
    path = str(root)
    try:
        with SafeDirectory(root) as tree:
            for path, data in sorted(after.items()):
                mode = (root / path).stat().st_mode & 0o777 if tree.is_file(path) else 0o644
                tree.write(path, data, mode)
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await files.undo(call)
        if not isinstance(error, OSError):
            raise
        why = f"{path} cannot be written: {error.strerror}; all files are as before"
        raise InputError(why) from None
    await files.commit(call)


def prove_again(repo: Path | None, fixes: ChosenFixes, base: str | None = None) -> dict[str, Fix]:
    """Prove the patches again, and no others; nothing is written.

    Those of a run of this repository are proven on the change that it reviewed; those of a verdict
    from elsewhere on HEAD, without code of the repository and without its paid models.

    Returns:
        Finding's id → its patch as proven now. Only analyzers run, so findings of agents alone are
        missing.

    Raises:
        InputError: the change cannot be read any more.
    """
    folder = state_directory.state_dir(repo)
    options = ReviewOptions(
        repo=repo, base=base, run_tests=False, run_analyzers=False, allow_spending=False
    )
    if fixes.proven_here:
        with state_directory.open_run(repo, fixes.verdict.run_id) as (_, run):
            if is_program_run(run):
                raise InputError(f"{run.run_id} is not a review, so it has no patches")
            options = state_directory.load_options(folder, run)
    return anyio.run(_prove, replace(options, provider=OFFLINE, models=()), fixes, folder)


async def _prove(options: ReviewOptions, fixes: ChosenFixes, folder: Path) -> dict[str, Fix]:
    """Review offline and in memory, with only these patches as proposals."""
    clock, store, name = SystemClock(), MemoryStore(SystemClock()), state_directory.new_run_id()
    await store.create(name, clock.now(), {})
    scratch = state_directory.make_scratch_dir(folder, name)
    try:
        async with open_journal(name, store, clock, holder=name) as journal:
            return await _review(options, fixes, scratch, journal)
    finally:
        state_directory.remove_scratch_dir(folder, name)


async def _review(
    options: ReviewOptions, fixes: ChosenFixes, scratch: Path, journal: Journal
) -> dict[str, Fix]:
    change = await resolve_change(options, scratch, journal)
    policy = load_policy(await read_layers(change), options)
    patches = {
        finding.fingerprint: (
            ProposedFix(_fix(finding).source, finding.path, patch=_fix(finding).patch),
        )
        for finding in fixes.findings
    }
    async with (
        open_model(policy.settings, policy.catalog, journal) as model,
        new_pool() as pool,
        open_review(policy, change, journal, model=model, pool=pool, patches=patches) as state,
    ):
        await state_machine.run(FLOW, state, journal, ignore_event)
        found = {one.fingerprint: one for one in state.synthesis.findings}
    ids = {found[one.fingerprint].id: one.id for one in fixes.findings if one.fingerprint in found}
    return {
        finding.id: replace(fix, excludes=tuple(ids[name] for name in fix.excludes if name in ids))
        for finding in fixes.findings
        if (again := found.get(finding.fingerprint)) and (fix := again.fix)
    }


def _fix(finding: Finding) -> Fix:
    assert finding.fix is not None
    return finding.fix
