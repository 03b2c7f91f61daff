"""Reads the report in a model's answer.

Prose, fences and thinking may surround it, and may hold JSON of their own: drafts, examples of the
change, empty objects. One rule decides: the objects of the answer that claim to be a report must be
the same valid one. Else the answer is sent back; no part of it counts.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from orchestrator.engine.common_contract import unwrap, wrap
from orchestrator.engine.types import Json, Response, Text

_THOUGHT = r"(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)"
_MARKER = re.compile(
    r"""(?P<object>\{(?=\s*["}]))"""
    # Tags; the brackets of Mistral and Kimi; the special tokens of Cohere, Gemma and gpt-oss.
    rf"|(?P<open><(?:\w+:)?{_THOUGHT}(?:\s[^<>]{{0,200}})?>|\[THINK\]|◁think▷"
    r"|<\|(?:START_THINKING|begin_of_thought)\|>|<\|channel>thought\b"
    r"|<\|channel\|>\s*(?:analysis|commentary)\b)"
    rf"|(?P<close></(?:\w+:)?{_THOUGHT}\s*>|\[/THINK\]|◁/think▷"
    r"|<\|(?:END_THINKING|end_of_thought)\|>|<channel\|>"
    r"|<\|channel\|>\s*final\b|\bassistantfinal(?=[^a-z]))",
    re.IGNORECASE,
)

MAX_BROKEN = 200
"""Objects that are no JSON, after which an answer is not read on: each may be as long as it is."""


class _Piece(Struct, frozen=True):
    """A part of a text; ``value`` is an object, or why one that begins here is none."""

    kind: Literal["object", "broken", "open", "close"]
    start: int
    end: int
    value: Json = None


def read_report(
    response: Response, errors_of: Callable[[Json], list[str]] | None, contract: Json, kind: str
) -> tuple[Json, list[str]]:
    """The final report, or what is wrong with it.

    Args:
        errors_of: what is wrong with a value under the contract; None: the text is the report.
        contract: its JSON Schema.
        kind: the contract's name, under which the report may be wrapped.
    """
    text = text_of(response)
    if response.stop == "max_tokens":
        return None, ["the answer was cut off at its token limit; report more briefly"]
    if not text:
        return None, ["the answer was empty"]
    if errors_of is None:
        return text, []
    try:
        return _choose(text, errors_of, contract, kind)
    except (ValueError, RecursionError) as error:
        return None, [f"not valid JSON: {error}"]


def _choose(
    text: str, errors_of: Callable[[Json], list[str]], contract: Json, kind: str
) -> tuple[Json, list[str]]:
    _, unsure, answer = split_thinking(text)
    answer = answer.strip()
    found, prose, problem = _read_objects(answer)
    if not answer.startswith("{"):
        with suppress(ValueError):  # a contract may want another value than an object
            found, prose = [_DECODER.decode(answer)], ""
    if not found:
        form = [] if "{" in text else [_show_form(contract, kind)]
        return None, [f"not valid JSON: {problem or 'there is no object'}", *form]
    reports = [unwrap(value, kind) for value in found]
    claims = [one for one in reports if one and (_claims(one, contract) or not errors_of(one))]
    if len({json.dumps(one, sort_keys=True) for one in claims}) > 1:
        many = f"it has {len(claims)} reports that differ"
        return None, [f"{many}; give one, which holds everything, and no other JSON"]
    for name in _required(contract):
        if re.search(rf"""["']{re.escape(name)}["']\s*:""", prose):
            return None, [f'its part with "{name}" is not valid JSON: {problem or "it has no end"}']
    report = (claims or reports)[-1]
    drafts = (piece.value for piece in _pieces(unsure) if piece.kind == "object")
    inner = (each for draft in drafts for each in _objects_in(draft))
    if any(_exceeds(each, report) and not errors_of(each) for each in inner):
        return None, ["it has a longer report between marks of thinking; give one, as JSON only"]
    if (errors := errors_of(report)) and not errors_of(listed := _listed(report, contract)):
        return listed, []
    return report, errors


def text_of(response: Response) -> str:
    """The text of an answer, without white space around it."""
    return "".join(block.text for block in response.blocks if isinstance(block, Text)).strip()


def split_thinking(text: str) -> tuple[str, str, str]:
    """The thinking that begins a text, what may be thinking, and the text without both.

    Markers in JSON are not markers. An opening marker may be missing, since the prompt's template
    has written it; but what stands before a closing one, or between two in the middle of a text,
    may also be an answer that speaks of markers. So may thinking without an end, which stays.
    """
    sure, unsure, answer = "", "", ""
    start, opened = 0, -1
    for piece in _pieces(text):
        if piece.kind == "open" and opened < 0:
            opened, thinks = piece.start, piece.end
        elif piece.kind == "close":
            before = answer + text[start : max(opened, start)]
            if opened < 0:
                unsure += before + text[start : piece.start]
                before = ""
            elif before.strip() or unsure:
                unsure += text[thinks : piece.start]
            else:
                sure += text[thinks : piece.start]
            answer, start, opened = before, piece.end, -1
    if opened >= 0:
        unsure += text[thinks:]
    return sure, unsure, answer + text[start:]


def _pieces(text: str) -> Iterator[_Piece]:
    """The outermost JSON objects, and the markers of thinking outside of them."""
    at = broken = 0
    while found := _MARKER.search(text, at):
        kind, at = found.lastgroup, found.end()
        if kind != "object":
            yield _Piece("open" if kind == "open" else "close", found.start(), at)
            continue
        try:
            value, at = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError) as error:
            yield _Piece("broken", at, at, str(error))
            broken += 1
            if broken > MAX_BROKEN:
                raise ValueError(f"it has over {MAX_BROKEN} objects that are none") from None
        else:
            yield _Piece("object", found.start(), at, value)


def _read_objects(answer: str) -> tuple[list[Json], str, str]:
    """An answer's outermost objects, what is around them, and what is wrong with the first other.

    Thinking without an end is no part of the answer.
    """
    found, prose, problem, start = list[Json](), "", "", 0
    for piece in _pieces(answer):
        if piece.kind == "open":
            return found, prose + answer[start : piece.start], "its thinking has no end"
        if piece.kind == "broken":
            problem = problem or str(piece.value)
            continue
        prose += answer[start : piece.start]
        start = piece.end
        found.append(piece.value)
    return found, prose + answer[start:], problem


def _objects_in(value: Json) -> Iterator[dict[str, Json]]:
    """The objects in a value, from the outside in."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from _objects_in(each)


def _claims(value: Json, contract: Json) -> bool:
    """Whether a value holds a required list of the contract, another required field or an entry."""
    fields = contract.get("properties", {})
    entries = [set(_required(each.get("items", {}))) for each in fields.values()]
    return any(
        any(len(entry) > 1 and entry <= each.keys() for entry in entries)
        or any(
            name in each
            and (isinstance(each[name], list) or fields.get(name, {}).get("type") != "array")
            for name in _required(contract)
        )
        for each in _objects_in(value)
    )


def _exceeds(draft: Mapping[str, Json], report: Json) -> bool:
    """Whether a list of a report in thinking has more entries than that of the report."""
    entries = {name: each for name, each in draft.items() if isinstance(each, list)}
    return isinstance(report, dict) and any(
        len(each) > len(report.get(name) or ()) for name, each in entries.items()
    )


def _listed(value: Json, contract: Json) -> Json:
    """A value with each single entry as a list where the contract has one, as models write it."""
    if contract.get("type") == "array" and value is not None:
        entries = value if isinstance(value, list) else [value]
        return [_listed(each, contract.get("items", {})) for each in entries]
    if isinstance(value, dict):
        fields = contract.get("properties", {})
        return {name: _listed(each, fields.get(name, {})) for name, each in value.items()}
    return value


def _required(contract: Json) -> list[str]:
    return list(contract.get("required", ()))


def unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """A hook for JSON: of two equal keys Python keeps the last, and loses what the first holds."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=unique_keys)


def _show_form(contract: Mapping[str, Json], kind: str) -> str:
    """What a report with nothing in it looks like, for a model that answers in prose."""
    fields = contract.get("properties", {})
    form: Json = {name: "..." if fields[name].get("type") == "string" else [] for name in fields}
    return f"a report with nothing in it is {json.dumps(wrap(form, kind))}"
