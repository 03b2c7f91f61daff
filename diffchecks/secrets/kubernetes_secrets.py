"""The values of Kubernetes Secrets in manifests, read line by line, so in templates as well."""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_PLAIN = "stringData"
_LINE = re.compile(
    r"^(?P<before>[ \t]*+(?P<items>(?:-[ \t]++)*+))[\"']?(?P<key>[\w./-]{1,253}+)[\"']?:"
    r"(?:[ \t]++(?P<value>[^\n]*))?$|^(?P<new>---)",
    re.MULTILINE,
)
_FLOW = re.compile(r"[{,]\s*[\"']?([\w.-]{1,253})[\"']?:\s*[\"']?([^\s\"',{}]+)")
_BLOCK_SCALAR = re.compile(r"[|>][^\n]*\n\s*")
_KIND = re.compile(r"[\"']?Secret\b")
_NOT_SECRET_KEY = re.compile(
    r"user(?:[-_]?name)?$|host|port$|^ca\.(?!key)|\.crt$|namespace|endpoint|region|bucket|^name$"
    r"|email|public",
    re.IGNORECASE,
)


class SecretValue(NamedTuple):
    """A value at a place in the text; ``plain`` is None where it is no text."""

    plain: str | None
    start: int
    end: int


class _Value(NamedTuple):
    block: str
    name: str
    text: str
    start: int
    end: int


def find_secret_values(path: str, text: str) -> Iterator[SecretValue]:
    """Find the values of objects of kind Secret, except under names such as ``username``."""
    for each in _in_json(text) if path.endswith(".json") else _in_yaml(text):
        if each.text and not _NOT_SECRET_KEY.search(each.name):
            plain = each.text if each.block == _PLAIN else _decode(each.text)
            yield SecretValue(plain, each.start, each.end)


def _decode(value: str) -> str | None:
    """Decode base64: empty if it is not base64, None if the result is not text."""
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode()
    except binascii.Error:
        return ""
    except UnicodeDecodeError:
        return None


def _in_yaml(text: str) -> Iterator[_Value]:
    for block in _blocks(text):
        if block["value"]:
            for each in _FLOW.finditer(text, *block.span("value")):
                yield _Value(block["key"], each[1], each[2], *each.span(2))
            continue
        for entry, end in _entries(text, block.end() + 1, len(block["before"])):
            if entry["value"]:
                yield _written(text, block["key"], entry, end)


def _written(text: str, block: str, entry: re.Match[str], end: int) -> _Value:
    """The value of an entry, without quotes or a comment after it."""
    start = entry.start("value")
    scalar = _BLOCK_SCALAR.match(text, start, end)
    start = scalar.end() if scalar else start
    written = text[start:end].rstrip()
    if not scalar:
        written = written.partition(" #")[0].rstrip()
        if written[:1] in {'"', "'"}:
            start, written = start + 1, written[1:].rstrip(written[0])
    value = "\n".join(map(str.strip, written.split("\n")))
    return _Value(block, entry["key"], value, start, start + len(written))


def _blocks(text: str) -> Iterator[re.Match[str]]:
    """The lines that begin the data of a Secret, by the column of their keys."""
    open_: list[tuple[int, list[re.Match[str]]]] = []
    for line in (*_LINE.finditer(text), None):
        column = -1 if line is None or line["new"] else len(line["before"])
        while open_ and (
            open_[-1][0] > column or (open_[-1][0] == column and line and line["items"])
        ):
            _, keys = open_.pop()
            if any(key["key"] == "kind" and _KIND.match(key["value"] or "") for key in keys):
                yield from (key for key in keys if key["key"] in {"data", _PLAIN})
        if line is not None and column >= 0:
            if not open_ or open_[-1][0] < column:
                open_.append((column, []))
            if line["key"] in {"kind", "data", _PLAIN}:
                open_[-1][1].append(line)


def _entries(text: str, start: int, outer: int) -> Iterator[tuple[re.Match[str], int]]:
    """The entries of a block, each with the end of its value."""
    entry: re.Match[str] | None = None
    column = -1
    while start < len(text):
        end = text.find("\n", start)
        end = end if end >= 0 else len(text)
        indent = end - start - len(text[start:end].lstrip(" \t"))
        if start + indent < end:
            if indent <= outer:
                break
            if column < 0 or indent <= column:
                if entry:
                    yield entry, start
                entry, column = _LINE.match(text, start), indent
        start = end + 1
    if entry:
        yield entry, min(start, len(text))


def _in_json(text: str) -> Iterator[_Value]:
    try:
        waiting: list[Any] = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    for each in waiting:
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        waiting += [value for value in inner if isinstance(value, dict | list)]
        if isinstance(each, dict) and each.get("kind") == "Secret":
            for block in ("data", _PLAIN):
                values = each.get(block)
                for name, value in values.items() if isinstance(values, dict) else ():
                    written = json.dumps(value)[1:-1]
                    if isinstance(value, str) and (start := text.find(written)) >= 0:
                        yield _Value(block, name, value, start, start + len(written))
