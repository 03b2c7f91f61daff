"""People's decisions in the pages; each records the same as the corresponding command."""

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from markupsafe import Markup
from msgspec import Struct
from starlette.responses import Response

from orchestrator.app.human_decisions import approvals, run_decisions
from orchestrator.app.memory import waiver_files
from orchestrator.app.memory.waiver_files import Reason, Scope
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.cancellation import cancel_run
from orchestrator.app.runs.run_details import RunDetails, load_details
from orchestrator.app.runs.run_index import CachedRunIndex
from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.app.runs.verdict_recording import answer_question
from orchestrator.app.types import Answer
from orchestrator.catalog.shared_literals import OUTCOMES
from orchestrator.code_review.verdict.model import Finding
from orchestrator.engine.journal import Journal
from orchestrator.engine.ports import RunMeta
from orchestrator.errors import EXIT_INCOMPLETE, InputError
from orchestrator.program_search import given_path
from orchestrator.sandbox.process_start import ISOLATED_PYTHON, start_process
from orchestrator.stores.sql_store import RunStore
from orchestrator.web.access import PROXY_SECRET
from orchestrator.web.site import Visit

LAST_CHARACTERS = 600


class ProcessState(Struct):
    """A process that continues a run; ``code`` is None while it runs."""

    code: int | None = None
    said: str = ""


class RunProcesses:
    """Starts ``diffcourt resume``, so that the pages stay responsive while a review runs."""

    def __init__(self) -> None:
        self._states: dict[str, ProcessState] = {}
        self._lock = threading.Lock()

    def state_of(self, run_id: str) -> ProcessState | None:
        """The state of a run's last process; None if there was none."""
        return self._states.get(run_id)

    def resume(self, repo: Path, run_id: str, person: str = "", more: Sequence[str] = ()) -> bool:
        """Continue a run; False while it is being continued.

        Args:
            person: the person who acts, if not the user of this program.
            more: further options of the command.
        """
        with self._lock:
            known = self._states.get(run_id)
            if known is not None and known.code is None:
                return False
            state = self._states[run_id] = ProcessState()
        command = (*ISOLATED_PYTHON, "-m", "orchestrator", "resume", run_id)
        options = ("--repo", str(repo.absolute()), "--quiet", *more)
        environment = {name: value for name, value in os.environ.items() if name != PROXY_SECRET}
        environment["PATH"] = given_path()  # base's configuration may name programs on it
        if person:
            environment[approvals.ACTING_FOR] = person
        try:
            process = start_process(
                (*command, *options), env=environment, stdout=subprocess.DEVNULL
            )
        except OSError as error:
            state.code, state.said = EXIT_INCOMPLETE, f"it could not be started: {error.strerror}"
            return True
        threading.Thread(target=_watch, args=(process, state), daemon=True).start()
        return True


def _watch(process: "subprocess.Popen[bytes]", state: ProcessState) -> None:
    _, errors = process.communicate()
    state.said = errors.decode("utf-8", "replace").strip()[-LAST_CHARACTERS:]
    state.code = process.returncode


SCOPES: tuple[Scope, ...] = ("finding", "path", "rule")


