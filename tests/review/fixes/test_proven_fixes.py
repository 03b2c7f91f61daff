"""Patches in whole reviews: what holds is shown as proven, what does not is kept with the reason."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.catalog.settings import Fixes, ReviewSettings
from orchestrator.code_review.fixes.fix_targets import FixTarget
from orchestrator.code_review.fixes.fixed_findings import only_removes
from orchestrator.code_review.verdict.document_parts import Fix
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.diffchecks.secret_samples import rand
from tests.review.push_kit import alone, said
from tests.review.review_kit import Repo, change, review
from tests.scripted_model import ScriptedModel, text_reply

MODULE = '"""Lists files."""\n\nimport subprocess\n\n\ndef run(name: str) -> None:\n'
SHELL = "    subprocess.run(name, shell=True, check=True, timeout=9)\n"
LIST = '    subprocess.run(["ls", name], check=True, timeout=9)\n'
QUIET = LIST.rstrip() + "  # " + "nosec B603"
KEY = "gh" + "p_" + rand(36)
OTHER = "@@ -1,2 +1,2 @@\n-a: 1\n+a: 2\n b: 1\n"


def mend(path: str, new: str, old: str = SHELL) -> str:
    """A patch for the one line of a module."""
    added = "".join(f"+{line}\n" for line in new.splitlines())
    return (
        f"--- a/{path}\n+++ b/{path}\n@@ -6,2 +6,2 @@\n def run(name: str) -> None:\n-{old}{added}"
    )


def also(patch: str, path: str, hunk: str = OTHER) -> str:
    return f"{patch}--- a/{path}\n+++ b/{path}\n{hunk}"


PATCHES: Mapping[str, tuple[str, str, str]] = {
    "good": (mend("good.py", LIST), "applies", "base's tests did not run on it"),
    "broken": (mend("broken.py", "    subprocess.run(["), "refused", "qa.does-not-parse"),
    "left": (
        mend("left.py", SHELL.replace("name,", "str(name),")),
        "refused",
        "reports security.subprocess-shell at left.py:7",
    ),
    "restored": (mend("restored.py", QUIET), "applies", "base's tests did not run on it"),
    "quiet": (
        mend("quiet.py", QUIET),
        "refused",
        "it silences an analyzer in quiet.py with '# nosec B603'",
    ),
    "new": (mend("new.py", "    return eval(name)"), "refused", "which is new"),
    "fuzz": (mend("fuzz.py", LIST, SHELL.replace("name", "other")), "refused", "are not in"),
    "outside": (also(mend("outside.py", LIST), "base.yml"), "refused", "no file of the change, and the finding does not name it"),
    "workflow": (
        also(mend("workflow.py", LIST), ".github/workflows/a.yml"),
        "refused",
        "run by CI, and the finding is not in it",
    ),
    "policy": (
        also(mend("policy.py", LIST), ".diffcourt/skip.yml"),
        "refused",
        "part of the review's policy",
    ),
    "gone": (also(mend("gone.py", LIST), "gone.yml"), "refused", "gone.yml is not a file of head"),
    "link": (also(mend("link.py", LIST), "link.yml"), "refused", "link.yml is not a regular file"),
}  # fmt: skip
SECRET = mend("secret.py", f'    subprocess.run(["ls", "{KEY}"], check=True, timeout=9)')


def claim(path: str, patch: str, **more: object) -> dict[str, object]:
    return {
        "path": path, "start_line": 7, "end_line": 7, "quote": SHELL.strip(),
        "title": "A shell runs the name", "severity": "medium", "confidence": 0.9,
        "category": "security", "rule": "security.subprocess-shell", "patch": patch, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("The right fix is in sub/other.py.", True),
        ("Change `other.py`: it", True),
        ("see other.py:7", True),
        ("in another.py", False),
        ("in other.pyi or other.py.orig", False),
        ("in sub/other.python", False),
        ("twice.py", False),
        ("a/twice.py", True),
    ],
)
def test_a_finding_names_a_file_in_full_or_by_a_name_that_no_other_has(
    words: str, *, names: bool
) -> None:
    paths = ("sub/other.py", "a/twice.py", "b/twice.py")
    path = paths["twice" in words]
    assert FixTarget(frozenset(), "app.py", words=words).names(path, paths) == names


async def test_the_fixer_sees_the_whole_detail_and_may_patch_a_file_that_it_names(
    tmp_path: Path,
) -> None:
    repo = change(
        tmp_path,
        {"helpers.py": MODULE + SHELL, "ci.yml": "a: 1\n"},
        {"app.py": "import helpers\n\nhelpers.run()\n"},
    )
    detail = "It runs a shell in helpers.py. " + "x" * 1900 + " the end of it"
    told = {
        **claim("app.py", ""), "start_line": 1, "end_line": 1, "quote": "import helpers",
        "rule": "", "category": "qa", "detail": detail,
    }  # fmt: skip
    asked: list[str] = []

    def write(request: Request) -> Response:
        asked.append(str(request.messages[0]))
        return written(("F1", mend("helpers.py", LIST)))

    model = ScriptedModel({"generalist": [said(told)], "fixer": [write]})
    verdict = await review(repo, model, adjust=alone, fixer=True)
    model.finish()
    assert len(detail) > 1900
    assert "the end of it" in asked[0]
    fix = fixes(verdict)["app.py"]
    assert fix is not None
    assert (fix.state, fix.source) == ("applies", "fixer"), fix.reason
    assert "+++ b/helpers.py" in fix.patch


def no_proofs(settings: ReviewSettings) -> ReviewSettings:
    return replace(alone(settings), fixes=Fixes(proofs=0))


async def look(repo: Repo, *claims: Mapping[str, object], **given: object) -> Verdict:
    """A review by one agent that reports these findings."""
    model = ScriptedModel({"generalist": [said(*claims)]})
    verdict = await review(repo, model, **{"adjust": alone, **given})  # type: ignore[arg-type]
    model.finish()
    return verdict


def fixes(verdict: Verdict) -> dict[str, Fix | None]:
    return {finding.path: finding.fix for finding in verdict.findings}


async def test_code_decides_which_patches_of_an_agent_are_accepted(tmp_path: Path) -> None:
    data = "a: 1\nb: 1\n"
    repo = Repo(tmp_path)
    before = {"README.md": "# A project\n", "restored.py": f"{MODULE}{QUIET}\n"}
    repo.commit({**before, "base.yml": data, "gone.yml": data})
    (tmp_path / "link.yml").symlink_to("base.yml")
    policy = {".github/workflows/a.yml": data, ".diffcourt/skip.yml": data, "gone.yml": None}
    repo.commit({**{f"{name}.py": MODULE + SHELL for name in (*PATCHES, "secret")}, **policy})
    files = {f"{name}.py": patch for name, (patch, _, _) in PATCHES.items()}
    verdict = await look(
        repo, *(claim(path, patch) for path, patch in {**files, "secret.py": SECRET}.items())
    )
    found = fixes(verdict)
    for name, (_, state, why) in PATCHES.items():
        fix = found[f"{name}.py"]
        assert fix is not None, name
        assert (fix.state, fix.source) == (state, "generalist"), (name, fix.reason)
        assert why in fix.reason
        assert "\n" not in fix.reason
    secret = found["secret.py"]
    assert secret is not None
    assert (secret.state, secret.patch) == ("refused", "")
    assert KEY not in json.dumps(to_builtins(verdict))
    good = found["good.py"]
    assert good is not None
    assert {"ruff_security", "parse_check", "patterns", "secrets"} <= set(good.proved_by)
    assert good.patch == (
        "--- a/good.py\n+++ b/good.py\n@@ -4,4 +4,4 @@\n \n \n def run(name: str) -> None:\n"
        f"-{SHELL}+{LIST}"
    )
    assert repo.git("status", "--porcelain") == ""


async def test_a_fix_for_a_finding_of_agents_applies_and_is_not_called_verified(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": MODULE + LIST})
    own = claim("app.py", mend("app.py", LIST.replace("9", "5"), LIST), quote=LIST.strip(),
                rule="", title="It waits too long")  # fmt: skip
    fix = fixes(await look(repo, own))["app.py"]
    assert fix is not None
    assert fix.state == "applies"
    assert "only agents report the finding" in fix.reason


async def test_an_analyzers_own_fix_is_proven_without_a_model_and_the_digest_is_stable(
    tmp_path: Path,
) -> None:
    head = "import os\nimport sys\n\n\ndef f() -> int:\n    return 1\n"
    repo = change(tmp_path, {}, {"a.py": head, "b.py": "import re\n"})
    first, second = await review(repo), await review(repo)
    assert first.digest == second.digest
    found = [finding.fix for finding in first.findings if finding.rule == "qa.unused-import"]
    assert [(fix.state, fix.excludes) for fix in found if fix] == [("verified", ())] * 3
    patches = "".join(fix.patch for fix in found if fix and "a.py" in fix.patch)
    assert patches.count("\n-import ") == 2


async def test_a_resumed_run_proves_nothing_again(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"b.py": "import re\n"})
    clock = SystemClock()
    store = MemoryStore(clock)
    await store.create("run", clock.now(), {})
    first = await review(repo, store=store)
    seen: list[tuple[str, bool]] = []

    def observer(event: Event) -> None:
        if event.kind == "tool_finished" and event.tool == "prove_fixes":
            seen.append((event.tool, event.replayed))

    second = await review(repo, store=store, observer=observer)
    assert first.digest == second.digest
    assert seen == [("prove_fixes", True)]


async def test_conflicting_patches_say_so(tmp_path: Path) -> None:
    call = "import requests\n\n\ndef get(url):\n    return requests.get(url, verify=False)\n"
    verdict = await review(change(tmp_path, {}, {"app.py": call}))
    held = {finding.rule: finding for finding in verdict.findings if finding.fix}
    first, second = held["security.tls-unverified"], held["qa.request-without-timeout"]
    assert first.fix
    assert second.fix
    assert (first.fix.state, first.fix.excludes) == ("verified", ())
    assert (second.fix.state, second.fix.excludes) == ("verified", (first.id,))


async def test_nothing_is_proven_where_the_policy_says_so(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"app.py": MODULE + SHELL})
    verdict = await look(repo, claim("app.py", mend("app.py", LIST)), adjust=no_proofs)
    assert fixes(verdict) == {"app.py": None}


def written(*fixes: tuple[str, str]) -> Response:
    """The fixer's report."""
    entries = [{"finding": name, "patch": patch} for name, patch in fixes]
    return text_reply(json.dumps({"summary": "Mended.", "fixes": entries}))


