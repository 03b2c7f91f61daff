"""The library's own door: two directories in, what the second one introduces out."""

import doctest
import subprocess
from collections.abc import Mapping
from importlib import import_module
from inspect import isfunction
from pathlib import Path

import diffchecks
from diffchecks import PREFIX, check_trees
from diffchecks.declarations import CHECKS
from diffchecks.programs import Ended, Linter
from diffchecks.rules import Rule, shipped_rules
from orchestrator.code_review.analyzers.program_execution import Program
from tests.review.analyzers.rule_cases import WHOLE_RULES, Case, case_of, placed

RULES = shipped_rules().rules
CHECK = {check.name: check for check in CHECKS}
IN_REVIEWS = {*WHOLE_RULES, "security.fix-reverted", "security.malicious-dependency"}
"""Rules about a whole change, and those that need a history or advisories."""


def run(command: list[str], directory: Path) -> Ended:
    command = [Program(command[0], "").find(), *command[1:]]
    done = subprocess.run(command, check=False, cwd=directory, capture_output=True)
    return done.returncode, done.stdout, done.stderr


def write(root: Path, files: Mapping[str, str | bytes]) -> Path:
    root.mkdir(exist_ok=True)
    for name, content in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def one_rule_of_each_check() -> dict[str, tuple[Rule, Case]]:
    found: dict[str, tuple[Rule, Case]] = {}
    for check in CHECKS:
        for rule in RULES.values():
            ours = rule.codes[0].partition(":")[0] == check.reporter
            case = case_of(rule) if ours and rule.category == check.topic else None
            if case and not check.given and rule.id not in IN_REVIEWS:
                found.setdefault(check.name, (rule, case))
    return found


def test_each_check_is_declared_once_and_can_be_called() -> None:
    assert len(CHECK) == len(CHECKS)
    for check in CHECKS:
        module = import_module(f"{PREFIX}{check.module}")
        assert isinstance(module.LINTER, Linter) if check.program else callable(module.run)


def test_each_check_finds_its_defect_and_not_the_case_that_differs_by_one_thing(
    tmp_path: Path,
) -> None:
    chosen = one_rule_of_each_check()
    base: dict[str, str] = {}
    head: dict[str, str] = {}
    for rule, case in chosen.values():
        for kind, files in (("bad", case.bad), ("good", case.good)):
            base |= placed(rule.id, kind, case.base)
            head |= placed(rule.id, kind, files)
    trees = write(tmp_path / "base", base), write(tmp_path / "head", base | head)
    found = check_trees(*trees, run=run)
    for name, (rule, case) in chosen.items():
        paths = {finding.path for finding in found if finding.rule == rule.id}
        assert paths & placed(rule.id, "bad", {**case.base, **case.bad}).keys(), name
        assert not paths & placed(rule.id, "good", {**case.base, **case.good}).keys(), name
    assert not any(CHECK[finding.check].program for finding in check_trees(*trees))
    # All but these have a rule whose case lies in two trees alone.
    assert {check.name for check in CHECKS if not check.given} - chosen.keys() == {
        "changelog",
        "route_guards",  # only leads
    }


def test_what_moved_or_was_there_is_not_new_and_what_is_left_out_is_not_read(
    tmp_path: Path,
) -> None:
    danger = "export const run = (x) => eval(x);\n"
    lines = "".join(f"export const v{n} = {n};\n" for n in range(30))
    base = write(
        tmp_path / "base",
        {"moved.js": danger, "same.js": danger, "edited.js": lines + danger, "into.js": lines},
    )
    head = write(
        tmp_path / "head",
        {
            "lib/moved.js": danger,
            "same.js": danger,
            "edited.js": f"// more\n{lines}{danger}",
            "into.js": lines + danger,
            "other.js": danger,
            "node_modules/a/index.js": danger,
            "image.js": b"\0" + danger.encode(),
        },
    )
    (head / "link.js").symlink_to("other.js")
    found = check_trees(base, head)
    assert [(finding.path, finding.line) for finding in found] == [("into.js", 31), ("other.js", 1)]
    assert {finding.check for finding in found} == {"patterns"}
    assert [one.path for one in check_trees(base, head, paths=["other.js"])] == ["other.js"]


def test_a_logger_that_base_gives_braces_takes_them(tmp_path: Path) -> None:
    text, line = "import logging\n\nlog = logging.getLogger('a')\n", "log.info('a {}{}', {})\n"
    files = {"a.py": text + line.format("", "{}", 1), "b.py": text}
    more = {path: old + line.format(".b", "{}", 2) for path, old in files.items()}
    few = check_trees(write(tmp_path / "base", files), write(tmp_path / "head", more), run=run)
    assert [finding.rule for finding in few] == ["qa.logging-arguments"] * 2
    files["a.py"] += line.format("", "{c}", 1)
    more["b.py"] += line.format("", "%s", "1, 2")
    found = check_trees(write(tmp_path / "base", files), write(tmp_path / "head", more), run=run)
    assert [(finding.path, finding.line) for finding in found] == [("b.py", 5)]


def test_a_file_that_a_check_cannot_read_is_named(tmp_path: Path) -> None:
    gaps: dict[str, str] = {}
    head = write(tmp_path / "head", {"a.py": "def (\n"})
    found = check_trees(write(tmp_path / "base", {}), head, gaps=gaps)
    assert [finding.check for finding in found] == ["parse_check"]
    assert set(gaps) == {"a.py"}


def test_public_functions_have_examples_that_run() -> None:
    public = [each for each in (*vars(diffchecks).values(), check_trees) if isfunction(each)]
    for function in public:
        name, text = function.__name__, function.__doc__ or ""
        example = doctest.DocTestParser().get_doctest(text, vars(diffchecks), name, None, None)
        assert example.examples or name.startswith("_"), name
        assert not doctest.DocTestRunner().run(example).failed
