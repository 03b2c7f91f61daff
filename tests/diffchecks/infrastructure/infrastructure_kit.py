"""Samples of infrastructure files, and the check as a review calls it."""

from collections.abc import Mapping
from pathlib import Path

from diffchecks import DATA, infrastructure
from diffchecks.check_io import CheckReply
from diffchecks.infrastructure.value_patterns import ValuePattern, read_patterns
from diffchecks.patterns.pattern_loading import read_definitions
from tests.diffchecks.check_kit import as_received, read_samples, run_check

FILES = sorted(str(file) for file in (DATA / "infrastructure").glob("*.yaml"))
SAMPLES = {file.stem: file for file in (Path(__file__).parent / "samples").glob("*.yaml")}
USUAL_PATHS = {
    "kubernetes": "deploy/web.yaml",
    "compose": "compose.yaml",
    "cloudformation": "infra/stack.yaml",
    "gitlab": ".gitlab-ci.yml",
    "workflow": ".github/workflows/ci.yml",
    "helm": "charts/shop/templates/deployment.yaml",
}
"""Kind of file → a path where it may be."""
VALUES = "charts/shop/values.yaml"

Sample = Mapping[str, str]


def samples(kind: str) -> list[Sample]:
    """Pairs of a file with a defect and one that does the same without it."""
    return [{"path": USUAL_PATHS[kind], **sample} for sample in read_samples(SAMPLES[kind])]


def patterns() -> list[tuple[str, ValuePattern]]:
    """The shipped patterns, each with its kind of file."""
    read = [read_patterns(read_definitions(file)) for file in FILES]
    return [(file.reads, pattern) for file in read for pattern in file.patterns]


def _usual_path(kind: str, pattern: ValuePattern) -> str:
    return VALUES if pattern.kinds == "values" else USUAL_PATHS[kind]


def cases() -> Mapping[str, tuple[str, str, str]]:
    """Code → path, a file that shows it, and one that differs by one thing."""
    by_pattern = {
        pattern.code: (_usual_path(kind, pattern), pattern.example.bad, pattern.example.good)
        for kind, pattern in patterns()
        if pattern.example is not None
    }
    by_sample = {
        sample["code"]: (sample["path"], sample["bad"], sample["good"])
        for kind in SAMPLES
        for sample in reversed(samples(kind))
        if "code" in sample
    }
    return {**by_sample, **by_pattern}


def look(root: Path, files: Mapping[str, str | bytes]) -> CheckReply:
    """What the check says of some files."""
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
    job = {"root": str(root), "paths": list(files), "data": FILES}
    return as_received(run_check(infrastructure.run, job))


def codes(root: Path, path: str, text: str | bytes) -> list[str]:
    """The codes of what is found in one file, which has no gap."""
    reply = look(root, {path: text})
    assert not reply.gaps
    return [finding.code for finding in reply.findings if finding.message]
