"""Lock files of NuGet, Swift and Nix: an ordinary update, and a defect beside it."""

from pathlib import Path

import pytest

from tests.diffchecks.test_lock_files import codes

NUGET = (
    '{"dependencies": {"net9": {"A": {"type": "Direct", "resolved": "1.0", "contentHash": "aa"}}}}'
)
SWIFT = (
    '{"pins": [{"identity": "a", "location": "https://a.example/a", "state": {"revision": "aa"}}]}'
)
FLAKE = '{"nodes": {"a": {"locked": {"owner": "o", "repo": "r", "rev": "aa", "type": "github"}}, "root": {}}}'
EMPTY = {"Package.resolved": '{"pins": []}', "flake.lock": '{"nodes": {"root": {}}}'}


@pytest.mark.parametrize(
    ("name", "text", "update", "defect", "code"),
    [
        ("packages.lock.json", NUGET, ("1.0", "1.1"), ("aa", "bb"), "lock-digest"),
        ("Package.resolved", SWIFT, ("aa", "bb"), ("example/a", "example/b"), "lock-outside"),
        ("flake.lock", FLAKE, ("aa", "bb"), ('"o"', '"b"'), "lock-outside"),
    ],
)
def test_locks_of_other_languages_are_compared(
    tmp_path: Path,
    name: str,
    text: str,
    update: tuple[str, str],
    defect: tuple[str, str],
    code: str,
) -> None:
    assert codes(tmp_path / "1", name, text, text.replace(*update)) == []
    before = EMPTY.get(name, text)  # what is new is from a repository by nature
    assert codes(tmp_path / "0", name, before, text.replace(*update)) == []
    assert codes(tmp_path / "2", name, text, text.replace(*defect)) == [code]
