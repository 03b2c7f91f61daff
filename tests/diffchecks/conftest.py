"""Running one check over files written for the purpose."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffchecks.check_io import CheckReply
from tests.diffchecks.check_kit import run_check

Check = Callable[[Any], CheckReply]


class Bench:
    """A folder of files and what a check says of them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, files: dict[str, str | bytes]) -> None:
        for path, content in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(
                content
                if isinstance(content, bytes)
                else content.encode("utf-8", "surrogateescape")
            )

    def run(self, check: Check, files: dict[str, str | bytes], **job: Any) -> CheckReply:
        self.write(files)
        return run_check(check, {"root": str(self.root), "paths": sorted(files), **job})

    def codes(self, check: Check, path: str, content: str | bytes, **job: Any) -> list[str]:
        """The codes found in one file, in order; the file must have been examined."""
        reply = self.run(check, {path: content}, **job)
        assert reply.examined == [path], reply.gaps
        return [finding.code for finding in reply.findings]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
