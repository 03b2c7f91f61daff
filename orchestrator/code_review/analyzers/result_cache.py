"""Analyzer results, cached from one review to the next.

Of most analyzers a result is cached for each file, as it depends on the file's path and content
alone. Of a check that reads a whole tree the report is cached as one, for the state of all files
that it reads. A gap is not cached, because it may be due to a lack of time or memory; neither is a
finding that contains a secret.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, convert, to_builtins
from msgspec.json import Decoder
from msgspec.structs import replace

from diffchecks import DATA, TABLES
from diffchecks.check_io import RawFinding
from diffchecks.safe_paths import SafeDirectory
from orchestrator import __version__
from orchestrator.code_review.analyzer_types import AnalyzerReport, ResultCache, Side, SideAnalyzer
from orchestrator.engine.canonical_json import digest


@cache
def build_digest() -> str:
    """Digest of the version, the analyzers' own code and data, and Python's version.

    It is part of every key. The code is hashed because a checkout can change without its version.
    """
    files = [*sorted(Path(__file__).parent.rglob("*.py")), *sorted(DATA.parent.rglob("*.py"))]
    files += sorted((DATA / "flows").glob("*.yaml"))
    files += sorted((*(DATA / "templates").glob("*.yaml"), *TABLES.rglob("*.*")))
    code = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
    return digest([__version__, code, list(sys.version_info[:3])])


class _Result(Struct, frozen=True, omit_defaults=True):
    """A report without gaps on some files, or on one; ``version`` is the analyzer's."""

    version: str
    examined: tuple[str, ...]
    findings: tuple[RawFinding, ...]
    facts: Mapping[str, Any] = {}

    def to_bytes(self) -> bytes:
        return json.dumps(to_builtins(self)).encode("ascii")  # keeps paths that are not UTF-8


# msgspec describes a class to itself when it first converts to it. Two threads that do so at once
# crash the process, so it is done here, where there is one.
_DESCRIBED = Decoder(_Result)


def _read_entry(data: bytes, *paths: str) -> _Result | None:
    """A cache entry, None when it is malformed or could not be an analyzer's on these paths."""
    try:
        result = convert(json.loads(data), _Result)
    except ValueError:
        return None
    known, findings = frozenset(paths), result.findings
    sound = all(raw.path in known and raw.line >= 1 and not raw.redact for raw in findings)
    return result if sound and known.issuperset(result.examined) else None


async def run_cached(
    analyzer: SideAnalyzer, cache: ResultCache | None, side: Side, paths: Sequence[str]
) -> AnalyzerReport:
    """The analyzer's report, made of cached results where there are some.

    Args:
        cache: None: all of the paths are analyzed.
    """
    if cache is None or not paths:
        return await analyzer.run(side, paths)
    if analyzer.needs_tree:
        identity = await analyzer.tree_identity(side, paths)
        if identity is None:
            return await analyzer.run(side, paths)
        return await _run_on_tree(analyzer, cache, identity, side, paths)
    identity = analyzer.identity
    if identity is None:
        return await analyzer.run(side, paths)
    return await _run_on_files(analyzer, cache, identity, side, paths)


async def _run_on_files(
    analyzer: SideAnalyzer, cache: ResultCache, identity: str, side: Side, paths: Sequence[str]
) -> AnalyzerReport:
    """Run an analyzer only on files without a cached result."""
    keys, cached = await anyio.to_thread.run_sync(_look_up, cache, identity, side.root, paths)
    missing = [path for path in paths if path not in cached]
    if not missing:
        report = AnalyzerReport(analyzer.name, next(iter(cached.values())).version)
    else:
        report = await analyzer.run(side, missing)
        if report.error is not None or report.facts:
            return report
        entries = cacheable_entries(report, missing)
        new = {keys[path]: entry for path, entry in entries.items() if path in keys}
        await anyio.to_thread.run_sync(cache.put, new)
    known = [raw for result in cached.values() for raw in result.findings]
    return replace(
        report,
        findings=tuple(sorted((*known, *report.findings), key=lambda raw: raw.path)),
        examined=report.examined.union(*(result.examined for result in cached.values())),
    )


def _look_up(
    cache: ResultCache, identity: str, root: Path, paths: Sequence[str]
) -> tuple[dict[str, bytes], dict[str, _Result]]:
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
    entries = cache.get(list(keys.values()))
    results = {
        path: result
        for path, key in keys.items()
        if key in entries and (result := _read_entry(entries[key], path)) is not None
    }
    return keys, results


async def _run_on_tree(
    analyzer: SideAnalyzer, cache: ResultCache, identity: str, side: Side, paths: Sequence[str]
) -> AnalyzerReport:
    """Run a check that reads a whole tree only where one of the files that it reads has changed.

    Two reviews of the same commits share its report, and so do pushes that touch other files alone.
    """
    key = hashlib.sha256(f"{build_digest()}\0{identity}".encode()).digest()
    entries = await anyio.to_thread.run_sync(cache.get, [key])
    known = _read_entry(entries[key], *paths) if key in entries else None
    if known is not None:
        examined = frozenset(known.examined)
        return AnalyzerReport(
            analyzer.name, known.version, known.findings, examined, facts=known.facts
        )
    report = await analyzer.run(side, paths)
    if report.error is None and not report.gaps and not any(f.redact for f in report.findings):
        examined_paths = tuple(sorted(report.examined))
        result = _Result(report.version, examined_paths, report.findings, report.facts)
        await anyio.to_thread.run_sync(cache.put, {key: result.to_bytes()})
    return report


def cacheable_entries(report: AnalyzerReport, paths: Sequence[str]) -> Mapping[str, bytes]:
    """Path → cache entry, for the analyzed files whose findings hold no secret."""
    findings: dict[str, list[RawFinding]] = {path: [] for path in paths if path not in report.gaps}
    for raw in report.findings:
        if raw.path in findings:
            findings[raw.path].append(raw)
    return {
        path: _Result(report.version, (path,) * (path in report.examined), (*found,)).to_bytes()
        for path, found in findings.items()
        if not any(raw.redact for raw in found)
    }
