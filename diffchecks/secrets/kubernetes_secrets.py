"""The values of Kubernetes Secrets in manifests, lists of manifests, and templates of charts."""

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import accumulate

import yaml

from diffchecks.check_io import Gap
from diffchecks.infrastructure.helm import parse_template
from diffchecks.yaml_tree import TreeNode, parse_documents, walk

_NOT_SECRET_KEY = re.compile(
    r"user(?:[-_]?name)?$|host|port$|^ca\.(?!key)|\.crt$|namespace|endpoint|region|bucket|^name$"
    r"|email|public",
    re.IGNORECASE,
)


def find_secret_values(text: str) -> Iterator[tuple[str | None, int, int]]:
    """The values of names that may be secret, each with its place; None: a value that is no text.

    A file that cannot be parsed has none.
    """
    try:
        documents = parse_template(text)[0] if "{{" in text else parse_documents(text)
    except (yaml.YAMLError, Gap):
        return
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    for document in documents:
        for secret in (document, *(place.value for place in walk(document))):
            if secret.get_text("kind") == "Secret":
                for block in ("data", "stringData"):
                    for value in _values(secret.find(block), whole=block == "data"):
                        plain = value.text if block == "stringData" else _decode(value.text)
                        yield plain and plain.strip(), *_place(text, starts, value)


def _values(block: TreeNode | None, *, whole: bool) -> Iterator[TreeNode]:
    """The values of a block; only base64 can hide a whole file."""
    for name, value in block.entries() if block else ():
        lines = value.text.strip().count("\n")
        if value.text and (whole or not lines) and not _NOT_SECRET_KEY.search(name.text):
            yield value


def _place(text: str, starts: list[int], value: TreeNode) -> tuple[int, int]:
    """The span of a value as it is written, without quotes; of a block, its lines."""
    start = starts[value.line] if value.block else starts[value.line - 1] + value.column - 1
    end = min(starts[value.end_line], len(text))
    at = text.find(value.text, start, end)
    return (at, at + len(value.text)) if at >= 0 else (start, end)


def _decode(value: str) -> str | None:
    """Decode base64: empty if it is not base64, None if the result is not text."""
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode()
    except (binascii.Error, ValueError) as error:
        return None if isinstance(error, UnicodeDecodeError) else ""
