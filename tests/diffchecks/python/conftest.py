"""Two little trees on disk, and a check run over the change between them."""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec import to_builtins

from diffchecks.check_io import CheckReply
from diffchecks.removed_controls.removed_checks import LEADS
from tests.diffchecks.check_kit import as_received, run_check

Files = Mapping[str, str | bytes]
Compare = Callable[..., CheckReply]


def _write(root: Path, files: Files) -> None:
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))


def _lines(text: str | bytes | None) -> list[str]:
    if text is None:
        return []
    return (text.decode("utf-8", "replace") if isinstance(text, bytes) else text).split("\n")


def _changed(base: Files, head: Files, renames: Mapping[str, str]) -> list[dict[str, Any]]:
    files = []
    gone = {path for path in base if path not in head}
    for path in sorted({*head, *gone} - set(renames)):
        old = next((was for was, now in renames.items() if now == path), path)
        before, after = base.get(old), head.get(path)
        if before == after and old == path:
            continue
        status = "deleted" if after is None else "added" if before is None else "modified"
        if old != path:
            status = "renamed"
        matcher = difflib.SequenceMatcher(None, _lines(before), _lines(after), autojunk=False)
        added: list[int] = []
        removed: list[int] = []
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag != "equal":
                removed += range(a + 1, b + 1)
                added += range(c + 1, d + 1)
        files.append(
            {
                "path": path,
                "old_path": None if before is None else old,
                "status": status,
                "added": added,
                "removed": removed,
            }
        )
    return files


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Run a check over a change; what it replies is JSON, and what it cites stands there."""

    def run(
        module: ModuleType,
        base: Files,
        head: Files,
        renames: Mapping[str, str] | None = None,
        links: Sequence[str] = (),
        **more: Any,
    ) -> CheckReply:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, files in (("base", base), ("head", head)):
            (folder / name).mkdir(parents=True)
            _write(folder / name, files)
        job = {
            "base_root": str(folder / "base"),
            "head_root": str(folder / "head"),
            "files": _changed(base, head, renames or {}),
            "base_tree": sorted([*base, *links]),
            "head_tree": sorted([*head, *links]),
            "head_links": list(links),
            "base_links": list(links),
            **more,
        }
        reply = as_received(run_check(module.run, json.loads(json.dumps(job, default=to_builtins))))
        for one in reply.findings:
            lines = _lines((base if one.in_base else head)[one.path])
            assert lines[one.line - 1].strip(), one
            assert one.line <= one.end_line <= len(lines)
        assert not set(reply.examined) & set(reply.gaps)
        return reply

    return run


@pytest.fixture
def codes(compare: Compare) -> Callable[..., list[str]]:
    """Only the codes of what a check finds, without leads about removed lines."""

    def run(*args: Any, **more: Any) -> list[str]:
        reply = compare(*args, **more)
        assert reply.gaps == {}
        return [one.code for one in reply.findings if one.code not in LEADS]

    return run
