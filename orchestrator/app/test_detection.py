"""How a project's tests run, found in its own files: for ``diffcourt init --tests``."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from diffchecks.data_files import parse_yaml, read_yaml
from diffchecks.safe_paths import SafeDirectory
from orchestrator.errors import InputError

FILE = ".diffcourt/config/defaults.yaml"
MAX_BYTES = 1 << 20
MAX_FILES = 200
"""Of one pattern that are read."""


class FoundTests(Struct, frozen=True):
    """A way to run the tests, and the file that says so."""

    runner: str
    command: list[str]
    why: str
    reads: Sequence[str] = ()
    install: str = ""

    def lines(self) -> list[str]:
        """The setting, without its name."""
        reads = [f"  reads: [{', '.join(self.reads)}]"] if self.reads else []
        return [f"  command: [{', '.join(self.command)}]  # {self.why}", *reads]


def find_tests(top: Path) -> list[FoundTests]:
    """The ways to run a project's tests, the most likely first."""
    found: list[tuple[int, FoundTests]] = []
    for runner, row in read_yaml("test_commands.yaml").items():
        for number, (pattern, text) in enumerate(row["signs"]):
            files = sorted(islice(top.glob(pattern), MAX_FILES))
            file = next((path for path in files if _says(path, text)), None)
            if file is not None:
                why = f"{runner}, as {file.relative_to(top).as_posix()} says"
                given = (row["command"], why, row.get("reads", ()), row.get("install", ""))
                found.append((number, FoundTests(runner, *given)))
                break
    # A runner that configuration names is likelier than one that only tests import.
    found.sort(key=lambda pair: (pair[1].runner == "unittest", pair[0]))
    return [one for _, one in found]


def _says(path: Path, text: str) -> bool:
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        return False
    return not text or bool(re.search(text, path.read_text("utf-8", "replace"), re.MULTILINE))


def write_tests(top: Path, found: list[FoundTests]) -> Iterator[str]:
    """Add the setting to base's configuration, and say what was chosen and why.

    Raises:
        InputError: nothing was found, or the file has the setting or cannot be read as YAML.
    """
    if not found:
        raise InputError(
            f"no known way to run tests was found; write tests: into {FILE}, see docs/tests.md"
        )
    with SafeDirectory(top) as tree:
        before = tree.read(FILE).decode("utf-8") if tree.is_file(FILE) else ""
        first, *others = found
        lines = ["tests:", *first.lines()]
        for other in others:
            lines += ["  # or:", *(f"  #{line[1:]}" for line in other.lines())]
        after = "\n".join([*before.splitlines(), *lines, ""])
        _require_added(before, after)
        tree.make_directory(str(Path(FILE).parent))
        tree.write(FILE, after.encode())
    yield f"Wrote tests: into {FILE}:"
    yield from (f"  {line}" for line in lines)
    for path in first.reads:
        if not Path(path).is_dir():
            how = f"There is no {path}: install what the tests need there, or name another."
            yield f"{how} For example: {first.install}"
    yield "Next: commit it to the base branch, then try it: DIFFCOURT_RUN_TESTS=1 diffcourt doctor"
    yield "Outside of CI, a review without that variable or --run-tests is incomplete."


def _require_added(before: str, after: str) -> None:
    """Check that a file says what it said, and has the setting, which it had not."""
    from yaml import YAMLError  # noqa: PLC0415 - only this command needs it

    try:
        old, new = (parse_yaml(text) or {} for text in (before, after))
        if "tests" in old:
            raise InputError(f"{FILE} has tests: already; nothing was changed")
        is_added = {**old, "tests": new["tests"]} == new
    except (YAMLError, TypeError):
        is_added = False
    if not is_added:
        raise InputError(f"{FILE} cannot be added to; write tests: into it by hand")
