"""Dangerous settings of infrastructure that is written as YAML or JSON.

Kubernetes manifests, Helm charts, Compose files, GitLab CI and GitHub workflows, CloudFormation. A
file's kind is told by its path, or by what its documents hold; of a file that is none of these,
nothing is examined. What one value tells is data (``config/infrastructure``), the rest is code in
the module of its kind.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import yaml

from orchestrator.checks.check_io import (
    CheckReply,
    Gap,
    NotApplicable,
    RawFinding,
    Source,
    check_files,
)
from orchestrator.checks.infrastructure import cloudformation, compose, kubernetes
from orchestrator.checks.infrastructure.value_patterns import (
    InfrastructureObject,
    load_patterns,
    match_values,
)
from orchestrator.checks.infrastructure.yaml_tree import Node, parse_documents

Look = Callable[[InfrastructureObject, str], Iterator[RawFinding]]
Kind = tuple[str, Iterable[InfrastructureObject], Look]
"""The name of a kind of document, the objects in one, and what tells more than its patterns."""

_MANIFEST = re.compile(r"\bapiVersion[\"']?\s*:\s*[\"']?[\w$]")
_SERVICES = re.compile(r"^[\"']?services[\"']?\s*:|\{\s*[\"']?services[\"']?\s*:", re.MULTILINE)
_RESOURCE_TYPE = "::"


def run(job: dict[str, Any]) -> CheckReply:
    """Look at infrastructure files (see ``check_io`` for the shape of jobs and replies).

    Args:
        job: also ``patterns``: paths of files of value patterns.
    """
    return check_files(job, partial(_look, files=tuple(job["patterns"])))


def _look(source: Source, *, files: tuple[str, ...]) -> Iterator[RawFinding]:
    if not _may_concern(source):
        raise NotApplicable
    try:
        documents = parse_documents(source.text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise Gap(f"{where}not YAML, so what it configures was not examined") from None
    patterns, known = load_patterns(files), False
    for document in documents:
        for kind, objects, look in _kinds(document, source):
            for found in objects:
                known = True
                yield from match_values(patterns[kind], found, source.path)
                yield from look(found, source.path)
    if not known:
        raise NotApplicable


def _may_concern(source: Source) -> bool:
    """Whether a file is likely of one of the kinds, before it is parsed."""
    text = source.text
    is_json = source.suffix == ".json"
    return bool(
        (_RESOURCE_TYPE in text and "Resources" in text)
        or ("kind" in text and _MANIFEST.search(text))
        or (not is_json and "services" in text and _SERVICES.search(text))
    )


def _kinds(document: Node, source: Source) -> Sequence[Kind]:
    """What a document may be; only one of these has objects."""
    return (
        ("kubernetes", kubernetes.find_objects(document), kubernetes.look),
        ("cloudformation", cloudformation.find_objects(document), cloudformation.look),
        ("compose", compose.find_objects(document, source.path), compose.look),
    )