async def test_the_fixer_writes_what_is_missing_and_corrects_it_once(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"a.py": MODULE + SHELL, "b.py": MODULE + SHELL})
    asked: list[str] = []

    def first(request: Request) -> Response:
        asked.append(str(request.messages[0]))
        return written(("F1", mend("a.py", LIST)), ("F2", mend("b.py", "    eval(name)")))

    def second(request: Request) -> Response:
        asked.append(str(request.messages[0]))
        return written(("F1", mend("a.py", "    eval(name)")), ("F2", mend("b.py", LIST)))

    model = ScriptedModel({"generalist": [said()], "fixer": [first, second]})
    verdict = await review(repo, model, adjust=alone, fixer=True)
    model.finish()
    assert {path: fix and (fix.state, fix.source) for path, fix in fixes(verdict).items()} == {
        "a.py": ("applies", "fixer"),
        "b.py": ("applies", "fixer"),
    }
    assert "refused_because" not in asked[0]
    brief = asked[1].rpartition("These patches were")[2]
    assert "refused_because" in brief
    assert "which is new" in brief
    assert '"b.py"' in brief
    assert '"a.py"' not in brief
    assert [agent.agent for agent in verdict.agents] == ["generalist", "fixer", "fixer"]
    assert verdict.stop.reason == "done"


