"""The offline review of real repositories: what is new is found, what was there is not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from orchestrator.code_review.analyzers import own_checks
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import ConfigError
from orchestrator.report.verdict_text import render_verdict
from tests.review.review_kit import Repo, change, review

SHELL = 'import subprocess\n\n\ndef run(name):\n    """Run."""\n    subprocess.run("ls " + name, shell=True)\n'

GITHUB_TOKEN = "ghp_" + "a8Kd03mZq7Lw2Xc9Vb5Nh1Tj6Rf4Ys0PeUiG"


def rules(verdict: Verdict) -> set[str]:
    return {finding.rule for finding in verdict.findings}


def accounted(verdict: Verdict) -> set[str]:
    return {c.path for c in verdict.checked} | {s.path for s in verdict.skipped}


async def test_a_defect_that_the_change_brings_in_is_found_with_its_quote(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"app.py": SHELL}))
    (finding,) = [f for f in verdict.findings if f.rule == "security.subprocess-shell"]
    assert (finding.path, finding.start_line) == ("app.py", 6)
    assert 'subprocess.run("ls " + name, shell=True)' in finding.evidence.quote
    assert finding.evidence.tool_calls
    assert {"ruff", "security"} <= set(finding.reported_by)
    assert verdict.status == "complete"
    assert verdict.verdict == "needs_changes"


async def test_what_two_analyzers_say_of_a_line_is_not_said_again_by_the_agent(
    tmp_path: Path,
) -> None:
    code = "import hashlib\n\n\ndef encode(password):\n    return hashlib.md5(password.encode())\n"
    verdict = await review(change(tmp_path, {}, {"app.py": code}))
    (finding,) = [one for one in verdict.findings if one.rule == "security.weak-hash"]
    assert len(finding.evidence.tool_calls) == 2
    assert finding.reports == ()
    assert "adds" not in render_verdict(verdict)


async def test_of_equal_severity_security_comes_first_and_is_where_to_start(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"app.py": f"print(unknown)\n{SHELL}"}))
    first, second = (f for f in verdict.findings if f.severity == "medium")
    assert (first.id, first.category) == ("F1", "security")
    assert (second.id, second.category) == ("F2", "qa")
    assert verdict.stop.next_human_action.startswith("Start with F1 at app.py:7")
    report = render_verdict(verdict)
    assert report.index("app.py:7  ") < report.index("app.py:1  ")


async def test_a_clean_change_is_a_few_lines_and_speaks_of_no_judge(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"app.py": "X = 1\n"}))
    first, _, place, *rest = render_verdict(verdict).splitlines()
    assert first == "NOTHING FOUND by analyzers · nobody read it for logic"
    assert (verdict.confidence, verdict.usage.model_calls) == (None, 0)
    assert place.endswith("   1 file   +1 -0")
    assert rest == [
        "Finished: all planned checks ran.",
        "Agents, checks and usage: diffcourt show run",
    ]
    assert verdict.stop.next_human_action == (
        "No blocking findings in the files that were reviewed (1 of 1)."
    )
    whys = {criterion.id: criterion.why for criterion in verdict.score.criteria}
    assert whys["gaps-explained"] == "n/a (no gaps)"
    assert whys["evidence-verified"] == "n/a (no findings)"
    assert whys["files-accounted"] == "1 of 1 changed files accounted for"


async def test_a_defect_that_stood_there_before_is_never_reported(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {"app.py": SHELL}, {"app.py": SHELL + "\n\nX = 1\n"}))
    assert "security.subprocess-shell" not in rules(verdict)


async def test_moved_and_reindented_code_stays_quiet(tmp_path: Path) -> None:
    inside = "import subprocess\n\n\nclass A:\n    def run(self, name):\n"
    inside += '        subprocess.run("ls " + name, shell=True)\n'
    head = {"app.py": "X = 1\n", "moved/shell.py": inside}
    verdict = await review(change(tmp_path, {"app.py": SHELL}, head))
    assert "security.subprocess-shell" not in rules(verdict)


async def test_the_second_of_two_equal_defects_is_new(tmp_path: Path) -> None:
    twice = SHELL + '    subprocess.run("ls " + name, shell=True)\n'
    verdict = await review(change(tmp_path, {"app.py": SHELL}, {"app.py": twice}))
    found = [f for f in verdict.findings if f.rule == "security.subprocess-shell"]
    assert [f.start_line for f in found] == [7]


async def test_a_secret_is_found_and_stands_nowhere_in_the_verdict(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"deploy.py": f'TOKEN = "{GITHUB_TOKEN}"\n'}))
    (finding,) = [f for f in verdict.findings if f.rule == "security.live-secret"]
    assert finding.evidence.quote == 'TOKEN = "[redacted]"'
    assert GITHUB_TOKEN not in str(to_builtins(verdict))


UNPICKLED = (
    "import pickle\n\nfrom flask import Flask, request\n\napp = Flask(__name__)\n\n\n"
    '@app.post("/load")\ndef load() -> str:\n    pickle.loads(request.data)\n    return "done"\n'
)
FLOW_STYLE = (
    "on: pull_request_target\njobs:\n  test:\n    runs-on: ubuntu-latest\n    permissions: {}\n"
    "    steps:\n      - {uses: actions/checkout@v4, with: "
    '{ref: "${{ github.event.pull_request.head.sha }}"}}\n      - run: make\n'
)


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("app.py", UNPICKLED, "security.unsafe-deserialization"),
        ("deploy.py", f'TOKEN = "{GITHUB_TOKEN}"\n', "security.live-secret"),
        (".github/workflows/ci.yml", FLOW_STYLE, "security.workflow-runs-strangers-code"),
    ],
)
async def test_a_proven_severe_finding_blocks(
    tmp_path: Path, path: str, text: str, rule: str
) -> None:
    verdict = await review(change(tmp_path, {}, {path: text}))
    assert verdict.verdict == "block"
    assert [f.rule for f in verdict.findings if f.severity == "critical"] == [rule]


async def test_a_token_among_the_tests_does_not_block(tmp_path: Path) -> None:
    head = {"tests/test_login.py": f'TOKEN = "{GITHUB_TOKEN}"\n'}
    verdict = await review(change(tmp_path, {}, head))
    assert verdict.verdict == "needs_changes"


async def test_a_password_in_an_image_is_one_finding(tmp_path: Path) -> None:
    text = "FROM python:3.12.1\nENV DB_PASSWORD=hX92kfQ1zz8811a\nUSER app\n"
    verdict = await review(change(tmp_path, {}, {"Dockerfile": text}))
    assert [(f.rule, f.start_line) for f in verdict.findings] == [("security.docker-secret", 2)]


async def test_quotes_of_other_tools_contain_no_secret(tmp_path: Path) -> None:
    secret = "tuna" + "Salad41"
    line = f'connect(auth=("bob", "{secret}"))'
    verdict = await review(change(tmp_path, {}, {"deploy.py": f"{line}\n"}))
    (finding,) = [f for f in verdict.findings if f.rule == "qa.undefined-name"]
    assert finding.evidence.quote == line.replace(secret, "[redacted]")
    assert secret not in str(to_builtins(verdict))


async def test_every_changed_file_is_checked_or_skipped_with_a_reason(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.commit({"old name.txt": "a\n" * 20, "gone.py": "X = 1\n", "run.sh": "echo\n"})
    (tmp_path / "old name.txt").rename(tmp_path / 'new "name"\n.txt')
    (tmp_path / "link").symlink_to("run.sh")
    (tmp_path / "run.sh").chmod(0o755)
    repo.commit(
        {
            "gone.py": None,
            "crlf.py": b"x = 1\r\ny = 2\r\n",
            "latin.py": b"# -*- coding: latin-1 -*-\nname = '\xe9'\n",
            "bin.dat": b"\0\1\2" * 100,
            "package-lock.json": json.dumps({"lockfileVersion": 3}, indent=1),
            "\u00fc ber.md": "# \u00fc\n",
        }
    )
    verdict = await review(repo)
    expected = {"gone.py", "crlf.py", "latin.py", "bin.dat", "package-lock.json", "link", "run.sh"}
    assert expected | {"\u00fc ber.md", 'new "name"\n.txt'} <= accounted(verdict)
    assert verdict.change.files == len(accounted(verdict) - {"*"})
    reasons = {skip.path: skip.why for skip in verdict.skipped}
    assert "binary" in reasons["bin.dat"]
    assert all(reasons.values())


async def test_a_file_that_does_not_parse_is_a_finding_and_a_gap_never_clean(
    tmp_path: Path,
) -> None:
    verdict = await review(change(tmp_path, {}, {"broken.py": "def f(:\n    pass\n"}))
    assert "qa.does-not-parse" in rules(verdict)
    assert verdict.status == "incomplete"
    assert any(skip.path == "broken.py" and skip.gap for skip in verdict.skipped)
    assert verdict.verdict != "merge"


async def test_settings_for_a_linter_in_the_change_do_not_count(tmp_path: Path) -> None:
    silencers = {
        "ruff.toml": 'lint.ignore = ["ALL"]\n',
        "pyproject.toml": '[tool.ruff]\nlint.ignore = ["ALL"]\n',
        ".diffcourt/config/verdict.yaml": "needs_changes_at: critical\n",
        "app.py": SHELL.replace("shell=True)", "shell=True)  # noqa: S602"),
    }
    verdict = await review(change(tmp_path, {}, silencers))
    assert "security.subprocess-shell" in rules(verdict)
    assert verdict.verdict == "needs_changes"


async def test_the_policy_of_base_does_count(tmp_path: Path) -> None:
    policy = {".diffcourt/config/verdict.yaml": "needs_changes_at: critical\n"}
    verdict = await review(change(tmp_path, policy, {"app.py": SHELL}))
    assert "security.subprocess-shell" in rules(verdict)
    assert verdict.verdict == "merge"


BUS = "sources: [{match: bus.receive(), kind: socket}]\nsinks: [{match: shop.charge, class: sql, args: ['0']}]\n"


async def test_the_tracer_learns_from_base_and_not_from_the_change(tmp_path: Path) -> None:
    flow = "import bus\nimport shop\n\n\ndef run():\n    shop.charge(bus.receive().body)\n"
    place = ".diffcourt/config/taint/bus.yaml"
    taught = await review(change(tmp_path / "a", {place: BUS}, {"app.py": flow}))
    assert "security.sql-injection" in rules(taught)
    untaught = await review(change(tmp_path / "b", {}, {"app.py": flow, place: BUS}))
    assert "security.sql-injection" not in rules(untaught)


async def test_a_fault_in_what_the_tracer_is_taught_names_the_file(tmp_path: Path) -> None:
    place = ".diffcourt/config/taint/bus.yaml"
    repo = change(tmp_path / "repo", {place: "sauces: []\n"}, {"app.py": "X = 1\n"})
    with pytest.raises(ConfigError, match=r"bus\.yaml.*unknown section 'sauces'"):
        await review(repo)


async def test_files_that_base_excludes_are_skipped_by_name(tmp_path: Path) -> None:
    policy = "exclude:\n  - {paths: ['vendored/**'], why: not ours}\n"
    head = {"vendored/app.py": SHELL, "mine.py": "X = 1\n"}
    base = {".diffcourt/config/verdict.yaml": policy}
    verdict = await review(change(tmp_path, base, head))
    assert not verdict.findings or "vendored/app.py" not in {f.path for f in verdict.findings}
    assert [(s.path, s.why, s.gap) for s in verdict.skipped] == [
        ("vendored/app.py", "not ours", False)
    ]


async def test_a_change_that_no_python_tool_reads_is_complete_all_the_same(tmp_path: Path) -> None:
    head = {"app.js": "export const x = 1;\n", "notes.txt": "Nothing.\n"}
    verdict = await review(change(tmp_path / "repo", {}, head))
    assert (verdict.status, verdict.verdict) == ("complete", "merge")
    assert {agent.status for agent in verdict.agents} == {"ok"}


async def test_prose_that_no_tool_reads_links_of_is_no_gap(tmp_path: Path) -> None:
    """Else each change to such a page would be incomplete for ever."""
    head = {"docs/index.rst": "Guide\n=====\n\n`there <gone.html>`_\n"}
    verdict = await review(change(tmp_path / "repo", {}, head))
    assert (verdict.status, verdict.verdict) == ("complete", "merge")


async def test_a_fragment_is_a_word_in_the_changelog(tmp_path: Path) -> None:
    log, lines = "# Changelog\n\n## Unreleased\n", "".join(f"X{n} = {n}\n" for n in range(20))
    base = {"pkg/a.py": "X = 1\n", "CHANGELOG.md": log}
    told = {"pkg/a.py": lines, "newsfragments/1.md": "More.\n"}
    assert "docs.changelog-missing" not in rules(await review(change(tmp_path / "a", base, told)))
    untold = await review(change(tmp_path / "b", base, {"pkg/a.py": lines}))
    assert "docs.changelog-missing" in rules(untold)


async def test_an_agent_is_shown_only_what_has_a_file_to_look_at(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path / "repo", {}, {"app.py": "X = 1\n"}))
    used = {tool for checked in verdict.checked for tool in checked.by}
    assert "taint" in used
    assert "zizmor" not in verdict.provenance.analyzers


async def test_a_tool_that_the_policy_denies_is_skipped_by_name(tmp_path: Path) -> None:
    policy = "agents: {qa: {deny: [complexity]}}\n"
    base = {".diffcourt/config/tools.yaml": policy, "a.py": "X = 1\n"}
    verdict = await review(change(tmp_path / "repo", base, {"a.py": "X = 2\n"}))
    (skipped,) = [skip for skip in verdict.skipped if skip.tool == "complexity"]
    assert skipped.why == "complexity is denied to qa here"
    assert not any("complexity" in checked.by for checked in verdict.checked)
    assert verdict.status == "complete"


async def test_an_empty_change_merges_with_a_note(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {}))
    assert (verdict.verdict, verdict.status) == ("merge", "complete")
    assert "empty" in verdict.stop.detail


async def test_the_same_change_twice_has_the_same_digest(tmp_path: Path) -> None:
    repo = change(tmp_path, {"a.py": "X = 1\n"}, {"app.py": SHELL, "b.md": "[x](gone.md)\n"})
    first, second = await review(repo, run_id="one"), await review(repo, run_id="two")
    assert first.digest == second.digest
    assert first.run_id != second.run_id


async def test_tests_may_do_what_sources_may_not(tmp_path: Path) -> None:
    verdict = await review(change(tmp_path, {}, {"tests/test_app.py": SHELL}))
    assert "security.subprocess-shell" not in rules(verdict)


async def test_a_pattern_is_set_aside_where_only_constants_get_there(tmp_path: Path) -> None:
    app = (
        "import os\n\nfrom flask import Flask, request\n\napp = Flask(__name__)\n\n\n"
        '@app.route("/x")\ndef handler():\n    """Run."""\n    name = request.args["name"]\n'
        '    line = {"a": name, "b": "1 + 1"}["b"]\n    return str(eval(line))\n'
    )
    verdict = await review(change(tmp_path / "one", {}, {"app.py": app}))
    (entry,) = [one for one in verdict.rejected if one.finding.rule == "security.eval"]
    assert (entry.cause, entry.finding.start_line) == ("constant", 13)
    assert "security.eval" not in rules(verdict)
    verdict = await review(change(tmp_path / "two", {}, {"app.py": app.replace('["b"]', '["a"]')}))
    assert "security.code-injection" in rules(verdict)
    assert "security.eval" not in rules(verdict)  # which is the same defect


async def test_a_cycle_that_the_change_brings_in_is_found(tmp_path: Path) -> None:
    base = {"pkg/__init__.py": "", "pkg/a.py": "X = 1\n", "pkg/b.py": "from pkg import a\n"}
    verdict = await review(change(tmp_path, base, {"pkg/a.py": "from pkg import b\n\nX = 1\n"}))
    assert "architecture.import-cycle" in rules(verdict)


async def test_a_file_that_no_grammar_parses_is_one_gap_and_fails_the_check_of_its_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, call = list[list[str]](), own_checks.call_check

    async def noted(pool: Any, function: str, job: Any, *given: Any, **more: Any) -> Any:
        if function.startswith("patterns:"):
            searched.append(job["paths"])
        return await call(pool, function, job, *given, **more)

    monkeypatch.setattr(own_checks, "call_check", noted)
    verdict = await review(change(tmp_path, {}, {"a.go": "package a\n\nfunc f( {\n"}))
    assert searched == [["a.go"]]  # once, for both checks
    gaps = [(skip.path, skip.tool) for skip in verdict.skipped if skip.gap]
    assert gaps == [("a.go", "pattern_bugs")]
    status = {check.name: check.status for check in verdict.required_checks}
    assert status["other-languages"] == "failed"
    assert status["scripts"] == "not_applicable"


async def test_a_call_that_was_only_written_anew_is_old_and_another_one_is_not(
    tmp_path: Path,
) -> None:
    anew = SHELL.replace('"ls " + name', '"ls -l " + name')
    verdict = await review(change(tmp_path / "a", {"app.py": SHELL}, {"app.py": anew}))
    assert "security.subprocess-shell" not in rules(verdict)
    other = (
        SHELL
        + '\n\ndef more(name):\n    """Run."""\n    subprocess.run("cat " + name, shell=True)\n'
    )
    verdict = await review(change(tmp_path / "b", {"app.py": SHELL}, {"app.py": other}))
    assert [f.start_line for f in verdict.findings if f.rule == "security.subprocess-shell"] == [11]
    # Outside data that gets there is new, whatever stood there.
    flows = SHELL.replace("import subprocess", "import subprocess\nfrom flask import request")
    flows = flows.replace('"ls " + name', 'request.args["x"]')
    verdict = await review(change(tmp_path / "c", {"app.py": SHELL}, {"app.py": flows}))
    assert "security.command-injection" in rules(verdict)


async def test_a_name_that_base_uses_undefined_comes_from_elsewhere(tmp_path: Path) -> None:
    was = "def f():\n    log.info(1)\n"
    now = was + "\n\ndef g():\n    log.info(2)\n    lgo.info(3)\n"
    verdict = await review(change(tmp_path, {"app.py": was}, {"app.py": now}))
    found = [f.detail for f in verdict.findings if f.rule == "qa.undefined-name"]
    assert found == ["Undefined name `lgo`"]


async def test_a_required_check_whose_tool_is_denied_is_named_with_what_to_do(
    tmp_path: Path,
) -> None:
    base = {".diffcourt/config/tools.yaml": "environments: {local: {deny: [complexity]}}\n"}
    rule = "required_checks: [{name: simple, tools: [complexity], when: ['**/*.py']}]\n"
    required = base | {".diffcourt/config/verdict.yaml": rule}
    verdict = await review(change(tmp_path / "a", required, {"a.py": "X = 2\n"}))
    assert verdict.status == "incomplete"
    assert "Let the check simple run (complexity did not run" in verdict.stop.next_human_action
    verdict = await review(change(tmp_path / "b", base, {"a.py": "X = 2\n"}))
    assert verdict.status == "complete"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("GRANT ALL ON a TO 'a'@'%' IDENTIFIED BY 'Hq7wLp2x';", "ALTER USER 'a' IDENTIFIED BY 'Hq7wLp2x';"),
        ("", "ALTER USER 'a' IDENTIFIED BY 'Hq7wLp2x';"),
    ],
    ids=["in a removed line", "elsewhere in base"],
)  # fmt: skip
async def test_a_password_that_base_has_is_no_new_one(tmp_path: Path, was: str, now: str) -> None:
    base = {"a.sql": f"{was}\n", "conf/app.yml": "" if was else "password: Hq7wLp2x\n"}
    verdict = await review(change(tmp_path / "a", base, {"a.sql": f"{now}\n"}))
    assert not rules(verdict)
    other = await review(change(tmp_path / "b", base, {"a.sql": now.replace("Hq7", "Hq9") + "\n"}))
    assert rules(other) == {"security.secret"}


async def test_a_unit_is_read_as_code(tmp_path: Path) -> None:
    unit = "[Service]\nExecStart=/usr/bin/app\n"
    verdict = await review(
        change(tmp_path, {}, {"app.service": unit, "crontab": "@daily /bin/a\n"})
    )
    assert (verdict.status, verdict.verdict) == ("complete", "merge")


async def test_a_removed_test_or_module_is_quoted_from_base(tmp_path: Path) -> None:
    python = "from a import f\n\n\ndef test_one():\n    assert f(1)\n\n\ndef test_two():\n    assert f(2)\n"
    script = 'import { f } from "./a"\n\ntest("one", () => { f(1) })\ntest("two", () => { f(2) })\n'
    base = {
        "pyproject.toml": '[project]\nname = "a"\nversion = "1"\n',
        "a/__init__.py": "def f(x):\n    return x\n",
        "a/b.py": '"""B."""\n\n\ndef g(x):\n    return x\n',
        "tests/test_a.py": python,
        "tests/test_b.py": python.replace("test_", "test_b_"),
        "a.test.ts": script,
    }
    head = {
        "a/b.py": None,
        "tests/test_a.py": python.partition("\n\n\ndef test_two")[0] + "\n",
        "tests/test_b.py": None,
        "a.test.ts": script.replace('test("one", () => { f(1) })\n', ""),
    }
    verdict = await review(change(tmp_path, base, head))
    places = {
        (one.path, one.start_line, one.evidence.quote, one.evidence.side, one.because_of)
        for one in verdict.findings
        if one.rule in {"qa.test-removed", "architecture.api-removed"}
    }
    assert places == {
        ("tests/test_a.py", 8, "def test_two():", "base", None),
        ("tests/test_b.py", 4, "def test_b_one():", "base", None),
        ("a.test.ts", 3, 'test("one", () => { f(1) })', "base", None),
        ("a/b.py", 1, '"""B."""', "base", None),
    }


OWN: Mapping[str, tuple[str, str]] = {
    "go/{}/go.mod": ("module example.com/{}\ngo 1.22\n", "require example.com/aa v0.1.0\n"),
    "js/{}/package.json": ('{{"name": "{}"', ', "dependencies": {"aa": "1.0.0", "left-pad": "1"}'),
    "mvn/{}/pom.xml": (
        "<project><groupId>g</groupId><artifactId>{}</artifactId><version>1</version>",
        "<dependencies><dependency><groupId>g</groupId><artifactId>aa</artifactId>"
        "<version>1</version></dependency></dependencies>",
    ),
    "py/{}/pyproject.toml": ('[project]\nname = "{}"\nversion = "1"\n', 'dependencies = ["aa"]\n'),
    "rs/{}/Cargo.toml": ('[package]\nname = "{}"\n', '[dependencies]\naa = "1"\n'),
}
END = {".json": "}", ".xml": "</project>"}


async def test_a_package_of_the_repository_itself_is_no_new_dependency(tmp_path: Path) -> None:
    def members(name: str, more: int) -> dict[str, str]:
        return {
            path.format(name): text.format(name) + added * more + END.get(Path(path).suffix, "")
            for path, (text, added) in OWN.items()
        }

    base = members("aa", 0) | members("bb", 0)
    verdict = await review(change(tmp_path, base, members("bb", 1)))
    new = [f.detail for f in verdict.findings if f.rule == "security.new-dependency"]
    assert len(new) == 1
    assert "left-pad" in new[0]
