"""Extracts the shell commands of CI configuration as a script, keeping line numbers.

GitLab's pipelines, and GitHub's workflows and actions.
"""

from collections.abc import Iterator

import yaml
from msgspec import Struct

from diffchecks.check_io import Gap
from diffchecks.data_files import read_names, read_patterns
from diffchecks.yaml_tree import TreeNode, parse_documents

_PATTERNS = read_patterns("pipeline_commands")
_STOPS = "set -e"  # a runner stops at the first failing command
_SCRIPTS = ("before_script", "script", "after_script")


class ScriptEntry(Struct, frozen=True):
    """An entry of a script.

    Attributes:
        keys: of the enclosing maps.
        line: 1-based, its first line.
    """

    keys: tuple[str, ...]
    line: int
    lines: list[str]


def is_gitlab_file(path: str) -> bool:
    """Whether GitLab reads pipelines from a file, by its path."""
    return _PATTERNS["file"].fullmatch(path) is not None


def is_workflow_file(path: str) -> bool:
    """Whether GitHub reads a workflow or an action from a file, by its path."""
    return _PATTERNS["workflow"].fullmatch(path) is not None


def jobs(document: TreeNode) -> Iterator[tuple[tuple[str, ...], TreeNode]]:
    """The enclosing keys and the map of each job, preceded by those of the whole document."""
    yield (), document
    for key, value in document.entries():
        if value.kind == "map" and key.text not in read_names("no_jobs"):
            yield (key.text,), value


def find_commands(document: TreeNode) -> Iterator[ScriptEntry]:
    """The entries of all scripts, each once, even if aliases repeat it in many jobs."""
    seen: set[int] = set()
    for above, job in jobs(document):
        for name in _SCRIPTS:
            script = job.find(name)
            for node in script.texts() if script is not None else ():
                if id(node) not in seen:
                    seen.add(id(node))
                    yield ScriptEntry((*above, name), node.line + bool(node.block), _lines(node))


def find_workflow_commands(document: TreeNode) -> Iterator[ScriptEntry]:
    """The commands that steps of a workflow or action run in a Unix shell."""
    listed = document.find("jobs")
    found = [(("jobs", key.text), job) for key, job in listed.entries()] if listed else []
    action = document.find("runs")
    for above, job in [*found, (("runs",), action)] if action else found:
        steps, shell = job.find("steps"), _default_shell(job) or _default_shell(document)
        shell = shell or ("pwsh" if job.get_text("runs-on").startswith("windows") else "bash")
        for step in steps.items if steps is not None else ():
            node = step.find("run") if step.kind == "map" else None
            used = step.get_text("shell") or shell
            if node is not None and node.kind == "text" and _PATTERNS["bash"].fullmatch(used):
                lines = [_PATTERNS["expression"].sub("x", line) for line in _lines(node)]
                yield ScriptEntry((*above, "run"), node.line + bool(node.block), lines)


def _default_shell(node: TreeNode) -> str:
    return node.get_text("defaults", "run", "shell")


def _lines(node: TreeNode) -> list[str]:
    lines = node.text.split("\n")
    return lines if node.block == "|" else [" ".join(lines)]


def extract_pipeline_commands(path: str, text: str) -> str:
    """The commands of a file, each on its line; every other line is empty."""
    find = find_workflow_commands if is_workflow_file(path) else find_commands
    try:
        documents = parse_documents(text)
    except (yaml.YAMLError, Gap):
        return ""  # reported by the check `infrastructure`
    lines: dict[int, list[str]] = {}
    for document in documents:
        for command in find(document):
            for number, line in enumerate(command.lines, command.line):
                lines.setdefault(number, []).append(line)
    script = ["; ".join(lines.get(number, ())) for number in range(1, max(lines, default=0) + 1)]
    return "\n".join([f"{_STOPS}; {script[0]}", *script[1:]]) if script else ""
