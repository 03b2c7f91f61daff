"""Scored items, read from JSON Lines, CSV, or verdict documents of past runs."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from orchestrator.engine.rubric_scoring import Given
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.rubric_file import is_id, make_id
from orchestrator.tuning.file_formats.text_files import (
    parse_object,
    read_csv,
    read_text,
    reading,
    write_text_atomically,
)
from orchestrator.wording import count_noun

_OBJECT_ID = re.compile(r"[0-9a-f]{7,64}")
_UNNAMED = "judge unnamed"
_TEXT_KEYS = ("text", "review", "summary")
_CONTEXT_KEYS = ("diff", "context")


class Item(Struct, frozen=True):
    """One thing that a judge scored and a person can label.

    Attributes:
        group: unit of resampling, such as the pull request that the item belongs to.
        scores: criterion id → 0..1, ``"na"``, or None where the judge abstained.
        human: labels in the item's own row, by name, unparsed.
        rater: who gave them.
        repeat: 0, or the number of a repeated scoring of the same item.
        judge: model, prompt and rubric of its judged scores; empty where nobody judged or unknown.
        context: what the text speaks of, such as the diff that a comment is about.
        reasons: criterion id → why it was given its score.
        usd: what a model was paid for its scores.
        at: when it was made, or else first scored; ISO 8601, empty when unknown.
        scored_at: when it was scored; empty when unknown, then ``at`` counts.
        site: the project or team that the item is from; empty where unknown.
        location: file and line, for error messages.
    """

    id: str
    group: str
    scores: Mapping[str, Given]
    text: str = ""
    url: str = ""
    verdict: str = ""
    human: Mapping[str, Any] = field(default_factory=dict)
    rater: str = ""
    repeat: int = 0
    judge: str = ""
    location: str = ""
    context: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    usd: float = 0.0
    at: str = ""
    scored_at: str = ""
    site: str = ""


def read_items(paths: Iterable[Path], scale: tuple[float, float] = (0.0, 1.0)) -> list[Item]:
    """Read items from files.

    Args:
        paths: ``.jsonl``, ``.csv``, or ``.json`` (one verdict document); only these share groups.
        scale: the lowest and the highest raw score, mapped to 0 and 1.

    Raises:
        InputError: an invalid file, row or score, with its location; a duplicate id; a group in
            two files.
    """
    items: list[Item] = []
    group_files: dict[str, Path] = {}
    for path in paths:
        found = [_item(row, location, scale) for row, location in _rows(path)]
        if not found:
            raise InputError(f"{path}: contains no items; write one JSON object per line")
        for item in found:
            other = group_files.setdefault(item.group, path)
            if other != path and path.suffix != ".json":
                raise InputError(
                    f"{item.location}: the group {item.group!r} is also in {other}; "
                    "keep all items of a group in one file"
                )
        items += found
    _require_consistent(items)
    return items


def unique_items(items: Iterable[Item]) -> list[Item]:
    """Each item once: its first row, without repeated scorings."""
    first: dict[str, Item] = {}
    for item in items:
        if not item.repeat:
            first.setdefault(item.id, item)
    return list(first.values())


def find_time(text: str) -> datetime | None:
    """A time in UTC; one without a zone is UTC. None where it is not ISO 8601."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def to_row(item: Item) -> dict[str, Any]:
    """An item as a row of its file, without empty values."""
    row: dict[str, Any] = {"id": item.id, "group": item.group, "scores": dict(item.scores)}
    human = dict(item.human)
    labels = {"label": human["label"]} if human.keys() == {"label"} else {"human": human}
    more = {
        "repeat": item.repeat, "judge": item.judge, "reasons": dict(item.reasons),
        "usd": round(item.usd, 8), "rater": item.rater, **labels, "verdict": item.verdict,
        "url": item.url, "text": item.text, "context": item.context,
        "site": item.site, "at": item.at, "scored_at": item.scored_at,
    }  # fmt: skip
    return row | {key: value for key, value in more.items() if value not in ("", {}, 0)}


def write_items(path: Path, items: Iterable[Item]) -> None:
    """Write an item file atomically."""
    rows = (json.dumps(to_row(item), ensure_ascii=False) + "\n" for item in items)
    write_text_atomically(path, "".join(rows))


def name_run_group(change_name: str, base: str, head: str) -> str:
    """The group of a run, equal for all pushes of one change, which are much alike.

    Args:
        change_name: of its pull request or branch, empty where unknown.

    Returns:
        The pull request; else the branch and the base; else the base commit, which all pushes share
        that start from it; else (a patch or a work tree) the head.
    """
    if change_name.startswith("branch/"):
        return f"{change_name} from {base}"
    if change_name:
        return change_name
    return f"base {base}" if _OBJECT_ID.fullmatch(base) else head


def describe_run_groups(items: Iterable[Item]) -> str:
    """What the items that are runs are grouped by, in words; empty without such items."""
    kinds = Counter(_group_kind(group) for group in {i.group for i in items if i.verdict})
    return ", ".join(f"by {kind}: {count}" for kind, count in sorted(kinds.items()) if kind)


