"""Code that a package runs when it is installed or built: ``setup.py`` and ``build.rs``."""

import ast
from collections.abc import Collection, Iterator

from diffchecks.check_io import Gap, RawFinding, Source
from diffchecks.data_files import read_patterns
from diffchecks.python.source_definitions import MAX_BYTES
from diffchecks.python.syntax_tree_cache import parse, walk

# setuptools commands that an installation runs, without those that often compile extensions.
_COMMANDS = frozenset(["install", "develop", "egg_info"])
_NETWORK = read_patterns("build_scripts")["network"]


def is_build_script(path: str) -> bool:
    """Whether a file of this name is run when a package is installed or built."""
    return path.rpartition("/")[2] in {"setup.py", "build.rs"}


def find_build_code(head: Source, added: Collection[int], base: bytes) -> Iterator[RawFinding]:
    """Find code that a build script of head runs and base's does not.

    Raises:
        Gap: it cannot be parsed.
    """
    if head.name == "build.rs":
        was = {line.strip() for line in base.decode(errors="replace").split("\n")}
        for number, text in enumerate(head.lines, 1):
            new = number in added and text.strip() not in was
            if new and (found := _NETWORK.search(text.partition("//")[0])):
                message = f"Every build runs this code, which uses {found[0].rstrip(':')}"
                yield RawFinding("install-script", head.path, number, message)
        return
    if len(head.data) > MAX_BYTES:
        raise Gap(f"its build commands could not be read: it is larger than {MAX_BYTES >> 20} MiB")
    try:
        before = dict(_commands(base))
    except Gap:
        before = {}
    for command, (line, name) in _commands(head.data):
        if command not in before or before[command][1] != name:
            message = f"Installing this package from source runs {name}, as the command {command}"
            yield RawFinding("install-script", head.path, line, message, key=command)


def _commands(data: bytes) -> Iterator[tuple[str, tuple[int, str]]]:
    """The installation commands that ``setup()`` overrides: name → line and class."""
    try:
        tree = parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Gap("its build commands could not be read: it does not parse") from None
    for node in walk(tree):
        if not (isinstance(node, ast.keyword) and node.arg == "cmdclass"):
            continue
        for pair in walk(node.value):
            if isinstance(pair, ast.Dict):
                for key, value in zip(pair.keys, pair.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in _COMMANDS:
                        yield str(key.value), (key.lineno, ast.unparse(value))
