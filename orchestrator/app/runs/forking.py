"""Fork a run: a new run from a checkpoint of another, with an edited plan, answer or findings.

The new journal begins with a note that names the old run and its head at the checkpoint. The old
rows up to the checkpoint follow, chained to the note, so that their effects are not performed
again. Decisions of people and signatures belong to the old run and are not copied.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct, to_builtins

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.runs import run_archive, state_directory
from orchestrator.app.runs.cancellation import CANCELLED
from orchestrator.app.runs.run_progress import PROGRESS
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_recording import VERDICT, WAITING, is_verdict, last_row
from orchestrator.app.types import ReviewOptions, review_options
from orchestrator.catalog.verdict_policy import Waiver
from orchestrator.code_review.agent_report_contracts import ReviewPlan
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.review_state import DroppedFindings
from orchestrator.engine.approvals import ASKED
from orchestrator.engine.canonical_json import canonical, digest
from orchestrator.engine.journal import APPROVAL
from orchestrator.engine.journal_hash_chain import GENESIS, SIGNED_HEAD, row_hash, verify_chain
from orchestrator.engine.journal_keys import FEEDBACK, FORK_NOTE, FORKED, Key
from orchestrator.engine.journal_rows import read_fields
from orchestrator.engine.ports import Row, RunMeta, SystemClock
from orchestrator.engine.state_machine import recorded_states
from orchestrator.engine.trace_context import TRACEPARENT
from orchestrator.errors import InputError
from orchestrator.foreign_json import parse_json

NOT_COPIED = frozenset(
    {VERDICT, WAITING, APPROVAL, ASKED, FEEDBACK, FORKED, CANCELLED, TRACEPARENT}
)
"""Topics of notes that are of the old run only."""

_PAUSES = frozenset(name for name, state in FLOW.states.items() if state.pauses)
_STATES = _PAUSES | {name for name, state in FLOW.states.items() if state.targets}


class Fork(Struct, frozen=True):
    """The source of a fork and its edits.

    Attributes:
        source: a run's name, or the directory that it was exported to.
        at: the state to continue from: its number, or its name for the last time it was entered.
        plan: a file with the plan to continue with; None: as it was.
        dropped: ids or fingerprints of findings that do not count.
        answers: whether an answer follows, so that a question must wait at the checkpoint.
    """

    source: str
    at: str
    plan: Path | None = None
    dropped: Sequence[str] = ()
    answers: bool = False


def fork_run(repo: Path | None, fork: Fork) -> str:
    """Create the new run, which ``resume_review`` continues; returns its id.

    Raises:
        RunNotFound: no run has that name.
        InputError: there is no such state or finding, the plan cannot be used at the state, or
            other files of the exported directory than the plan were edited.
        StoreError: the journal cannot be read, or was altered.
    """
    folder = state_directory.state_dir(repo)
    exported = Path(fork.source) if Path(fork.source).is_dir() else None
    if exported is not None:
        run, rows, patch = run_archive.read_export(exported, fork.plan)
        run_archive.withdraw_consents(run, repo)
        scratch = None
    else:
        if fork.plan is not None and (fork.plan.parent / run_archive.JOURNAL).is_file():
            run_archive.read_export(fork.plan.parent, fork.plan)  # for edits besides the plan
        with state_directory.open_run(repo, fork.source) as (store, run):
            rows, patch = anyio.run(store.rows, run.run_id), None
        verify_chain(rows)
        scratch = folder / "runs" / run.run_id
    ReviewOptions.of_meta(review_options(run), None)  # a program's run is refused with its name
    reached, state = _find_state(rows, fork.at)
    kept = rows[: rows.index(reached) + 1]
    if fork.answers and state not in _PAUSES:
        raise InputError(
            f"no question waits at {fork.at}; answer where the run stopped for a person, with "
            f"--at {', '.join(sorted(_PAUSES))}"
        )
    replaced = _replace_plan(kept, state, fork.plan) if fork.plan else {}
    new_id = state_directory.new_run_id()
    about = {
        "run": run.run_id, "head": reached.hash, "rows": reached.seq, "state": fork.at,
        "plan": digest(replaced) if replaced else None,
        "who": current_user(), "at": SystemClock().now(),
    }  # fmt: skip
    plans = max(1, sum(note.state == "Plan" for _, note in recorded_states(kept)))
    judged = any(row.key == str(Key("evaluate", plans)) for row in kept)
    since = {"iteration": plans + judged, "again": judged or state == "Plan"}
    # A fork of a fork: what is copied was done without the findings that the first one drops.
    before = read_fields(rows[0].body)["drops"] if rows[0].key == FORK_NOTE else []
    new = {"findings": _fingerprints(rows, fork.dropped), "run": run.run_id, "who": about["who"]}
    about["drops"] = [
        *({**one, **(since if one["iteration"] > since["iteration"] else {})} for one in before),
        {**new, **since},
    ]
    copied = list(_chain(about, kept, replaced))
    meta = RunMeta(new_id, SystemClock().now(), run.meta)
    with state_directory.open_store(repo) as store:
        if patch is not None:
            state_directory.save_patch(folder, new_id, patch)
        target = state_directory.make_scratch_dir(folder, new_id)
        if scratch is not None and scratch.is_dir():  # git objects of what is reviewed
            own = shutil.ignore_patterns(PROGRESS)
            shutil.copytree(scratch, target, ignore=own, dirs_exist_ok=True, symlinks=True)
        anyio.run(store.restore, meta, copied)
    return new_id


def _find_state(rows: Sequence[Row], at: str) -> tuple[Row, str]:
    """The row and the state of a checkpoint from which a run can continue."""
    known = [
        (str(Key.parse(row.key).number), note.state, row) for row, note in recorded_states(rows)
    ]
    found = [(row, name) for number, name, row in known if at in {number, name} and name in _STATES]
    if found:
        return found[-1]
    listed = ", ".join(f"{number} {name}" for number, name, _ in known if name in _STATES)
    raise InputError(
        f"the run was never in the state {at}, or ended in it; it can be forked at: {listed}"
    )


def _replace_plan(rows: Sequence[Row], state: str, file: Path) -> dict[str, Any]:
    """The key of the last plan and its outcome's new body."""
    outcomes = ((row, Key.parse(row.key)) for row in rows if row.kind == "outcome")
    plans = [row for row, key in outcomes if key.part == "plan" and key == key.task]
    if state not in {"Triage", "Act"} or not plans:
        raise InputError(
            f"--plan has no effect at {state}: the plan is made before and carried out after "
            "Triage and Act; give --at Triage"
        )
    try:
        plan = parse_json(file.read_bytes(), ReviewPlan)
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{file} is not a plan: {error}; edit plan.json of an export") from None
    body = json.loads(plans[-1].body)
    if not isinstance(body.get("value"), dict):
        raise InputError("the run's lead gave no plan to replace")
    body["value"] = {**body["value"], "status": "ok", "detail": "", "report": to_builtins(plan)}
    return {plans[-1].key: body}


