"""Analyzer results for single files, cached from one review to the next.

Only results that depend on a file's path and content alone are cached. A gap is not, because it
may be due to a lack of time or memory; neither is a finding that contains a secret.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio.to_thread
from msgspec import Struct, convert, to_builtins
from msgspec.json import Decoder

from orchestrator import __version__
from orchestrator.checks.check_io import RawFinding
from orchestrator.code_review.analyzer_types import AnalyzerReport, Needs, Side, SideAnalyzer
from orchestrator.data_directories import TEMPLATE_DIALECTS, data_root
from orchestrator.engine.canonical_json import digest
from orchestrator.sandbox.safe_paths import SafeDirectory

_OWN_CODE = ("code_review/analyzers", "checks")


class ResultCache(Protocol):
    """Bytes by key. It may drop entries, but never alters one."""

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The cached entries of these keys; keys without one are left out."""

    def put(self, entries: Mapping[bytes, bytes]) -> None:
        """Add or replace entries."""


@cache
def build_digest() -> str:
    """Digest of the version, the analyzers' own code and data, and Python's version.

    It is part of every key. The code is hashed because a checkout can change without its version.
    """
    package = Path(__file__).parents[2]
    files = [path for name in _OWN_CODE for path in sorted((package / name).rglob("*.py"))]
    files += sorted((data_root() / TEMPLATE_DIALECTS).glob("*.yaml"))
    code = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
    return digest([__version__, code, list(sys.version_info[:3])])


class _FileResult(Struct, frozen=True):
    """What an analyzer reports on one file that it could analyze; ``version`` is the analyzer's."""

    version: str
    examined: bool
    findings: tuple[RawFinding, ...]

    def to_bytes(self) -> bytes:
        return json.dumps(to_builtins(self)).encode("ascii")  # keeps paths that are not UTF-8


# msgspec describes a class to itself when it first converts to it. Two threads that do so at once
# crash the process, so it is done here, where there is one.
_DESCRIBED = Decoder(_FileResult)


def _read_entry(data: bytes, path: str) -> _FileResult | None:
    """A cache entry, None when it is malformed or about another path."""
    try:
        result = convert(json.loads(data), _FileResult)
    except ValueError:
        return None
    if any(raw.path != path or raw.line < 1 or raw.redact for raw in result.findings):
        return None
    return result


class CachingAnalyzer:
    """A ``SideAnalyzer`` that runs another one only on files without a cached result."""

    def __init__(self, analyzer: SideAnalyzer, cache: ResultCache) -> None:
        self.name: str = analyzer.name
        self.needs: Needs = analyzer.needs
        self._analyzer, self._cache = analyzer, cache

    @property
    def identity(self) -> str | None:
        """The identity of the analyzer behind the cache."""
        return self._analyzer.identity

    def wants(self, path: str) -> bool:
        """Whether the analyzer behind the cache reads files of this name."""
        return self._analyzer.wants(path)

    def files_read(self, report: AnalyzerReport) -> frozenset[str]:
        """What the analyzer behind the cache read as code."""
        return self._analyzer.files_read(report)

    async def run(self, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        """The same report as the analyzer's own, made of cached results and new ones."""
        identity = self.identity
        if identity is None or not paths:
            return await self._analyzer.run(side, paths)
        keys, cached = await anyio.to_thread.run_sync(self._look_up, identity, side.root, paths)
        missing = [path for path in paths if path not in cached]
        if not missing:
            report = AnalyzerReport(self.name, next(iter(cached.values())).version)
        else:
            report = await self._analyzer.run(side, missing)
            if report.error is not None or report.facts:
                return report
            entries = cacheable_entries(report, missing)
            new = {keys[path]: entry for path, entry in entries.items() if path in keys}
            await anyio.to_thread.run_sync(self._cache.put, new)
        known = [raw for result in cached.values() for raw in result.findings]
        return AnalyzerReport(
            report.tool,
            report.version,
            tuple(sorted((*known, *report.findings), key=lambda raw: raw.path)),
            report.examined | {path for path, result in cached.items() if result.examined},
            report.gaps,
        )

    def _look_up(
        self, identity: str, root: Path, paths: Sequence[str]
    ) -> tuple[dict[str, bytes], dict[str, _FileResult]]:
        """Path → key, for files that can be read, and path → cached result."""
        keys: dict[str, bytes] = {}
        with SafeDirectory(root) as side:
            for path in paths:
                try:
                    content = hashlib.sha256(side.read(path)).digest()
                except OSError:
                    continue  # the analyzer reports it
                about = f"{build_digest()}\0{identity}\0{path}".encode("utf-8", "surrogatepass")
                keys[path] = hashlib.sha256(hashlib.sha256(about).digest() + content).digest()
        entries = self._cache.get(list(keys.values()))
        results = {
            path: result
            for path, key in keys.items()
            if key in entries and (result := _read_entry(entries[key], path)) is not None
        }
        return keys, results


def cacheable_entries(report: AnalyzerReport, paths: Sequence[str]) -> Mapping[str, bytes]:
    """Path → cache entry, for the analyzed files whose findings hold no secret."""
    findings: dict[str, list[RawFinding]] = {path: [] for path in paths if path not in report.gaps}
    for raw in report.findings:
        if raw.path in findings:
            findings[raw.path].append(raw)
    return {
        path: _FileResult(report.version, path in report.examined, tuple(found)).to_bytes()
        for path, found in findings.items()
        if not any(raw.redact for raw in found)
    }


def with_cache(analyzer: SideAnalyzer, cache: ResultCache | None) -> SideAnalyzer:
    """The analyzer behind the cache, or itself where there is none or it needs the whole tree."""
    if cache is None or analyzer.needs == "tree":
        return analyzer
    return CachingAnalyzer(analyzer, cache)