def _group_kind(group: str) -> str:
    first, _, rest = group.partition("/" if "/" in group else " ")
    if first in {"pull", "merge_request"}:
        return "pull request"
    if first == "branch" and " from " in rest:
        return "branch and base"
    return "base commit" if first == "base" else ""


def item_from_verdict(doc: dict[str, Any]) -> Item:
    """A run's verdict document as an item, grouped by the base commit.

    Raises:
        InputError: it is not a verdict document.
    """
    return _item(_verdict_row(doc, "a run"), "a run", (0.0, 1.0))


def _require_consistent(items: list[Item]) -> None:
    seen: dict[tuple[str, str, int, str], Item] = {}
    first: dict[tuple[str, str], Item] = {}
    for item in items:
        key = (item.id, item.rater, item.repeat, item.judge)
        if key in seen:
            rater = f" by rater {item.rater!r}" if item.rater else ""
            raise InputError(
                f"{item.location}: duplicate id {item.id!r}{rater}, first at {seen[key].location}"
            )
        seen[key] = item
        other = first.setdefault((item.id, item.judge), item)
        if item.group != other.group or (
            item.repeat == other.repeat and item.scores != other.scores
        ):
            raise InputError(
                f"{item.location}: {item.id!r} has a different group or different scores at "
                f"{other.location}; give a repeated scoring its own number in 'repeat'"
            )


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    if path.suffix == ".csv":
        yield from ((_from_cells(cells), location) for location, cells in read_csv(path))
    elif path.suffix == ".json":
        yield _verdict_row(parse_object(read_text(path), str(path)), str(path)), str(path)
    else:
        for number, line in enumerate(read_text(path).split("\n"), 1):
            if line.strip():
                location = f"{path}:{number}"
                yield parse_object(line, location), location


def _from_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = {"scores": {}, "human": {}, "reasons": {}}
    for name, cell in cells.items():
        part, _, key = name.partition(".")
        if key and part in {"scores", "score", "machine"}:
            row["scores"][key] = _cell(cell)
        elif key and part == "reasons":
            row["reasons"][key] = cell
        elif key and part == "human":
            row["human"][key] = _cell(cell)
        elif name == "label":
            row["human"]["label"] = _cell(cell)
        elif cell != "":
            row[name] = cell
    return row


def _cell(cell: str) -> Any:
    if cell in {"abstain", "null"}:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _verdict_row(doc: dict[str, Any], location: str) -> dict[str, Any]:
    """The item row of a verdict document, which does not name its pull request."""
    with reading(location, "a verdict document; write items as .jsonl or .csv"):
        return {
            "id": doc["run_id"],
            "group": name_run_group("", str(doc["change"]["base"]), doc["change"]["head"]),
            "scores": {c["id"]: c["score"] for c in doc["score"]["criteria"]},
            "reasons": {c["id"]: c.get("why", "") for c in doc["score"]["criteria"]},
            "text": doc.get("summary", ""),
            "verdict": doc["verdict"],
            "judge": _read_judge(doc),
        }


def _read_judge(doc: dict[str, Any]) -> str:
    """Who judged a run; empty where no judged criterion has a score."""
    scores, known = doc["score"]["criteria"], doc.get("provenance", {})
    if not any(c.get("kind") == "judged" and c["score"] is not None for c in scores):
        return ""
    return name_judge(known.get("models", ()), known.get("digests", {}))


def name_judge(models: Iterable[str], digests: Mapping[str, str], rubric: str = "") -> str:
    """Who judged, in words: the models, and short digests of prompt and rubric.

    Args:
        digests: of the run's policy files, by name.
        rubric: digest of another rubric than the run's, empty for the run's.
    """
    prompt = digests.get("agents/judge.md", "")
    rubrics = [digests[name] for name in sorted(digests) if name.startswith("rubrics/")]
    rubric = rubric or "".join(rubrics)
    short = [hashlib.sha256(text.encode()).hexdigest()[:8] for text in (prompt, rubric)]
    return f"{'+'.join(models)}, prompt {short[0]}, rubric {short[1]}"


def hash_groups(items: Iterable[Item]) -> list[str]:
    """Short digests of the group names, to detect later that items were used for tuning."""
    names = {i.group for i in items}
    return sorted(hashlib.sha256(name.encode()).hexdigest()[:10] for name in names)


def list_judges(items: Iterable[Item]) -> list[str]:
    """The judges of the items, each once."""
    return sorted({i.judge for i in items if i.judge})


def count_seen_groups(rubric: Rubric, items: Iterable[Item]) -> int:
    """Number of the items' groups that the rubric was tuned on, or a criterion reworded from."""
    made = (rubric.provenance.get(how) for how in ("tuned", "rewritten"))
    lists = [found.get("groups") for found in made if isinstance(found, dict)]
    seen = {str(one) for found in lists if isinstance(found, list) for one in found}
    return len(seen & set(hash_groups(items)))


