"""Dangerous settings in infrastructure files in YAML or JSON.

Kubernetes manifests, Helm charts, Compose files, GitLab CI and GitHub workflows, CloudFormation. A
file's kind is recognized by its path or its content; other files are not examined. Patterns of
single values are data (``data/infrastructure``); everything else is code in the module of its
kind.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import yaml
from msgspec.structs import replace

from diffchecks.check_io import CheckReply, Gap, NotApplicable, RawFinding, Source, check_files
from diffchecks.infrastructure import cloudformation, compose, gitlab, helm, kubernetes, workflows
from diffchecks.infrastructure.value_patterns import (
    InfrastructureObject,
    load_patterns,
    match_values,
)
from diffchecks.infrastructure.workflows import is_workflow_file
from diffchecks.jobs import DataJob
from diffchecks.patterns.pipeline_commands import is_gitlab_file
from diffchecks.template_marks import describe_template
from diffchecks.yaml_tree import TreeNode, parse_documents

Look = Callable[[InfrastructureObject], Iterator[RawFinding]]
Kind = tuple[str, Iterable[InfrastructureObject], Look]
"""The name of a kind of document, the objects in a document, and a check of one object."""

MAX_OF_A_KIND = 100  # in one file
_MANIFEST = re.compile(r"\bapiVersion[\"']?\s*:\s*[\"']?[\w$]")
_SERVICES = re.compile(r"^[\"']?services[\"']?\s*:|\{\s*[\"']?services[\"']?\s*:", re.MULTILINE)
_RESOURCE_TYPE = "::"


def run(job: DataJob) -> CheckReply:
    """Check infrastructure files."""
    return check_files(job, partial(_look, files=tuple(job.data)))


def _look(source: Source, *, files: tuple[str, ...]) -> Iterator[RawFinding]:
    if not _may_concern(source):
        raise NotApplicable
    documents, chosen = _documents(source)
    patterns = load_patterns(files)
    found = [
        (kind, one, look)
        for document in documents
        for kind, objects, look in _kinds(document, source)
        for one in objects
    ]
    if not found:
        raise NotApplicable
    raws = (
        raw
        for kind, one, look in found
        for raw in chain(match_values(patterns[kind], one), look(one))
        if raw.line not in chosen
    )
    yield from _limited(raws)


def _limited(raws: Iterable[RawFinding]) -> Iterator[RawFinding]:
    """Each finding once, since an alias repeats text in many objects, and limited in number."""
    reported: set[tuple[str, int, int]] = set()
    number = Counter[str]()
    for raw in raws:
        place = raw.code, raw.line, raw.column
        if place in reported:
            continue
        reported.add(place)
        number[raw.code] += 1
        if number[raw.code] < MAX_OF_A_KIND:
            yield raw
        elif number[raw.code] == MAX_OF_A_KIND:
            yield replace(raw, detail="More of this kind in this file are not listed")


def _documents(source: Source) -> tuple[list[TreeNode], frozenset[int]]:
    """The documents of a file, and the lines that are only rendered on request."""
    if helm.is_template(source.path, source.text):
        return helm.parse_template(source.text)
    try:
        return parse_documents(source.text), frozenset()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        what = (
            "a template, not plain YAML"
            if describe_template(source.path, source.text)
            else "not YAML"
        )
        raise Gap(f"{where}{what}, so what it configures was not examined") from None


def _may_concern(source: Source) -> bool:
    """Whether an unparsed file is likely of one of the kinds."""
    text = source.text
    is_json = source.suffix == ".json"
    return bool(
        (_RESOURCE_TYPE in text and "Resources" in text)
        or ("kind" in text and _MANIFEST.search(text))
        or (not is_json and "services" in text and _SERVICES.search(text))
        or is_gitlab_file(source.path)
        or is_workflow_file(source.path)
        or helm.is_values(source.path)
    )


def _kinds(document: TreeNode, source: Source) -> Sequence[Kind]:
    """The kinds that a document may have; only one of these finds objects in it."""
    path = source.path
    return (
        ("gitlab", gitlab.find_objects(document, path), gitlab.look),
        ("workflow", workflows.find_objects(document, path), workflows.look),
        ("kubernetes", kubernetes.find_objects(document, path), kubernetes.look),
        ("kubernetes", helm.find_values(document, path), kubernetes.look),
        ("cloudformation", cloudformation.find_objects(document, path), cloudformation.look),
        ("compose", compose.find_objects(document, path), compose.look),
    )
