"""Data files of checks: validated here, and put where a check's worker can read them.

``config/taint`` models libraries for taint tracking, ``config/patterns`` holds patterns of defects,
``config/infrastructure`` dangerous values of infrastructure files, ``config/fixes`` templates of
fixes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from diffchecks import DATA, DataFileError
from diffchecks.rules import IMPORTED, RuleTable
from orchestrator.catalog.data_file_layers import Layer, find_files
from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.catalog.yaml_validation import parse_yaml
from orchestrator.engine.canonical_json import digest
from orchestrator.errors import ConfigError

Documents = Sequence[tuple[str, YamlNode]]
"""Name in messages and content of each file, a mapping."""

FilesByStem = Mapping[str, Mapping[str, Any]]
"""Name without suffix → content."""


class DataKind(Struct, frozen=True):
    """One directory of data files.

    Attributes:
        validate: raises ``ConfigError`` for what the check could not read; given a repository's
            own files, those of all layers, and the rules.
    """

    directory: str
    validate: Callable[[Documents, FilesByStem, RuleTable], None]


def _validate_taint(documents: Documents, known: FilesByStem, rules: RuleTable) -> None:
    from diffchecks.taint.library_models import build  # noqa: PLC0415 - few repositories have any

    own = [(shown, build([(shown, node.value)])) for shown, node in documents]
    classes = {item["name"] for data in known.values() for item in data.get("classes") or ()}
    for shown, models in own:
        for name in models.named_classes():
            if name not in classes:
                allowed = ", ".join(sorted(classes))
                raise ConfigError(f"there is no class {name!r}; allowed: {allowed}", shown)


def _validate_patterns(documents: Documents, known: FilesByStem, rules: RuleTable) -> None:
    from diffchecks.patterns.user_pattern_validation import check_user_patterns  # noqa: PLC0415

    for _, node in documents:
        _check_keys(node)
    contents = [(shown, node.value) for shown, node in documents]
    check_user_patterns(contents, known, rules.codes("patterns"))


def _validate_infrastructure(documents: Documents, known: FilesByStem, rules: RuleTable) -> None:
    from diffchecks.infrastructure.value_patterns import read_patterns  # noqa: PLC0415

    for shown, node in documents:
        try:
            patterns = read_patterns(node.value).patterns
        except ValueError as error:
            what = f"not a valid file of infrastructure patterns: {error}"
            raise ConfigError(f"{what} (docs/own-patterns.md)", shown) from None
        for pattern in patterns:
            if pattern.code not in rules.codes("infrastructure"):
                names = f"infrastructure:{pattern.code}"
                raise ConfigError(f"no rule names {names}; add one in config/rules/", shown)


def _validate_fixes(documents: Documents, known: FilesByStem, rules: RuleTable) -> None:
    from diffchecks.fixes.template_loading import build_templates  # noqa: PLC0415
    from diffchecks.patterns.user_pattern_validation import check_search  # noqa: PLC0415

    for shown, node in documents:
        try:
            templates = build_templates(node.value)
        except (ValueError, re.error) as error:
            what = f"not a valid file of fixes: {error}"
            raise ConfigError(f"{what} (docs/fixes.md)", shown) from None
        grammars = {name for names in templates.grammars.values() for name in names}
        for fix in templates.fixes:
            if fix.rule not in rules.rules and not fix.rule.startswith(IMPORTED):
                raise ConfigError(
                    f"there is no rule {fix.rule!r} to fix; `diffcourt catalog --rules` lists them",
                    shown,
                )
            if fix.match is not None:
                check_search(fix.config, grammars, f"the fix of {fix.rule}", shown)


_PATTERN_KEYS = ("code", "message", "rule", "example")


def _check_keys(node: YamlNode) -> None:
    """Raise one error that names every missing key, at the line of the first."""
    missing: list[tuple[tuple[str | int, ...], str]] = []
    content = node.value
    needed = ("patterns",) if "extends" in content else ("grammars", "patterns")
    missing += [((), key) for key in needed if key not in content]
    patterns = content.get("patterns")
    for number, pattern in enumerate(patterns if isinstance(patterns, list) else ()):
        if not isinstance(pattern, dict):
            continue
        path = ("patterns", number)
        missing += [(path, key) for key in _PATTERN_KEYS if key not in pattern]
        example = pattern.get("example")
        if isinstance(example, dict):
            absent = [key for key in ("bad", "good") if key not in example]
            missing += [(path, f"example.{key}") for key in absent]
    if missing:
        lines = [(node.error("", *path).line, key) for path, key in missing]
        names = ", ".join(f"{key} (line {line})" if line else key for line, key in lines)
        raise node.error(f"missing keys: {names}", *missing[0][0])


TAINT = DataKind("config/taint", _validate_taint)
PATTERNS = DataKind("config/patterns", _validate_patterns)
INFRASTRUCTURE = DataKind("config/infrastructure", _validate_infrastructure)
FIXES = DataKind("config/fixes", _validate_fixes)
KINDS = (TAINT, PATTERNS, INFRASTRUCTURE, FIXES)


def write(kind: DataKind, sources: Sequence[Layer], root: Path) -> list[str]:
    """Write a repository's own files into a directory below root; returns the paths of all files.

    The installation's stay where they are: workers can read them there.
    """
    paths, directory = [], root / PurePosixPath(kind.directory).name
    for file in find_files(sources, f"{kind.directory}/*.yaml").values():
        if file.location is None:
            directory.mkdir(exist_ok=True)
            (directory / f"{file.stem}.yaml").write_bytes(file.data)
        paths.append(file.location or str(directory / f"{file.stem}.yaml"))
    return paths


def write_all(sources: Sequence[Layer], root: Path) -> dict[str, list[str]]:
    """``write`` for each kind; returns the directory's name → the paths of its files."""
    return {PurePosixPath(kind.directory).name: write(kind, sources, root) for kind in KINDS}


