"""Mutation testing of the code that decides: ``python -m tests.mutants [MODULE ...]``.

mutmut changes one expression at a time, and ``session.py`` runs the tests that reach it. A change
that no test notices (a survivor) must be listed in ``survivors.yaml`` with the reason.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.yaml")
MODULES = {
    "app/apply_fixes.py": ["cli/test_fix_command.py", "review/fixes/test_patch_files.py"],
    "app/configuration_consent.py": ["app/test_consent.py", "providers/test_who_may_spend.py"],
    "code_review/agents/judging.py": [
        "review/test_judge_marks.py",
        "review/test_judgment.py",
        "review/test_responses.py",
    ],
    "code_review/findings/citations.py": ["review/test_citations.py"],
    "code_review/findings/finding_assembly.py": [
        "review/test_joined_findings.py",
        "review/test_merging.py",
    ],
    "code_review/findings/merging.py": ["review/test_joined_findings.py", "review/test_merging.py"],
    "code_review/findings/quote_location.py": [
        "review/test_quote_search.py",
        "review/test_verifier.py",
    ],
    "code_review/findings/required_checks.py": ["review/test_decision.py"],
    "code_review/findings/verification.py": ["review/test_verifier.py"],
    "code_review/findings/waivers.py": ["review/test_waivers.py"],
    "code_review/stop_rules.py": ["engine/test_flow_and_stops.py"],
    "code_review/verdict/decision.py": ["review/test_decision.py"],
    "engine/approvals.py": ["engine/test_approvals.py"],
    "engine/budget.py": ["engine/test_budget.py", "engine/test_amounts.py"],
    "engine/executor.py": [
        "engine/test_approvals.py",
        "engine/test_executor_outcomes.py",
        "engine/test_executor_records.py",
        "engine/test_executor_steps.py",
        "engine/test_executor_warnings.py",
        "engine/test_tripping.py",
        "library/test_observe_only.py",
        "library/test_tools.py",
    ],
    "engine/journal.py": [
        "engine/test_journal_effects.py",
        "engine/test_journal_crash.py",
        "engine/test_journal_groups.py",
        "engine/test_journal_records.py",
        "engine/test_signed_head.py",
    ],
    "engine/journal_hash_chain.py": [
        "engine/test_journal_hash_chain.py",
        "engine/test_signed_head.py",
    ],
    "engine/journal_keys.py": ["engine/test_journal_keys.py"],
    "engine/journal_log.py": [
        "engine/test_journal_groups.py",
        "engine/test_journal_hash_chain.py",
        "engine/test_journal_idle_commits.py",
        "engine/test_signed_head.py",
    ],
    "engine/journal_verification.py": ["engine/test_signed_head.py"],
    "engine/rubric_scoring.py": ["engine/test_rubric_scoring.py", "tuning/test_scoring.py"],
    "engine/secret_redaction.py": ["engine/test_redaction.py"],
    "engine/tool_call_guards.py": [
        "engine/test_tool_call_guards.py",
        "library/test_call_guards.py",
    ],
    "diffchecks/safe_paths.py": ["sandbox/test_paths.py"],
}
"""The mutated modules, of ``orchestrator/`` where nothing else is said, and their tests."""

SELECTION = "(review or not trio) and not whatever_is_done_to_a_journal"
"""Of these tests: on one event loop, and without one that starts processes of the mutated code.

