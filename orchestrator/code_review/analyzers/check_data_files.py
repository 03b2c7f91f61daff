"""A repository's own data files of checks, put where a check's worker can read them.

``config/taint`` models libraries for taint tracking, ``config/patterns`` holds patterns of defects,
``config/infrastructure`` dangerous values of infrastructure files, ``config/fixes`` templates of
fixes.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from diffchecks import DataFileError
from diffchecks.rules import RuleTable
from orchestrator.catalog.data_file_layers import File, Layer, find_files
from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.catalog.yaml_validation import parse_yaml
from orchestrator.engine.canonical_json import digest
from orchestrator.errors import ConfigError

KINDS = ("taint", "patterns", "infrastructure", "fixes")
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


def write(kind: str, sources: Sequence[Layer], root: Path) -> list[str]:
    """Write a repository's own files into a directory below root; returns the paths of all files.

    The installation's stay where they are: workers can read them there.
    """
    paths, directory = [], root / kind
    for file in _find(kind, sources):
        if file.location is None:
            directory.mkdir(exist_ok=True)
            (directory / f"{file.stem}.yaml").write_bytes(file.data)
        paths.append(file.location or str(directory / f"{file.stem}.yaml"))
    return paths


def write_all(sources: Sequence[Layer], root: Path) -> dict[str, list[str]]:
    """``write`` for each kind; returns the kind → the paths of its files."""
    return {kind: write(kind, sources, root) for kind in KINDS}


def validate(sources: Sequence[Layer], rules: RuleTable) -> None:
    """Check that the checks can read a repository's own files."""
    for kind in KINDS:
        own = [(file.display_path, _parse(file)) for file in _find(kind, sources[1:])]
        if own:
            from diffchecks.own_data import VALIDATORS  # noqa: PLC0415 - few repositories have any

            for _, node in own if kind == "patterns" else ():
                _check_keys(node)
            documents = [(shown, node.value) for shown, node in own]
            try:
                VALIDATORS[kind](
                    documents, {f.stem: _parse(f).value for f in _find(kind, sources)}, rules
                )
            except DataFileError as error:
                raise ConfigError(error.message, error.file) from None


def _find(kind: str, sources: Sequence[Layer]) -> Collection[File]:
    return find_files(sources, f"config/{kind}/*.yaml").values()


def _parse(file: File) -> YamlNode:
    node = parse_yaml(file.data, file.display_path)
    if not isinstance(node.value, dict):
        raise ConfigError("a data file must be a mapping of sections", file.display_path)
    return node


def digests(sources: Sequence[Layer]) -> dict[str, str]:
    """Directory → SHA-256 of its files in all layers, in hex."""
    return {
        f"config/{kind}": digest(
            {f"{file.stem}.yaml": sha256(file.data).hexdigest() for file in _find(kind, sources)}
        )
        for kind in KINDS
    }


@lru_cache(maxsize=8)  # several tools of a review ask for the same files
def contents_digest(paths: tuple[str, ...]) -> str:
    """SHA-256 of the files that ``write`` returned, by name and content, in hex."""
    return digest({Path(path).name: Path(path).read_text("utf-8", "replace") for path in paths})
