"""Rubric files: read through the catalog, written atomically, compared, checked for staleness."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import to_builtins

from orchestrator.catalog.data_file_layers import File
from orchestrator.catalog.rubrics import load_rubric
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import Criterion, Group, Json, Rubric, ScoreLevel
from orchestrator.errors import ConfigError, InputError
from orchestrator.tuning.file_formats.text_files import write_text_atomically

MET_LEVELS = (ScoreLevel(0.0, "not met"), ScoreLevel(1.0, "met"))
_ID = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*")
_MAX_ID_LENGTH = 64
_ALWAYS_WRITTEN = {"id", "kind", "description", "weight"}
_CRITERION_DEFAULTS: dict[str, Json] = to_builtins(Criterion("", "measured", ""))
_GROUP_DEFAULTS: dict[str, Json] = to_builtins(Group(""))
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def is_id(text: str) -> bool:
    """Whether a text is a valid id of a criterion or group."""
    return bool(_ID.fullmatch(text)) and len(text) <= _MAX_ID_LENGTH


def make_id(text: str) -> str:
    """A valid id made of a text's letters and digits; empty where it has none."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))[:40].strip("-")


def read_rubric(path: Path) -> Rubric:
    """Read and validate a rubric file.

    Raises:
        ConfigError: its first error, with file and line.
        InputError: it cannot be read.
    """
    errors = find_errors(path)
    if errors:
        raise errors[0]
    rubric = load_rubric(_read_file(path), [], large=True)
    assert rubric is not None
    return rubric


def find_errors(path: Path) -> list[ConfigError]:
    """Every error of a rubric file."""
    errors: list[ConfigError] = []
    load_rubric(_read_file(path), errors, large=True)
    return errors


def _read_file(path: Path) -> File:
    try:
        return File(path.name, str(path), path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def to_document(rubric: Rubric) -> dict[str, Json]:
    """A rubric as the data of its file: defaults omitted, weights always written."""
    doc: dict[str, Any] = to_builtins(rubric)
    doc["criteria"] = [_omit_defaults(c, _CRITERION_DEFAULTS) for c in doc["criteria"]]
    doc["groups"] = [_omit_defaults(g, _GROUP_DEFAULTS) for g in doc["groups"]]
    return {key: value for key, value in doc.items() if value not in ([], {})}


def _omit_defaults(node: dict[str, Json], defaults: dict[str, Json]) -> dict[str, Json]:
    return {key: v for key, v in node.items() if key in _ALWAYS_WRITTEN or v != defaults[key]}


class _Dumper(yaml.SafeDumper):
    """Quotes strings that YAML 1.2 reads as numbers; PyYAML, which follows 1.1, would not."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def to_yaml(rubric: Rubric) -> str:
    """The text of the rubric's file, ending in a newline."""
    return yaml.dump(
        to_document(rubric), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=96
    )


def write_rubric(path: Path, rubric: Rubric) -> None:
    """Write a rubric file atomically.

    Raises:
        InputError: it cannot be written, or the rubric's name is not the file's.
    """
    if rubric.name != path.stem:
        raise InputError(
            f"{path}: the rubric's name {rubric.name!r} must be the file's name, {path.stem!r}"
        )
    write_text_atomically(path, to_yaml(rubric))


def digest_criteria(rubric: Rubric) -> str:
    """SHA-256 of the criteria's ids, kinds, descriptions, levels and examples, without weights."""
    return digest([[c.id, c.kind, *describe_wording(c)] for c in rubric.criteria])


def describe_wording(c: Criterion) -> list[Json]:
    """What a judge is told of a criterion; examples, which came later, only where there are any."""
    levels: list[Json] = [[x.score, x.description] for x in c.levels]
    examples: list[Json] = [[x.text, x.score, x.why] for x in c.examples]
    return [c.description, levels, *([examples] if examples else [])]


def digest_judge(rubric: Rubric) -> str:
    """SHA-256 of the judge's identity: model and prompt."""
    return digest(dict(rubric.judge))


def find_stale_inputs(rubric: Rubric, judges: Sequence[str] = ()) -> list[str]:
    """What has changed since a rubric was tuned, one sentence each; empty for one written by hand.

    Args:
        judges: of the present items, empty to compare none.
    """
    tuned: Any = rubric.provenance.get("tuned")
    if not isinstance(tuned, dict):
        return []
    out = []
    if tuned.get("criteria") != digest_criteria(rubric):
        out.append("the text of the criteria has changed since tuning")
    if tuned.get("judge") != digest_judge(rubric):
        out.append("the judge's model or prompt has changed since tuning")
    if tuned.get("rule") != digest_rule(rubric):
        out.append("the weights or the threshold have been edited since tuning")
    if judges and tuned.get("judges") and tuned["judges"] != list(judges):
        out.append(
            f"the items were scored by {'; '.join(judges)}, at tuning by "
            f"{'; '.join(tuned['judges'])}"
        )
    return out


def digest_rule(rubric: Rubric) -> str:
    """SHA-256 of weights and threshold."""
    return digest(
        [
            rubric.threshold,
            [[c.id, c.weight] for c in rubric.criteria],
            [
                [g.id, g.weight, *([g.combine] if g.combine != "mean" else [])]
                for g in rubric.groups
            ],
        ]
    )


def describe_differences(old: Rubric, new: Rubric) -> list[str]:
    """Differences between two rubrics, one line each."""
    out = []
    for name in ("name", "version", "description", "threshold"):
        a, b = getattr(old, name), getattr(new, name)
        if a != b:
            out.append(f"{name}: {a} → {b}")
    for kind in ("criteria", "groups"):
        before = {x.id: x for x in getattr(old, kind)}
        after = {x.id: x for x in getattr(new, kind)}
        noun = "criterion" if kind == "criteria" else "group"
        out += [f"removed {noun} {x}" for x in before if x not in after]
        out += [f"added {noun} {x}, weight {after[x].weight:g}" for x in after if x not in before]
        for x, node in before.items():
            if x in after:
                out += _describe_changes(noun, node, after[x])
    if old.judge != new.judge:
        out.append(f"judge: {dict(old.judge)} → {dict(new.judge)}")
    return out


def _describe_changes(noun: str, a: Criterion | Group, b: Criterion | Group) -> list[str]:
    changed = [f for f in a.__struct_fields__ if getattr(a, f) != getattr(b, f)]
    printable = {"weight", "parent", "combine", "na", "abstain", "blocker", "kind"}
    return [
        f"{noun} {a.id}: {f} {getattr(a, f)} → {getattr(b, f)}"
        if f in printable
        else f"{noun} {a.id}: {f} changed"
        for f in changed
    ]