Those of reviews run on one loop anyway, half of them on trio.
"""

MOST_ACCEPTED = 0.02
"""Share of the mutants of a module that are not equivalent; one may always be accepted."""

MEMORY = 4 << 30
"""Bytes that a mutant may use."""


class Mutant(NamedTuple):
    """A change of one function, by the lines that it removes and adds."""

    function: str
    removed: str
    added: str

    @property
    def changes_only_case(self) -> bool:
        """Whether only letters of a text change case: such a change of wording is not counted."""
        return self.removed.casefold() == self.added.casefold()


class Row(NamedTuple):
    """What came of a mutant: noticed, late, survived, not run."""

    name: str
    diff: str
    outcome: str

    @property
    def mutant(self) -> Mutant:
        mangled = re.sub(r"__mutmut_\d+$", "", self.name)
        function = re.sub(r"^x_?", "", mangled).strip("ǁ").replace("ǁ", ".")
        return Mutant(function, *split_diff(self.diff.splitlines()))


class Known(NamedTuple):
    """A survivor of the list."""

    equivalent: bool
    why: str


def main() -> int:
    """Test the chosen modules; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of their paths; all when none is named")
    parser.add_argument("--sample", type=int, help="mutants of each module; all by default")
    parser.add_argument("--seed", type=int, default=7, help="of the sample")
    parser.add_argument("--minutes", type=float, default=30, help="at most, for each module")
    chosen = parser.parse_args()
    modules = [m for m in MODULES if not chosen.modules or any(p in m for p in chosen.modules)]
    if not modules:
        parser.error(f"no module fits; they are {', '.join(MODULES)}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    known = read_survivors()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        work = copy_checkout(Path(folder))
        rows = run_session(work, modules, chosen)
        failed = [m for m in modules if not report(m, rows[m], known.get(m, {}))]
    if failed:
        print(f"\nNot as it should be: {', '.join(failed)}. Add a test, remove the code, or list")
        print(f"the survivor with its reason in {SURVIVORS.relative_to(ROOT)}.")
    return 1 if failed else 0


def read_survivors() -> dict[str, dict[Mutant, Known]]:
    """The listed survivors of each module; an empty change stands for all of a function."""
    listed = yaml.safe_load(SURVIVORS.read_text()) or {}
    return {
        module: {
            Mutant(entry["in"], *split_diff(entry.get("diff", "").splitlines())): Known(
                "equivalent" in entry, entry.get("equivalent") or entry["accepted"]
            )
            for entry in entries
        }
        for module, entries in listed.items()
    }


def copy_checkout(folder: Path) -> Path:
    """Copy the checkout as it is on disk."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    with (folder / "pyproject.toml").open("a") as file:
        file.write('\n[tool.mutmut]\nsource_paths = ["orchestrator"]\ntrack_dependencies = false\n')
    return folder


def run_session(
    work: Path, modules: Sequence[str], chosen: argparse.Namespace
) -> dict[str, list[Row]]:
    """Try the mutants of some modules; returns what came of each, by module."""
    output, temporary = work / "outcomes", work / "tmp"
    temporary.mkdir()
    job = {
        "tests": {module: [f"tests/{name}" for name in MODULES[module]] for module in modules},
        "selection": SELECTION,
        "sample": chosen.sample,
        "seed": chosen.seed,
        "seconds": chosen.minutes * 60,
        "output": str(output),
    }
    with (work / "log").open("w+") as log:
        status = subprocess.run(
            [sys.executable, "-m", "tests.mutants.session", json.dumps(job)],
            cwd=work,
            env={**os.environ, "PYTHONPATH": str(work), "TMPDIR": str(temporary)},
            stdout=log,
            stderr=log,
            check=False,
        ).returncode
        if status:
            log.seek(0)
            sys.exit(f"pytest failed with status {status}:\n{log.read()[-6000:]}")
    rows: dict[str, list[Row]] = {module: [] for module in modules}
    for line in output.read_text().splitlines():
        module, *row = json.loads(line)
        rows[module].append(Row(*row))
    return rows


def report(module: str, rows: list[Row], known: dict[Mutant, Known]) -> bool:
    """Print what the tests noticed of a module; returns whether that is enough."""
    print(f"== {module}")
    outcomes = Counter(row.outcome for row in rows)
    survived = [(row, row.mutant) for row in rows if row.outcome == "survived"]
    counted = [(row, mutant) for row, mutant in survived if not mutant.changes_only_case]
    listed = [
        known.get(mutant) or known.get(Mutant(mutant.function, "", "")) for _, mutant in counted
    ]
    unlisted = [row for (row, _), found in zip(counted, listed, strict=True) if not found]
    equivalent = sum(found is not None and found.equivalent for found in listed)
    accepted = len(counted) - len(unlisted) - equivalent
    for row in unlisted:
        print(f"survived: {row.name}\n- in: {row.mutant.function}\n  diff: |")
        print("\n".join(f"    {line[0]}{line[1:].strip()}" for line in row.diff.splitlines()))
    if late := [row.name for row in rows if row.outcome == "late"]:
        print(f"noticed by a timeout: {', '.join(late)}")
    noticed = outcomes["noticed"] + outcomes["late"]
    total = noticed + len(counted) - equivalent
    print(
        f"{noticed} of {total} noticed; {accepted} accepted, {equivalent} equivalent, "
        f"{len(survived) - len(counted)} of case only, {len(unlisted)} not listed, "
        f"{outcomes['not run']} not run",
        flush=True,
    )
    ran = len(rows) > outcomes["not run"]
    return ran and not unlisted and accepted <= max(1, MOST_ACCEPTED * total)


def split_diff(lines: Sequence[str]) -> tuple[str, str]:
    """The lines that a diff removes, and those that it adds, without their indentation."""
    removed = [line[1:].strip() for line in lines if line.startswith("-")]
    added = [line[1:].strip() for line in lines if line.startswith("+")]
    return "\n".join(removed), "\n".join(added)


if __name__ == "__main__":
    sys.exit(main())
