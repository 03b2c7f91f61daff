"""Actions on a finding: feedback, or an entry in a file to commit."""

from markupsafe import Markup
from starlette.responses import Response

from orchestrator.app.human_decisions.approvals import acting_for
from orchestrator.app.human_decisions.finding_feedback import SAID, record_feedback
from orchestrator.app.memory.dismissals import (
    DISMISSAL_FILE,
    Reason,
    Scope,
    add_dismissal,
    dismissal_of,
)
from orchestrator.app.memory.waiver_files import NAME, add_waiver, waiver_of_finding
from orchestrator.app.runs.run_details import RunDetails
from orchestrator.app.runs.run_index import CachedRunIndex
from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.code_review.verdict.model import Finding
from orchestrator.errors import InputError
from orchestrator.web.runs.decisions import person_of, text_of, when_free
from orchestrator.web.site import Visit

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
            words=SAID if run.state == "finished" else (),
        )

    def say(self, visit: Visit) -> Response:
        """Record a person's feedback on a finding."""
        run_id, finding_id = visit.values["run"], visit.values["finding"]
        said = next((one for one in SAID if one == visit.form.get("said")), None)
        if said is None:
            raise InputError(f"choose one of {', '.join(SAID)}")
        repo = self._index.find(run_id).repo
        with acting_for(person_of(visit)):
            given = when_free(lambda: record_feedback(repo, run_id, finding_id, said))
        self._index.forget(run_id)
        return visit.redirect(
            f"/runs/{run_id}/findings?at={given.finding}#{given.finding}", f"Recorded: {given}."
        )

    def decide(self, visit: Visit) -> Response:
        """Write the entry of the form."""
        run_id, finding_id = visit.values["run"], visit.values["finding"]
        repo = self._index.find(run_id).repo
        why, until = text_of(visit, "reason"), visit.form.get("until", "").strip()
        if not why:
            raise InputError("give a reason for later readers of the file")
        by, person = visit.person.name.partition(" on ")[0], person_of(visit)
        verdict = load_verdict(repo, run_id)
        with acting_for(person):
            if visit.form.get("decision") == "waive":
                name = NAME
                add_waiver(repo, waiver_of_finding(verdict, finding_id, why, by, until))
            else:
                name = DISMISSAL_FILE.name
                chosen = visit.form.get("scope", "finding")
                scope: Scope = next((one for one in SCOPES if one == chosen), "finding")
                reason = Reason(why=why, by=by, until=until, scope=scope)
                add_dismissal(repo, *dismissal_of(verdict, finding_id, reason, repo))
        note = f"{finding_id} is entered in {name}. Commit it; it counts once it is in base."
        return visit.redirect(_place(run_id, finding_id), note)


def _place(run_id: str, finding: str) -> str:
    return f"/runs/{run_id}/findings?at={finding}#{finding}"
