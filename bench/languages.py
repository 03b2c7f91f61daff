"""What a review finds of planted defects, by language: found of planted, and false alarms.

    python bench/languages.py [--misses]

The pairs of the tests' tables, each a file with a defect and a twin that does the same without it:
all files with a defect are one change, all twins are another, and each is reviewed whole.
Dependencies are in changes of their own. A defect is found when its file has a finding, or one of
several files names it. A second table follows request data: of each class and language, what is
found directly, behind an alias and in a wrapper. A false alarm is a finding of security in a twin,
or one of a rule that its defect has. ``bench/web_applications.py`` measures Python's data flow.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from msgspec import Struct

from orchestrator.app.run_review import run_review
from orchestrator.engine.observer_events import ignore_event
from tests.diffchecks import sql_samples, test_dependencies
from tests.diffchecks.flows import flow_kit
from tests.diffchecks.infrastructure import infrastructure_kit
from tests.diffchecks.patterns import test_samples
from tests.diffchecks.templates import test_templates
from tests.review.review_kit import change, options

TITLES = {
    "container": "dockerfile",
    "pipeline": "gitlab, commands",
    "gitlab": "gitlab, settings",
    ".ts": "typescript",
}

# A new dependency is news and no alarm; a fragment of a program has names that it does not define.
MEANT = {"security.new-dependency", "qa.script-undeclared", "qa.undefined-name", "qa.unused-import"}


class Planted(Struct, frozen=True):
    """A pair: the files with a defect, those without it, and what both had before."""

    language: str
    what: str
    bad: Mapping[str, str]
    good: Mapping[str, str]
    base: Mapping[str, str] = {}


def planted() -> Iterator[Planted]:
    """All pairs of the tests' tables."""
    for name in sorted(test_samples.SAMPLES):
        usual = test_samples.SUFFIXES.get(name, f".{name}")
        for pair in test_samples.planted(name):
            suffix = pair.get("suffix", usual)
            language = TITLES.get(suffix, TITLES.get(name, name))
            path = f"a{suffix}"
            yield Planted(language, pair["what"], {path: pair["bad"]}, {path: pair["good"]})
    for kind in sorted(infrastructure_kit.SAMPLES):
        language = TITLES.get(kind, kind)
        for pair in infrastructure_kit.samples(kind):
            path = pair["path"]
            yield Planted(language, pair["what"], {path: pair["bad"]}, {path: pair["good"]})
    for code, programs in sql_samples.SAMPLES.items():
        for program in programs:
            yield Planted("sql", code, {"a.sql": program[0]}, {"a.sql": program[1]})
    for page in test_templates.planted():
        name, kind = page["name"], page["name"].partition(".")[2]
        yield Planted(f"template, {kind}", page["finds"], {name: page["bad"]}, {name: page["good"]})
    for code, file, before, defect, twin in test_dependencies.PAIRS:
        what = f"{code} in {file}"
        yield Planted("dependencies", what, {file: defect}, {file: twin}, {file: before})


def place(pair: Planted, number: int, path: str) -> str:
    """Where a file of a pair is; GitHub looks for workflows in one folder only."""
    if path.startswith(".github/workflows/"):
        return f".github/workflows/planted-{number}.yml"
    return f"{pair.language.replace(', ', '-')}/{number}/{path}"


def changes_of(pairs: list[Planted]) -> Iterator[list[int]]:
    """The pairs of each change: one that has all but dependencies, of which each kind is there once.

    A package that is new in several manifests is one finding.
    """
    later: dict[str, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        if pair.language == "dependencies":
            later[pair.what.partition(" in ")[0]].append(number)
    seen = {number for numbers in later.values() for number in numbers}
    yield [number for number in range(len(pairs)) if number not in seen]
    for numbers in zip_longest(*later.values()):
        yield [number for number in numbers if number is not None]


def review(folder: Path, pairs: Mapping[int, Planted], side: str) -> dict[int, set[str]]:
    """The rules of the findings in the files of each pair that has any."""
    base: dict[str, str] = {}
    head: dict[str, str] = {}
    owner: dict[str, int] = {}
    for number, pair in pairs.items():
        files = pair.bad if side == "bad" else pair.good
        base |= {place(pair, number, path): text for path, text in pair.base.items()}
        head |= {place(pair, number, path): text for path, text in files.items()}
        owner |= {place(pair, number, path): number for path in files}
    found: dict[int, set[str]] = defaultdict(set)
    for finding in run_review(options(change(folder, base, head).path), ignore_event).findings:
        for path, number in owner.items():
            if path == finding.path or f"{path}," in f"{finding.detail},":
                found[number].add(finding.rule)
    return found


def false_alarms(defect: set[str], twin: set[str]) -> set[str]:
    """The rules of a twin's findings that should not be there."""
    return {rule for rule in twin - MEANT if rule.startswith("security.") or rule in defect}


def flow_table(folder: Path) -> None:
    """Print, by class and language, how many flows are found, how severely, and false alarms."""
    programs = list(flow_kit.programs())
    files = {f"{number}{one.suffix}": one.text for number, one in enumerate(programs)}
    roots = change(folder, {}, files).path
    severities: dict[int, set[str]] = defaultdict(set)
    for finding in run_review(options(roots), ignore_event).findings:
        if finding.path in files and finding.rule.startswith("security."):
            severities[int(finding.path.partition(".")[0])].add(finding.severity)
    rows: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, one in enumerate(programs):
        rows[one.code, one.language][one.kind].append(number)
    print(f"\n{'':30} direct alias wrapper  severity   safe twins flagged")
    for (code, language), kinds in sorted(rows.items()):
        shares = [
            sum(n in severities for n in kinds[kind]) / len(kinds[kind]) for kind in flow_kit.KINDS
        ]
        levels = {level for kind in flow_kit.KINDS for n in kinds[kind] for level in severities[n]}
        false = sum(bool(severities[n]) for n in kinds["safe"])
        shown = " ".join(f"{share:6.0%}" for share in shares)
        print(
            f"{code:16} {language:12} {shown}  {'/'.join(sorted(levels)):10} {false:3} of {len(kinds['safe'])}"
        )


def main() -> None:
    """Print a row for each language."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--misses", action="store_true", help="list what is missed or false")
    listed = parser.parse_args().misses
    pairs = list(planted())
    with tempfile.TemporaryDirectory() as folder:
        bad, good = dict[int, set[str]](), dict[int, set[str]]()
        for count, numbers in enumerate(changes_of(pairs)):
            some = {number: pairs[number] for number in numbers}
            bad |= review(Path(folder) / f"bad-{count}", some, "bad")
            good |= review(Path(folder) / f"good-{count}", some, "good")
        flow_table(Path(folder) / "flows")
    false = {
        n: rules for n, twin in good.items() if (rules := false_alarms(bad.get(n, set()), twin))
    }
    by_language: dict[str, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        by_language[pair.language].append(number)
    print(f"{'':22} planted found share false")
    for language, numbers in sorted(by_language.items()):
        hits, alarms = bad.keys() & numbers, false.keys() & numbers
        share = len(hits) / len(numbers)
        print(f"{language:22} {len(numbers):7} {len(hits):5} {share:5.0%} {len(alarms):5}")
        for number in numbers if listed else ():
            if number not in hits:
                print(f"    missed: {pairs[number].what}")
            if number in alarms:
                print(f"    false:  {pairs[number].what}: {', '.join(sorted(false[number]))}")


if __name__ == "__main__":
    main()
