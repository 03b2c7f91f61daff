"""Request data is followed to dangerous calls in every language, and safe programs are quiet."""

from collections import Counter
from pathlib import Path

import pytest

from diffchecks import patterns
from diffchecks.check_io import RawFinding
from diffchecks.rules import shipped_rules
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.flows.flow_kit import LANGUAGES, OTHERS, Program, programs
from tests.diffchecks.patterns.test_pattern_files import FILES

AT_LEAST = {"direct": 0.95, "alias": 0.9, "wrapper": 0.7}
GRAVE = {
    "sql",
    "command",
    "code",
    "deserialization",
}  # critical in Python; others are high or medium
RULES = shipped_rules()


def found(root: Path, given: list[Program]) -> dict[int, list[RawFinding]]:
    """The findings of each program."""
    for number, program in enumerate(given):
        (root / f"{number}{program.suffix}").write_text(program.text)
    paths = [f"{number}{program.suffix}" for number, program in enumerate(given)]
    codes = sorted(RULES.codes("patterns", "security"))
    job = {"root": str(root), "paths": paths, "data": FILES, "codes": codes}
    reply = run_check(patterns.run, job)
    assert len(reply.gaps) <= 2  # C#'s grammar cannot read quotes within an interpolation
    by_program: dict[int, list[RawFinding]] = {}
    for finding in reply.findings:
        by_program.setdefault(int(finding.path.partition(".")[0]), []).append(finding)
    return by_program


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_a_flow_has_one_finding_of_pythons_severity_and_a_safe_program_none(
    tmp_path: Path, language: str
) -> None:
    given = [program for program in programs() if program.language == language]
    of_programs = found(tmp_path, given)
    hits, planted = Counter[str](), Counter(program.kind for program in given)
    for number, program in enumerate(given):
        flows = [one for one in of_programs.get(number, []) if "-flow-" in one.code]
        if program.kind == "safe":
            assert number not in of_programs, program.text
            continue
        same = [one for one in flows if one.code.endswith(f"-flow-{program.code}")]
        hits[program.kind] += bool(same)
        for one in same:
            rule = RULES.find_for("patterns", one)
            assert rule is not None
            assert (rule.severity_of(one) == "critical") == (program.code in GRAVE)
        assert len(of_programs.get(number, [])) <= 1, (program.text, of_programs[number])
    for kind, share in AT_LEAST.items():
        assert hits[kind] >= share * planted[kind], kind


@pytest.mark.parametrize(("suffix", "codes", "text"), OTHERS)
def test_what_is_followed_and_what_ends_it(
    tmp_path: Path, suffix: str, codes: list[str], text: str
) -> None:
    flows = found(tmp_path, [Program("", "", "", suffix, text)]).get(0, [])
    proven = {
        one.code.partition("-flow-")[2]
        for one in flows
        if one.from_request and not (codes and "-flow-" not in one.code)
    }
    assert proven == set(codes)


def test_the_message_tells_the_way_from_the_source_to_the_call(tmp_path: Path) -> None:
    text = (
        'const { exec: sh } = require("child_process");\n'
        'const run = (c) => sh("ls " + c);\n'
        'app.get("/", (a, b) => {\n  const q = a.query;\n  run(q.d);\n});\n'
    )
    (one,) = found(tmp_path, [Program("", "", "", ".js", text)])[0]
    assert one.message == (
        "Request data reaches a command line: `a.query` (line 4) → `q` (line 4) → `run` (line 5)"
        " → `c` (line 2) → `child_process.exec` (line 2)"
    )
    assert next((step.line, step.text) for step in one.steps) == (4, "`a.query`")


def test_a_command_of_a_parameter_is_found_behind_other_names(tmp_path: Path) -> None:
    programs = [
        'const run = require("util").promisify(require("child_process").exec);\nconst f = (x) => run(`ls ${x}`);\n',
        'const { exec: sh } = require("child_process");\nconst f = (x) => sh("ls " + x);\n',
        'const { spawn } = require("child_process");\nconst f = (x) => spawn("sh", ["-c", "ls " + x]);\n',
        'const { execFile } = require("child_process");\nconst f = (x) => execFile("/bin/bash", ["-c", `ls ${x}`]);\n',
        'const { exec } = require("child_process");\nconst f = (x) => exec("ls " + x);\n',
    ]
    of_programs = found(tmp_path, [Program("", "", "", ".js", text) for text in programs])
    for number in range(len(programs)):
        (one,) = of_programs[number]
        rule = RULES.find_for("patterns", one)
        assert rule is not None
        assert (rule.id, rule.severity_of(one)) == ("security.command-built", "medium")


def test_a_result_is_dangerous_where_it_is_given_back(tmp_path: Path) -> None:
    programs = {
        ".java": '@Controller\nclass C {\n  @GetMapping("/x")\n  String go(@RequestParam String to) {\n    log("going");\n    return "redirect:" + to;\n  }\n}\n',
        ".rb": 'get "/" do\n  log "shown"\n  "<p>#{params[:name]}</p>"\nend\n',
    }
    of_programs = found(tmp_path, [Program("", "", "", *each) for each in programs.items()])
    assert [(one.line, one.end_line) for each in of_programs.values() for one in each] == [
        (6, 6),
        (3, 3),
    ]