def _fingerprints(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """The fingerprints of the findings in the run's verdict with these ids or fingerprints."""
    if not names:
        return []
    last = last_row(rows, is_verdict)
    if last is None:
        raise InputError("the run has no findings yet, so there is none to drop")
    findings = parse_verdict(last).findings
    known = {name: one.fingerprint for one in findings for name in (one.id, one.fingerprint)}
    for name in names:
        if name not in known:
            raise InputError(
                f"no finding {name} in the run; it has "
                + (", ".join(one.id for one in findings) or "none")
            )
    return sorted({known[name] for name in names})


def _chain(about: dict[str, Any], rows: Sequence[Row], replaced: dict[str, Any]) -> Iterator[Row]:
    """The note about the source, and the copied rows, chained to it."""
    copied = [row for row in rows if not _is_left_behind(row)]
    about = {**about, "copied": len(copied)}
    entries = [("note", FORK_NOTE, rows[0].at, canonical(about))]
    for row in copied:
        edited = row.kind == "outcome" and row.key in replaced
        body = canonical(replaced[row.key]) if edited else row.body
        entries.append((row.kind, row.key, row.at, body))
    head = GENESIS
    for seq, (kind, key, at, body) in enumerate(entries, 1):
        head = row_hash(head, seq, kind, key, at, body)
        yield Row(seq, kind, key, at, body, head)


def _is_left_behind(row: Row) -> bool:
    of_the_old_run = row.kind == "note" and Key.parse(row.key).part in NOT_COPIED
    return row.kind == SIGNED_HEAD or of_the_old_run


def dropped_findings(about: Mapping[str, Any]) -> list[DroppedFindings]:
    """What each fork waives in its user's name, by the note that begins the last one's journal."""
    found = []
    for drop in about["drops"]:
        why, by = f"dropped in this fork of {drop['run']}", str(drop["who"])
        waivers = tuple(Waiver(fingerprint=one, why=why, by=by) for one in drop["findings"])
        found.append(DroppedFindings(waivers, drop["iteration"], drop["again"]))
    return found
