"""Rubric files: read through the catalog, written back whole, told apart, and known to be stale."""

import re
from pathlib import Path
from typing import Any

import yaml

from orchestrator.catalog.data_sources import File
from orchestrator.catalog.rubrics import load_rubric
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Criterion, Group, Json, Rubric
from orchestrator.errors import ConfigError, InputError
from orchestrator.tuning.text_files import write_text_atomically

PLAIN = Criterion("", "measured", "")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def read_rubric(path: Path) -> Rubric:
    """Read and check one rubric file.

    Raises:
        ConfigError: its first fault, with file and line.
        InputError: it cannot be read.
    """
    faults = find_errors(path)
    if faults:
        raise faults[0]
    found = load_rubric(_file(path), [])
    assert found is not None
    return found


def find_errors(path: Path) -> list[ConfigError]:
    """Every fault of a rubric file.

    Raises:
        InputError: it cannot be read.
    """
    faults: list[ConfigError] = []
    load_rubric(_file(path), faults)
    return faults


def _file(path: Path) -> File:
    try:
        return File(path.name, str(path), path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def to_document(rubric: Rubric) -> dict[str, Json]:
    """A rubric as its file has it: keys in reading order, defaults left out."""
    doc: dict[str, Json] = {
        "name": rubric.name,
        "version": rubric.version,
        "description": rubric.description,
        "threshold": rubric.threshold,
        "criteria": [_criterion(c) for c in rubric.criteria],
    }
    if rubric.groups:
        doc["groups"] = [_group(g) for g in rubric.groups]
    if rubric.judge:
        doc["judge"] = dict(rubric.judge)
    if rubric.provenance:
        doc["provenance"] = dict(rubric.provenance)
    return doc


def _criterion(c: Criterion) -> dict[str, Json]:
    doc: dict[str, Json] = {"id": c.id, "kind": c.kind, "description": c.description}
    doc["weight"] = c.weight
    if c.levels:
        doc["levels"] = [{"score": x.score, "description": x.description} for x in c.levels]
    if c.parent is not None:
        doc["group"] = c.parent
    if c.na != PLAIN.na:
        doc["na"] = c.na
    if c.abstain != PLAIN.abstain:
        doc["abstain"] = c.abstain
    if c.blocker:
        doc["blocker"] = True
    if c.tags:
        doc["tags"] = list(c.tags)
    return doc


def _group(g: Group) -> dict[str, Json]:
    doc: dict[str, Json] = {"id": g.id, "description": g.description, "weight": g.weight}
    if g.parent is not None:
        doc["parent"] = g.parent
    return doc


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 reads as a number and this library, which speaks 1.1, does not."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(rubric: Rubric) -> str:
    """The rubric's file, ending in a newline."""
    text: str = yaml.dump(
        to_document(rubric), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=96
    )
    return text


def write_rubric(path: Path, rubric: Rubric) -> None:
    """Write a rubric file whole; what stood there stays until then.

    Raises:
        InputError: it cannot be written, or the name is not the file's.
    """
    if rubric.name != path.stem:
        raise InputError(f"{path}: a rubric's name is its file's name; this one is {rubric.name!r}")
    write_text_atomically(path, to_yaml(rubric))


def digest_criteria(rubric: Rubric) -> str:
    """SHA-256 of what a judge reads: criteria, descriptions and levels, without weights."""
    return digest(
        [
            [c.id, c.kind, c.description, [[x.score, x.description] for x in c.levels]]
            for c in rubric.criteria
        ]
    )


def digest_judge(rubric: Rubric) -> str:
    """SHA-256 of the judge's identity: model and prompt."""
    return digest(dict(rubric.judge))


def find_stale_inputs(rubric: Rubric, labels: str | None = None) -> list[str]:
    """What a tuned rubric was fitted on and is no longer so; empty for one written by hand.

    Args:
        labels: digest of the labels at hand, None when there are none to compare.
    """
    tuned: Any = rubric.provenance.get("tuned")
    if not isinstance(tuned, dict):
        return []
    out = []
    if tuned.get("criteria") != digest_criteria(rubric):
        out.append("the criteria's text has changed since the weights were fitted")
    if tuned.get("judge") != digest_judge(rubric):
        out.append("the judge's model or prompt has changed since the weights were fitted")
    if tuned.get("rule") != digest_rule(rubric):
        out.append("the weights or the threshold were edited after they were fitted")
    if labels is not None and tuned.get("labels") != labels:
        out.append("the labels differ from those that the weights were fitted on")
    return out


def digest_rule(rubric: Rubric) -> str:
    """SHA-256 of weights and threshold."""
    return digest(
        [
            rubric.threshold,
            [[c.id, c.weight] for c in rubric.criteria],
            [[g.id, g.weight] for g in rubric.groups],
        ]
    )


def describe_differences(old: Rubric, new: Rubric) -> list[str]:
    """What differs, one line each: threshold, weights, criteria that came, went or changed."""
    out = []
    for name in ("name", "version", "description", "threshold"):
        a, b = getattr(old, name), getattr(new, name)
        if a != b:
            out.append(f"{name}: {a} → {b}")
    for kind in ("criteria", "groups"):
        before = {x.id: x for x in getattr(old, kind)}
        after = {x.id: x for x in getattr(new, kind)}
        word = "criterion" if kind == "criteria" else "group"
        out += [f"{word} {x} is gone" for x in before if x not in after]
        out += [f"{word} {x} is new, weight {after[x].weight:g}" for x in after if x not in before]
        for x, was in before.items():
            if x in after:
                out += _changes(word, was, after[x])
    if old.judge != new.judge:
        out.append(f"judge: {dict(old.judge)} → {dict(new.judge)}")
    return out


def _changes(word: str, a: Criterion | Group, b: Criterion | Group) -> list[str]:
    names = [f for f in a.__struct_fields__ if getattr(a, f) != getattr(b, f)]
    short = {"weight", "parent", "na", "abstain", "blocker", "kind"}
    return [
        f"{word} {a.id}: {f} {getattr(a, f)} → {getattr(b, f)}"
        if f in short
        else f"{word} {a.id}: {f} changed"
        for f in names
    ]