class FindingActions:
    """Feedback on, dismissals and waivers of the findings of an index's runs."""

    def __init__(self, index: CachedRunIndex) -> None:
        self._index = index

    def render(self, visit: Visit, found: RunDetails, finding: Finding) -> Markup:
        """The feedback on a finding, and the forms for people who may act."""
        run = found.summary
        return visit.site.render_part(
            "runs/finding_actions.html",
            visit=visit,
            finding=finding,
            path=visit.site.url(f"/runs/{run.run_id}/findings/{finding.id}"),
            given=found.record.feedback.get(finding.identity),
            words=run_decisions.SAID if run.state == "finished" else (),
        )

    def say(self, visit: Visit) -> Response:
        """Record a person's feedback on a finding."""
        run_id, finding_id = visit.values["run"], visit.values["finding"]
        feedback = next((one for one in run_decisions.SAID if one == visit.form.get("said")), None)
        if feedback is None:
            raise InputError(f"choose one of {', '.join(run_decisions.SAID)}")
        repo = self._index.find(run_id).repo
        with approvals.acting_for(person_of(visit)):
            given = run_decisions.record_feedback(repo, run_id, finding_id, feedback)
        return visit.redirect(_place(run_id, given.finding), f"Recorded: {given}.")

    def decide(self, visit: Visit) -> Response:
        """Write the entry of the form."""
        run_id, finding_id = visit.values["run"], visit.values["finding"]
        repo = self._index.find(run_id).repo
        why, until = text_of(visit, "reason"), visit.form.get("until", "").strip()
        if not why:
            raise InputError("give a reason for later readers of the file")
        by, person = visit.person.name.partition(" on ")[0], person_of(visit)
        verdict = load_verdict(repo, run_id)
        with approvals.acting_for(person):
            if visit.form.get("decision") == "waive":
                name = waiver_files.NAME
                waiver_files.add_waiver(
                    repo, *waiver_files.waiver_of_finding(verdict, finding_id, why, by, until)
                )
            else:
                name = waiver_files.DISMISSAL_FILE.name
                chosen = visit.form.get("scope", "finding")
                scope: Scope = next((one for one in SCOPES if one == chosen), "finding")
                reason = Reason(why=why, by=by, until=until, scope=scope)
                waiver_files.add_dismissal(repo, verdict, finding_id, reason)
        note = f"{finding_id} is entered in {name}. Commit it; it counts once it is in base."
        return visit.redirect(_place(run_id, finding_id), note)


def _place(run_id: str, finding: str) -> str:
    return f"/runs/{run_id}/findings?at={finding}#{finding}"


MAX_TEXT = 10_000