def validate(sources: Sequence[Layer], rules: RuleTable) -> None:
    """Check that the checks can read a repository's own files."""
    for kind in KINDS:
        own = find_files(sources[1:], f"{kind.directory}/*.yaml").values()
        if own:
            documents = [(file.display_path, _parse(file.data, file.display_path)) for file in own]
            known = {
                file.stem: _parse(file.data, file.display_path).value
                for file in find_files(sources, f"{kind.directory}/*.yaml").values()
            }
            try:
                kind.validate(documents, known, rules)
            except DataFileError as error:
                raise ConfigError(error.message, error.file) from None


def _parse(data: bytes, display_path: str) -> YamlNode:
    node = parse_yaml(data, display_path)
    if not isinstance(node.value, dict):
        raise ConfigError("a data file must be a mapping of sections", display_path)
    return node


def digests(sources: Sequence[Layer]) -> dict[str, str]:
    """Directory → SHA-256 of its files in all layers, in hex."""
    found = {kind.directory: find_files(sources, f"{kind.directory}/*.yaml") for kind in KINDS}
    return {
        directory: digest(
            {f"{file.stem}.yaml": sha256(file.data).hexdigest() for file in files.values()}
        )
        for directory, files in found.items()
    }


@lru_cache(maxsize=8)  # several tools of a review ask for the same files
def contents_digest(paths: tuple[str, ...]) -> str:
    """SHA-256 of the files that ``write`` returned, by name and content, in hex."""
    return digest({Path(path).name: Path(path).read_text("utf-8", "replace") for path in paths})


def added_file_patterns(pattern_files: Sequence[str]) -> list[str]:
    """Patterns of file names of the languages that a repository adds, such as ``*.php``.

    Args:
        pattern_files: the paths of all files of defect patterns.
    """
    contents = _added_files(pattern_files)
    return [f"*{suffix}" for content in contents for suffix in content.get("grammars", ())]


def extends(language: str, pattern_files: Sequence[str]) -> bool:
    """Whether a repository adds patterns to a shipped language; arguments as above."""
    return any(content.get("extends") == language for content in _added_files(pattern_files))


def _added_files(pattern_files: Sequence[str]) -> list[Mapping[str, Any]]:
    shipped = _shipped_pattern_files()
    own = [Path(file) for file in pattern_files if Path(file).name not in shipped]
    return [_parse(file.read_bytes(), file.name).value for file in own]


@cache
def _shipped_pattern_files() -> frozenset[str]:
    return frozenset(path.name for path in (DATA / "patterns").glob("*.yaml"))
