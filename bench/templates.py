"""What a review says of the templates of web applications, as if each file were new.

    python bench/templates.py FOLDER... [--show low] [--sample 40]

A folder is a tree of an application, without git. Its templates are looked at, and its values are
followed to them, as in a review. What is printed is for a person to judge, who reads it as its
maintainer would.
"""

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from diffchecks import DATA, taint, templates
from diffchecks.check_io import RawFinding
from diffchecks.file_patterns import TEMPLATE_DIRECTORY, file_names, matches
from diffchecks.jobs import FlowJob, SideJob
from diffchecks.rules import Rule
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.code_review.analyzers.own_checks import WHOLE_TREE_BATCH
from orchestrator.code_review.policy_loading import load_rules

BELOW = re.compile(r"security\.(?:template-(?!injection)|form-without-token).*")
GRAVE = SEVERITIES[: SEVERITIES.index("medium") + 1]


def look(root: Path) -> Iterator[tuple[str, RawFinding]]:
    """All findings of both checks."""
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    pages = [name for name in names if matches(name, file_names("templates"))]
    for raw in templates.run(SideJob(root=str(root), paths=pages)).findings:
        yield "templates", raw
    modules = [name for name in names if matches(name, file_names("python"))]
    tree = [name for name in names if name in {*modules, *pages} or TEMPLATE_DIRECTORY.search(name)]
    models = sorted(map(str, (DATA / "taint").glob("*.yaml")))
    changed = [*modules, *pages]
    for at in range(0, len(changed) if modules else 0, WHOLE_TREE_BATCH):
        paths = changed[at : at + WHOLE_TREE_BATCH]
        job = FlowJob(root=str(root), paths=paths, tree=tree, data=models)
        for raw in taint.run(job).findings:
            yield "taint", raw


def judged(root: Path) -> list[tuple[Rule, RawFinding]]:
    """The findings that rules are on for; of two at one line the graver one, as in a verdict."""
    rules = load_rules([read_shipped_layer()])
    found: dict[tuple[str, int], tuple[Rule, RawFinding]] = {}
    for tool, raw in look(root):
        rule = rules.find_for(tool, raw)
        if rule is None or not BELOW.fullmatch(rule.id):
            continue
        known = found.get((raw.path, raw.line))
        if known is None or _grade(rule, raw) < _grade(*known):
            found[raw.path, raw.line] = rule, raw
    return [found[place] for place in sorted(found)]


def _grade(rule: Rule, raw: RawFinding) -> int:
    return SEVERITIES.index(rule.severity_of(raw))


def tell(root: Path, rule: Rule, raw: RawFinding) -> None:
    """One finding with its line, and the way to it."""
    print(
        f"  {rule.severity_of(raw)} {rule.id} {root.name}/{raw.path}:{raw.line} ({raw.confidence})"
    )
    print(f"      {raw.message}")
    lines = (root / raw.path).read_text("utf-8", "replace").split("\n")
    print(f"      | {lines[raw.line - 1].strip()[:200]}")
    for step in raw.steps:
        print(f"        {step.path}:{step.line}  {step.text}")


def main() -> None:
    """Print the findings and, at the end, how often each rule fired."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--show", default="medium", choices=[*SEVERITIES, "none"])
    parser.add_argument("--sample", type=int, default=0, help="print that many, drawn at random")
    args = parser.parse_args()
    shown: list[tuple[Path, Rule, RawFinding]] = []
    rules: Counter[str] = Counter()
    for root in args.folders:
        start = time.process_time()
        found = judged(root)
        grave = sum(rule.severity_of(raw) in GRAVE for rule, raw in found)
        seconds = time.process_time() - start
        print(
            f"{root.name:24} {len(found):5} findings, {grave:4} at or above medium, {seconds:.1f} s",
            flush=True,
        )
        rules.update(f"{rule.severity_of(raw):8} {rule.id}" for rule, raw in found)
        wanted = [] if args.show == "none" else SEVERITIES[: SEVERITIES.index(args.show) + 1]
        if args.sample:
            wanted = [args.show]
        shown += [(root, rule, raw) for rule, raw in found if rule.severity_of(raw) in wanted]
    for rule_name, count in rules.most_common():
        print(f"{count:6}  {rule_name}")
    sample = args.sample or len(shown)
    for entry in random.Random(0).sample(shown, sample) if sample < len(shown) else shown:
        tell(*entry)


if __name__ == "__main__":
    main()
