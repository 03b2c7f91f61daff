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
    r"(?P<object>\{)"
    # Tags; the brackets of Mistral and Kimi; the special tokens of Cohere, Gemma and gpt-oss.
    rf"|(?P<open><(?:\w+:)?{_THOUGHT}(?:\s[^<>]{{0,200}})?>|\[THINK\]|◁think▷"
    r"|<\|(?:START_THINKING|begin_of_thought)\|>|<\|channel>thought\b"
    r"|<\|channel\|>\s*(?:analysis|commentary)\b)"
    rf"|(?P<close></(?:\w+:)?{_THOUGHT}\s*>|\[/THINK\]|◁/think▷"
    r"|<\|(?:END_THINKING|end_of_thought)\|>|<channel\|>"
    r"|<\|channel\|>\s*final\b|\bassistantfinal(?=[^a-z]))",
    re.IGNORECASE,
)

_MAX_WASTE = 20
"""How often an answer is read again for objects that have no end, before it is given up."""


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
    drafts = [unwrap(piece.value, kind) for piece in _pieces(unsure) if piece.kind == "object"]
    if any(_exceeds(draft, report) and not errors_of(draft) for draft in drafts):
        return None, ["it has a longer report in front of a mark of thinking; give one, as JSON"]
    return report, errors_of(report)


def text_of(response: Response) -> str:
    """The text of an answer, without white space around it."""
    return "".join(block.text for block in response.blocks if isinstance(block, Text)).strip()


def split_thinking(text: str) -> tuple[str, str, str]:
    """The thinking that begins a text, what may be thinking, and the text without both.

    Markers in JSON are not markers. An opening marker may be missing, since the prompt's template
    has written it; but what stands before a closing one, or between two in the middle of a text,
    may also be an answer that speaks of markers. Thinking that does not end stays in the text.
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
            elif before.strip():
                unsure += text[thinks : piece.start]
            else:
                sure += text[thinks : piece.start]
            answer, start, opened = before, piece.end, -1
    return sure, unsure, answer + text[start:]


def _pieces(text: str) -> Iterator[_Piece]:
    """The outermost JSON objects, and the markers of thinking outside of them.

    Raises:
        ValueError: the text has too many braces without an end.
    """
    at, waste = 0, 0
    while found := _MARKER.search(text, at):
        kind, at = found.lastgroup, found.end()
        if kind != "object":
            yield _Piece("open" if kind == "open" else "close", found.start(), at)
            continue
        try:
            value, at = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError) as error:
            yield _Piece("broken", at, at, str(error))
            waste += getattr(error, "pos", len(text)) - found.start()
            if waste > _MAX_WASTE * (len(text) + 1_000):
                raise ValueError("it has too many braces without an end") from None
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


def _claims(value: Json, contract: Json) -> bool:
    """Whether a value has a required list of the contract, or any other required field, in it."""
    if isinstance(value, list):
        return any(_claims(each, contract) for each in value)
    if not isinstance(value, dict):
        return False
    fields = contract.get("properties", {})
    return any(
        name in value
        and (isinstance(value[name], list) or fields.get(name, {}).get("type") != "array")
        for name in _required(contract)
    ) or any(_claims(each, contract) for each in value.values())


def _exceeds(draft: Json, report: Json) -> bool:
    """Whether a list of a report in thinking has more entries than that of the report behind it."""
    if not isinstance(draft, dict) or not isinstance(report, dict):
        return False
    entries = {name: each for name, each in draft.items() if isinstance(each, list)}
    return any(len(each) > len(report.get(name) or ()) for name, each in entries.items())


def _required(contract: Json) -> list[str]:
    return list(contract.get("required", ()))


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    # Python keeps the last of two equal keys, and would lose what the first one holds.
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, object_pairs_hook=_unique_keys)


def _show_form(contract: Mapping[str, Json], kind: str) -> str:
    """What a report with nothing in it looks like, for a model that answers in prose."""
    fields = contract.get("properties", {})
    form: Json = {name: "..." if fields[name].get("type") == "string" else [] for name in fields}
    return f"a report with nothing in it is {json.dumps(wrap(form, kind))}"