async def test_a_fixer_that_fails_leaves_the_verdict_as_it_is(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"a.py": MODULE + SHELL})
    without = await look(repo)
    model = ScriptedModel({"generalist": [said()], "fixer": [text_reply("I cannot.")] * 6})
    verdict = await review(repo, model, adjust=alone, fixer=True)
    assert fixes(verdict) == {"a.py": None}
    assert (verdict.verdict, verdict.status) == (without.verdict, without.status)


async def test_the_fixer_is_not_asked_about_fixed_or_minor_findings(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"a.py": MODULE + SHELL, "b.py": "import re\n"})
    model = ScriptedModel({"generalist": [said(claim("a.py", mend("a.py", LIST)))]})
    verdict = await review(repo, model, adjust=alone, fixer=True)
    model.finish()
    states = {path: fix.state for path, fix in fixes(verdict).items() if fix}
    assert states == {"a.py": "applies", "b.py": "verified"}


@pytest.mark.parametrize(
    ("added", "nothing"),
    [
        ("", True),
        ("+    pass\n", True),
        ("+    return None  # gone\n", True),
        ("+\n+}\n", True),
        ("+    return clean(name)\n", False),
        ("+    options = {'shell': True}\n", False),
    ],
)
def test_a_patch_that_only_takes_code_out_is_told_by_what_it_adds(
    added: str, nothing: bool
) -> None:
    header = "--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n def f(name):\n"
    assert only_removes(f"{header}-    run(name)\n{added}") is nothing
