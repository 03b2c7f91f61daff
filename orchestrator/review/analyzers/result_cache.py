"""Answers about single files that are kept from one review to the next.

Only an analyzer whose answer depends on a file's name and content alone takes part. What it says of
a file that it could not judge is not kept, for that may have been a lack of time or memory; neither
is an answer that holds a secret's text.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio.to_thread
from msgspec import Struct, to_builtins

from orchestrator import __version__
from orchestrator.engine.canonical_json import digest
from orchestrator.review.analysis import Needs, Raw, Report, Side, SideAnalyzer
from orchestrator.sandbox.safe_paths import Beneath

_OURS = ("review/analyzers", "checks")


class Answers(Protocol):
    """Where answers are kept. It may forget; what it gives back is what was put in."""

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The answers that are known, by key."""

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Keep answers."""


@cache
def build() -> str:
    """What the analyzers are made of: this program's version, its code that analyses, and Python's.

    The code is read because a checkout changes without its version.
    """
    here = Path(__file__).parents[2]
    files = (path for name in _OURS for path in sorted((here / name).rglob("*.py")))
    code = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
    return digest([__version__, code, list(sys.version_info[:3])])


class _Answer(Struct, frozen=True):
    """What an analyzer says of one file that it could judge."""

    version: str
    examined: bool
    findings: tuple[Raw, ...]

    def to_bytes(self) -> bytes:
        return json.dumps(to_builtins(self)).encode("ascii")

    @classmethod
    def of(cls, data: bytes, path: str) -> _Answer | None:
        """The answer as it was kept, None when it is not one about this path."""
        try:
            told = json.loads(data)
            names = set(Raw.__struct_fields__)
            if any(finding.keys() != names for finding in told["findings"]):
                return None
            found = tuple(Raw(**{**f, "redact": ()}) for f in told["findings"])
            version, examined = str(told["version"]), told["examined"] is True
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if any(raw.path != path or not _sound(raw) for raw in found):
            return None
        return cls(version, examined, found)


def _sound(raw: Raw) -> bool:
    words = (raw.tool, raw.code, raw.message, raw.detail, raw.key or "", raw.scope or "")
    return (
        all(isinstance(word, str) for word in words)
        and all(type(number) is int and number > 0 for number in (raw.line, raw.end_line))
        and isinstance(raw.confidence, int | float)
    )


class Remembering:
    """A `SideAnalyzer` that asks another one only about what is not known yet."""

    def __init__(self, analyzer: SideAnalyzer, answers: Answers) -> None:
        self.name: str = analyzer.name
        self.needs: Needs = analyzer.needs
        self._analyzer, self._answers = analyzer, answers

    @property
    def identity(self) -> str | None:
        """As the analyzer's."""
        return self._analyzer.identity

    def wants(self, path: str) -> bool:
        """As the analyzer does."""
        return self._analyzer.wants(path)

    async def run(self, side: Side, paths: Sequence[str]) -> Report:
        """The same report as the analyzer's own, put together from old answers and new ones."""
        identity = self.identity
        if identity is None or not paths:
            return await self._analyzer.run(side, paths)
        keys, known = await anyio.to_thread.run_sync(self._known, identity, side.root, paths)
        rest = [path for path in paths if path not in known]
        if not rest:
            report = Report(self.name, next(iter(known.values())).version)
        else:
            report = await self._analyzer.run(side, rest)
            if report.error is not None or report.facts:
                return report
            new = {keys[path]: a for path, a in _by_file(report, rest).items() if path in keys}
            await anyio.to_thread.run_sync(self._answers.put, new)
        kept = [raw for answer in known.values() for raw in answer.findings]
        return Report(
            report.tool,
            report.version,
            tuple(sorted((*kept, *report.findings), key=lambda raw: raw.path)),
            report.examined | {path for path, answer in known.items() if answer.examined},
            report.gaps,
        )

    def _known(
        self, identity: str, root: Path, paths: Sequence[str]
    ) -> tuple[dict[str, bytes], dict[str, _Answer]]:
        keys: dict[str, bytes] = {}
        with Beneath(root) as side:
            for path in paths:
                try:
                    content = hashlib.sha256(side.read(path)).digest()
                except OSError:
                    continue  # its analyzer will say so
                about = f"{build()}\0{identity}\0{path}".encode("utf-8", "surrogatepass")
                keys[path] = hashlib.sha256(hashlib.sha256(about).digest() + content).digest()
        found = self._answers.get(list(keys.values()))
        answers = {
            path: answer
            for path, key in keys.items()
            if key in found and (answer := _Answer.of(found[key], path)) is not None
        }
        return keys, answers


def _by_file(report: Report, paths: Sequence[str]) -> Mapping[str, bytes]:
    """What may be kept of a report."""
    findings: dict[str, list[Raw]] = {path: [] for path in paths if path not in report.gaps}
    for raw in report.findings:
        if raw.path in findings:
            findings[raw.path].append(raw)
    return {
        path: _Answer(report.version, path in report.examined, tuple(found)).to_bytes()
        for path, found in findings.items()
        if not any(raw.redact for raw in found)
    }


def remembered(analyzer: SideAnalyzer, answers: Answers | None) -> SideAnalyzer:
    """The analyzer with a memory, where it can have one."""
    if answers is None or analyzer.needs == "tree":
        return analyzer
    return Remembering(analyzer, answers)