class Decisions:
    """The actions of a run."""

    def __init__(self, index: CachedRunIndex, processes: RunProcesses) -> None:
        self._index, self._processes = index, processes
        self._one_at_a_time = threading.Lock()

    def decide(self, visit: Visit) -> Response:
        """Approve or deny a call once; a second decision is refused and names the first person."""
        run_id, approval = visit.values["run"], visit.values["approval"]
        approved = visit.form.get("decision") == "approve"
        reason = text_of(visit, "reason")
        if not approved and visit.form.get("decision") != "deny":
            raise InputError("choose approve or deny")
        with self._deciding(visit) as repo:
            _, decision = approvals.decide_call(
                repo, run_id, approval, approved=approved, reason=reason,
                shown=lambda call: str(call.request["tool"]),
            )  # fmt: skip
        done = "Approved" if approved else "Denied"
        return self._go_on(visit, repo, f"{done} by {decision.who}.")

    def answer(self, visit: Visit) -> Response:
        """Answer a question."""
        name, text = visit.form.get("to", ""), text_of(visit, "text")
        if not text:
            raise InputError("the answer is empty; say what to do, or what to know")
        with self._deciding(visit) as repo:
            run_id = visit.values["run"]
            _refuse_answered(load_details(repo, run_id), name)

            async def note(_: RunStore, __: RunMeta, journal: Journal) -> None:
                await answer_question(journal, Answer(text, name), approvals.current_user())

            state_directory.decide_on(repo, run_id, note)
        return self._go_on(visit, repo, "Your answer is recorded.")

    def grant(self, visit: Visit) -> Response:
        """Raise limits of a run that stopped at one, and continue it."""
        more: list[str] = []
        for option in run_decisions.GRANTED:
            if value := visit.form.get(option, "").strip():
                more += [f"--{option.replace('_', '-')}", _amount(value)]
        if not more:
            raise InputError("name a higher limit")
        with self._deciding(visit) as repo:
            verdict = load_details(repo, visit.values["run"]).verdict
            if verdict is not None:
                run_decisions.require_stopped_by_limit(verdict)
            return self._resume(visit, repo, more)

    def resume(self, visit: Visit) -> Response:
        """Continue a run in its own process."""
        with self._deciding(visit) as repo:
            run = self._index.find(visit.values["run"])
            if run.is_of_program:
                raise InputError(f"{run.run_id} goes on when its program is started again")
            if run.state in {"finished", "running"}:
                raise InputError(f"{run.run_id} is {run.state}; there is nothing to continue")
            return self._resume(visit, repo, ())

    def cancel(self, visit: Visit) -> Response:
        """Ask the process that works on a run to stop."""
        run_id = visit.values["run"]
        with self._deciding(visit) as repo:
            done = cancel_run(repo, run_id, text_of(visit, "reason"), wait=0)
        asked = "You have" if done.own else f"{done.request.who} has already"
        return visit.redirect(f"/runs/{run_id}", f"{asked} cancelled it; it stops in a moment.")

    def override(self, visit: Visit) -> Response:
        """Record a person's decision against the verdict."""
        outcome, reason = visit.form.get("verdict", ""), text_of(visit, "reason")
        chosen = next((one for one in OUTCOMES if one == outcome), None)
        if chosen is None or not reason:
            raise InputError("an override needs an outcome and a reason")
        run_id = visit.values["run"]
        with self._deciding(visit) as repo:
            run_decisions.override_verdict(repo, run_id, chosen, reason)
        return visit.redirect(f"/runs/{run_id}", f"Overridden to {chosen.replace('_', ' ')}.")

    @contextmanager
    def _deciding(self, visit: Visit) -> Iterator[Path]:
        """The repository of the path's run, locked against other decisions of this server."""
        repo = self._index.find(visit.values["run"]).repo
        with self._one_at_a_time, approvals.acting_for(person_of(visit)):
            yield repo

    def _go_on(self, visit: Visit, repo: Path, note: str) -> Response:
        """Continue the run if the form asks for it and nothing else waits."""
        run_id = visit.values["run"]
        found = load_details(repo, run_id)
        if found.record.waiting:
            note += " The run waits for another decision."
        elif found.summary.is_of_program:
            note += " The run goes on when its program is started again."
        elif visit.form.get("resume"):
            self._processes.resume(repo, run_id, person_of(visit))
            note += " The run continues."
        return visit.redirect(f"/runs/{run_id}", note)

    def _resume(self, visit: Visit, repo: Path, more: "list[str] | tuple[str, ...]") -> Response:
        run_id = visit.values["run"]
        if not self._processes.resume(repo, run_id, person_of(visit), more):
            raise InputError(f"{run_id} is being continued already")
        return visit.redirect(f"/runs/{run_id}", "The run continues.")


def person_of(visit: Visit) -> str:
    """The person who acts; empty for the user of this program."""
    return "" if visit.person.name == approvals.current_user() else visit.person.name


def text_of(visit: Visit, name: str) -> str:
    """A text of the form, without space around it.

    Raises:
        InputError: it is too long.
    """
    text = visit.form.get(name, "").strip()
    if len(text) > MAX_TEXT:
        raise InputError(f"the text has {len(text):,} characters; at most {MAX_TEXT:,} are kept")
    return text


def _amount(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e12:
        raise InputError(f"{value[:40]!r} is not a limit; give a number above 0")
    return f"{number:g}" if number % 1 else str(int(number))


def _refuse_answered(found: RunDetails, name: str) -> None:
    """Raise an error with the name of the person who has answered a question already."""
    if any(one.kind == "question" and one.name == name for one in found.record.waiting):
        return
    for one in reversed(found.record.decided):
        if one.what == "answered":
            at = datetime.fromtimestamp(one.at).astimezone().isoformat(" ", "seconds")
            raise InputError(f"{one.who} has answered already, at {at}: {one.about}")