def describe_seen_groups(rubric: Rubric, items: Iterable[Item], name: str = "the rubric") -> str:
    """A warning that figures on these items are optimistic; empty where they are not."""
    used = list(items)
    seen, groups = count_seen_groups(rubric, used), len({item.group for item in used})
    if not seen:
        return ""
    return (
        f"{name} was tuned on {seen} of these {count_noun(groups, 'group')}, so its agreement here "
        "is optimistic; for held-out figures: diffcourt rubric show"
    )


def select_judge(
    items: list[Item], name: str | None, criteria: Iterable[Criterion] = ()
) -> list[Item]:
    """The items of one judge, and those that nobody judged.

    Args:
        name: a judge's name or a part of it, ``any`` for all judges, None where there is but one.
        criteria: an item with a score of a judged one that names no judge has one of its own.

    Raises:
        InputError: several judges remain, or none.
    """
    if name == "any":
        return items
    judged = {c.id for c in criteria if c.kind == "judged"}
    judges = [i.judge or (_UNNAMED if judged & i.scores.keys() else "") for i in items]
    found = Counter(judge for judge in judges if judge and (name or "") in judge)
    if name and name in found:
        found = Counter({name: found[name]})
    if len(found) > 1:
        known = "; ".join(f"{judge} ({count})" for judge, count in sorted(found.items()))
        raise InputError(
            f"the items were scored by {len(found)} judges: {known}; choose one with --judge NAME "
            "(a part of this text), mix them with --judge any, or compare them: rubric jury"
        )
    if name is not None and not found:
        raise InputError(f"no item was scored by a judge {name!r}")
    return [i for i, judge in zip(items, judges, strict=True) if not judge or judge in found]


def _item(row: dict[str, Any], location: str, scale: tuple[float, float]) -> Item:
    name = row.get("id")
    if not isinstance(name, (str, int)) or name == "":
        raise InputError(f"{location}: missing 'id'")
    raw = row.get("scores", row.get("machine", {}))
    human = row.get("human", {})
    if "label" in row:
        human = {**human, "label": row["label"]} if isinstance(human, dict) else human
    for key, value in (("scores", raw), ("human", human)):
        if not isinstance(value, dict):
            raise InputError(f"{location}: {key!r} must map names to values")
    return Item(
        id=str(name),
        group=str(row.get("group", name)),
        scores=_scores(raw, location, scale),
        text=next((str(row[k]) for k in _TEXT_KEYS if row.get(k)), ""),
        url=str(row.get("url", "")),
        verdict=str(row.get("verdict", "")),
        human=human,
        rater=str(row.get("rater", "")),
        repeat=_whole(row.get("repeat", 0), location),
        judge=str(row.get("judge", "")),
        location=location,
        context=next((str(row[k]) for k in _CONTEXT_KEYS if row.get(k)), ""),
        reasons=_reasons(row.get("reasons", {}), location),
        usd=_amount(row.get("usd", 0.0), location),
        at=str(row.get("at", "")),
        scored_at=str(row.get("scored_at", "")),
        site=str(row.get("site", row.get("project", ""))),
    )


def _reasons(raw: Any, location: str) -> dict[str, str]:
    if not isinstance(raw, dict):
        raise InputError(f"{location}: 'reasons' must map criterion ids to texts")
    return {str(name): str(why) for name, why in raw.items()}


def _amount(raw: Any, location: str) -> float:
    if isinstance(raw, (int, float)) and 0 <= raw < math.inf:
        return float(raw)
    raise InputError(f"{location}: 'usd' must be a number from 0, not {raw!r}")


def _whole(value: Any, location: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InputError(f"{location}: 'repeat' must be a whole number, not {value!r}") from None


def _scores(raw: Mapping[Any, Any], location: str, scale: tuple[float, float]) -> dict[str, Given]:
    """Scores by criterion id; a name that is not a valid id (``Q1``) is converted to one."""
    names = _criterion_ids(tuple(raw))
    if not all(names) or len(set(names)) < len(names):
        key = next(k for i, k in enumerate(raw) if not names[i] or names[i] in names[:i])
        raise InputError(f"{location}: the score name {key!r} does not give a unique criterion id")
    return {n: _score(v, k, location, scale) for n, (k, v) in zip(names, raw.items(), strict=True)}


@lru_cache(maxsize=256)
def _criterion_ids(keys: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(key if is_id(key) else make_id(key) for key in map(str, keys))


def _score(value: Any, name: Any, location: str, scale: tuple[float, float]) -> Given:
    low, high = scale
    if type(value) is float and low <= value <= high:  # nearly always
        return (value - low) / (high - low)
    if value is None or value == "na":
        return None if value is None else "na"
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)):
        raise InputError(
            f"{location}: the score of {name!r} is {value!r}; allowed: a number, null for "
            'abstained, "na" for not applicable'
        )
    if math.isnan(value):
        raise InputError(f"{location}: the score of {name!r} is not a number (NaN)")
    scaled = (float(value) - low) / (high - low)
    if not -1e-9 <= scaled <= 1 + 1e-9:
        raise InputError(
            f"{location}: the score of {name!r} is {value}; allowed: {low:g} to {high:g}; "
            "set another range with --scale LOW:HIGH"
        )
    return min(max(scaled, 0.0), 1.0)
