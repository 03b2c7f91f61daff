"""Mutation testing of the code that decides: ``python -m tests.mutants [MODULE ...]``.

mutmut changes one expression at a time and runs the tests that reach it. A change that no test
notices (a survivor) must be listed in ``survivors.yaml`` with the reason; any other is an error.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
    "code_review/findings/quote_location.py": ["review/test_quote_search.py"],
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
    "sandbox/safe_paths.py": ["sandbox/test_paths.py"],
}
"""The mutated modules of the package, and the tests that concern them."""

SELECTION = "(review or not trio) and not whatever_is_done_to_a_journal"
"""Of these tests: on one event loop, and without one that starts processes of the mutated code.

Those of reviews run on one loop anyway, half of them on trio.
"""

GOAL = 0.98
"""Share of the mutants that are not equivalent which the tests must notice."""

MEMORY = 4 << 30
"""Bytes that a mutant may use."""

UNNOTICED = {0, 5, 33}
"""Exit codes of mutmut: the tests pass; no test was found; no test reaches the function."""

TIMED_OUT = {-signal.SIGXCPU, -signal.SIGKILL, 24, 36, 152, 255}
"""Exit codes of mutmut: the tests took ten seconds more than five times as long as without it."""

_LIST = """
import sys
from pathlib import Path
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name
path = Path(sys.argv[1])
for name in mutate_file_contents(str(path), path.read_text()).mutant_names:
    print(get_mutant_name(path, name))
"""


_SHOW = """
import json, sys
from mutmut.mutation.diff_apply import find_mutant, get_diff_for_mutant
names = json.load(sys.stdin)
diffs = {name: get_diff_for_mutant(name, path=find_mutant(name).path) for name in names}
json.dump(diffs, sys.stdout)
"""


class Mutant(NamedTuple):
    """A change of one function, by the lines that it removes and adds."""

    function: str
    removed: str
    added: str

    @property
    def changes_only_case(self) -> bool:
        """Whether only letters of a text change case: such a change of wording is not counted."""
        return self.removed.casefold() == self.added.casefold()


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
    known, failed = read_survivors(), []
    for module in modules:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            began = time.monotonic()
            work = copy_checkout(Path(folder), module)
            run_mutmut(work, module, chosen.sample, chosen.seed, chosen.minutes * 60)
            if not report(work, module, known.get(module, {})):
                failed.append(module)
            print(f"{time.monotonic() - began:.0f} seconds", flush=True)
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


def copy_checkout(folder: Path, module: str) -> Path:
    """Copy the checkout as it is on disk, with mutmut's configuration for one module."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    settings = {
        "source_paths": ["orchestrator"],
        "only_mutate": [f"orchestrator/{module}"],
        "also_copy": sorted(path.name for path in folder.iterdir() if path.name != "orchestrator"),
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "--timeout", "20", "-k", SELECTION],
        "pytest_add_cli_args_test_selection": [f"tests/{name}" for name in MODULES[module]],
        "timeout_multiplier": 5.0,
        "timeout_constant": 2.0,
        # The tests leave processes of their own; mutmut must not wait for these.
        "process_isolation": "forkserver",
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    (folder / "mutants").mkdir()  # before Python looks for modules in it
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n".join(("\n[tool.mutmut]", *lines, "")))
    return folder


def run_mutmut(work: Path, module: str, sample: int | None, seed: int, seconds: float) -> None:
    """Run the module's mutants, or a sample of them, for at most so many seconds."""
    print(f"== {module}", flush=True)
    names: list[str] = []
    if sample:
        listing = [sys.executable, "-c", _LIST, f"orchestrator/{module}"]
        names = subprocess.run(
            listing, cwd=work, check=True, capture_output=True, text=True
        ).stdout.split()
        names = random.Random(seed).sample(names, min(sample, len(names)))
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1", *names]
    log, temporary = work / "mutmut.log", work / "tmp"
    temporary.mkdir()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=work,
            env={**os.environ, "PYTHONPATH": str(work / "mutants"), "TMPDIR": str(temporary)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            status = 0
            print(f"stopped after {seconds / 60:g} minutes")
        finally:
            stop_group(process)
    if status:
        sys.exit(f"mutmut failed with status {status}:\n{log.read_text()[-3000:]}")


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End mutmut and all that it left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def report(work: Path, module: str, known: dict[Mutant, Known]) -> bool:
    """Print what the tests noticed of a module; returns whether that is enough."""
    meta = json.loads((work / f"mutants/orchestrator/{module}.meta").read_text())
    codes = meta["exit_code_by_key"]
    survived = list(read_mutants(work, [name for name in codes if codes[name] in UNNOTICED]))
    noticed = sum(code is not None and code not in UNNOTICED for code in codes.values())
    counted = [(name, mutant) for name, mutant in survived if not mutant.changes_only_case]
    listed = [
        known.get(mutant) or known.get(Mutant(mutant.function, "", "")) for _, mutant in counted
    ]
    unlisted = [each for each, found in zip(counted, listed, strict=True) if not found]
    equivalent = sum(found is not None and found.equivalent for found in listed)
    for name, mutant in unlisted:
        print(f"survived: {name.rpartition('.')[2]}\n- in: {mutant.function}\n  diff: |")
        print("\n".join(f"    {line}" for line in diff_lines(mutant)))
    if late := [name.rpartition(".")[2] for name in codes if codes[name] in TIMED_OUT]:
        print(f"noticed by a timeout: {', '.join(late)}")
    total = noticed + len(counted) - equivalent
    share = noticed / total if total else 1.0
    print(
        f"{noticed} of {total} noticed ({share:.1%}); {equivalent} equivalent, "
        f"{len(survived) - len(counted)} of case only, {len(unlisted)} not listed, "
        f"{sum(code is None for code in codes.values())} not run",
        flush=True,
    )
    return not unlisted and share >= GOAL


def diff_lines(mutant: Mutant) -> Iterator[str]:
    """A mutant as the lines of a diff."""
    for sign, text in (("-", mutant.removed), ("+", mutant.added)):
        yield from (f"{sign}{line}" for line in text.splitlines())


def read_mutants(work: Path, names: Sequence[str]) -> Iterator[tuple[str, Mutant]]:
    """The changes that are called so."""
    command = [sys.executable, "-c", _SHOW]
    shown = subprocess.run(
        command, cwd=work, check=True, capture_output=True, text=True, input=json.dumps(names)
    ).stdout
    for name, diff in json.loads(shown).items():
        lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
        mangled = re.sub(r"__mutmut_\d+$", "", name.rpartition(".")[2])
        function = re.sub(r"^x_?", "", mangled).strip("ǁ").replace("ǁ", ".")
        yield name, Mutant(function, *split_diff(lines))


def split_diff(lines: Sequence[str]) -> tuple[str, str]:
    """The lines that a diff removes, and those that it adds, without their indentation."""
    removed = [line[1:].strip() for line in lines if line.startswith("-")]
    added = [line[1:].strip() for line in lines if line.startswith("+")]
    return "\n".join(removed), "\n".join(added)


if __name__ == "__main__":
    sys.exit(main())
