"""Data files that checks read in their own process: of all layers, put where they find them.

``config/taint`` tells the tracer of libraries, ``config/patterns`` holds patterns of defects in
other languages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestrator.catalog.data_sources import Source, latest
from orchestrator.catalog.yaml_validation import tree
from orchestrator.engine.canonical_json import digest
from orchestrator.errors import ConfigError
from orchestrator.resources import data_root
from orchestrator.review.rule_table import RuleTable

Documents = Sequence[tuple[str, Mapping[str, Any]]]  # name in messages, content
Known = Mapping[str, Mapping[str, Any]]  # name without suffix → content


class Kind(Struct, frozen=True):
    """One folder of data files.

    Attributes:
        folder: such as ``config/taint``.
        check: raises ``ConfigError`` for what its check could not read; given a repository's own
            files, those of all layers, and the rules.
    """

    folder: str
    check: Callable[[Documents, Known, RuleTable], None]

    def files(self, sources: Sequence[Source]) -> Mapping[str, bytes]:
        """The files of all layers; one replaces the lower one of its name."""
        found = latest(sources, f"{self.folder}/*.yaml").values()
        return {f"{file.stem}.yaml": file.data for file in found}


def _check_taint(documents: Documents, known: Known, rules: RuleTable) -> None:
    from orchestrator.checks.taint.library_models import build  # noqa: PLC0415 - as few have own

    own = [(shown, build([(shown, content)])) for shown, content in documents]
    classes = {item["name"] for data in known.values() for item in data.get("classes") or ()}
    for shown, knowledge in own:
        for name in knowledge.named_classes():
            if name not in classes:
                allowed = ", ".join(sorted(classes))
                raise ConfigError(f"there is no class {name!r}; allowed: {allowed}", shown)


def _check_patterns(documents: Documents, known: Known, rules: RuleTable) -> None:
    from orchestrator.checks.patterns.user_patterns import check_own  # noqa: PLC0415

    check_own(documents, known, rules.codes("patterns"))


TAINT = Kind("config/taint", _check_taint)
PATTERNS = Kind("config/patterns", _check_patterns)
KINDS = (TAINT, PATTERNS)


def write(kind: Kind, sources: Sequence[Source], folder: Path) -> list[str]:
    """Write the files of all layers into a folder of ours; returns their paths."""
    folder.mkdir()
    paths = []
    for name, data in kind.files(sources).items():
        place = folder / name
        place.write_bytes(data)
        paths.append(str(place))
    return paths


def check(sources: Sequence[Source], rules: RuleTable) -> None:
    """Hold a repository's own files against what the checks can read.

    Raises:
        ConfigError: the first fault.
    """
    for kind in KINDS:
        own = latest(sources[1:], f"{kind.folder}/*.yaml").values()
        if own:
            documents = [(file.shown, _parsed(file.data, file.shown)) for file in own]
            known = {
                file.stem: _parsed(file.data, file.shown)
                for file in latest(sources, f"{kind.folder}/*.yaml").values()
            }
            kind.check(documents, known, rules)


def _parsed(data: bytes, shown: str) -> Mapping[str, Any]:
    content = tree(data, shown).value
    if not isinstance(content, dict):
        raise ConfigError("a data file must be a mapping of sections", shown)
    return content


def digests(sources: Sequence[Source]) -> dict[str, str]:
    """Folder → SHA-256 over all its files."""
    return {
        kind.folder: digest(
            {name: data.decode("utf-8", "replace") for name, data in kind.files(sources).items()}
        )
        for kind in KINDS
    }


def contents_digest(paths: Sequence[str]) -> str:
    """SHA-256 over written files, by name."""
    return digest({Path(path).name: Path(path).read_text("utf-8", "replace") for path in paths})


def further_names(languages: Sequence[str]) -> list[str]:
    """The file names of languages that a repository adds, as patterns.

    Args:
        languages: the paths of all files of patterns.
    """
    shipped = {path.name for path in (data_root() / PATTERNS.folder).glob("*.yaml")}
    own = [Path(file) for file in languages if Path(file).name not in shipped]
    contents = (_parsed(file.read_bytes(), file.name) for file in own)
    return [f"*{suffix}" for content in contents for suffix in content.get("grammars", ())]
