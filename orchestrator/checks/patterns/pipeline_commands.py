"""The shell commands of GitLab CI configuration, as a script on the lines where they are."""

import re
from collections.abc import Iterator

import yaml
from msgspec import Struct

from orchestrator.checks.check_io import Gap
from orchestrator.checks.yaml_tree import Node, parse_documents

_FILE = re.compile(r"(?:.*/)?[^/]*\.gitlab-ci\.ya?ml|\.gitlab(?:-ci)?/.*\.ya?ml", re.DOTALL)
_NO_JOBS = frozenset(
    ["cache", "image", "include", "services", "spec", "stages", "variables", "workflow"]
)
_STOPS = "set -e"  # a runner ends at the first command that fails
_SCRIPTS = ("before_script", "script", "after_script")


class Command(Struct, frozen=True):
    """An entry of a script.

    Attributes:
        keys: of the maps above it.
        line: 1-based, of the first of its lines.
    """

    keys: tuple[str, ...]
    line: int
    lines: list[str]


def is_gitlab_file(path: str) -> bool:
    """Whether GitLab reads its pipelines from a file, by its path."""
    return _FILE.fullmatch(path) is not None


def jobs(document: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """The keys above each job and its map; the first is the document, whose keys all jobs have."""
    yield (), document
    for key, value in document.entries():
        if value.kind == "map" and key.text not in _NO_JOBS:
            yield (key.text,), value


def find_commands(document: Node) -> Iterator[Command]:
    """The entries of all scripts, each once, however many jobs an alias brings it into."""
    seen: set[int] = set()
    for above, job in jobs(document):
        for name in _SCRIPTS:
            script = job.find(name)
            for node in script.texts() if script is not None else ():
                if id(node) not in seen:
                    seen.add(id(node))
                    yield Command((*above, name), node.line + bool(node.block), _lines(node))


def _lines(node: Node) -> list[str]:
    lines = node.text.split("\n")
    return lines if node.block == "|" else [" ".join(lines)]


def extract_pipeline_commands(text: str) -> str:
    """The commands of a file, each on its line; every other line is empty."""
    try:
        documents = parse_documents(text)
    except (yaml.YAMLError, Gap):
        return ""  # the check `infrastructure` names it
    lines: dict[int, list[str]] = {}
    for document in documents:
        for command in find_commands(document):
            for number, line in enumerate(command.lines, command.line):
                lines.setdefault(number, []).append(line)
    script = ["; ".join(lines.get(number, ())) for number in range(1, max(lines, default=0) + 1)]
    return "\n".join([f"{_STOPS}; {script[0]}", *script[1:]]) if script else ""
