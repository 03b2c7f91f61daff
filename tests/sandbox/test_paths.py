"""A path that somebody else wrote reaches what stands beneath the folder, and nothing else."""

import errno
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from diffchecks import safe_paths
from diffchecks.safe_paths import SafeDirectory, create_file, read_safely, unsafe_path_reason

pytestmark = pytest.mark.attack("paths and links that lead elsewhere")

SECRET = b"nobody's business"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with all that can stand in a tree, and a secret beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_bytes(b"inside")
    (root / "top").write_bytes(b"top")
    (root / "caf\udce9 \u202e\n").write_bytes(b"odd")
    (root / "to_file").symlink_to(tmp_path / "outside/secret")
    (root / "to_folder").symlink_to(tmp_path / "outside")
    (root / "to_inside").symlink_to("a/b/file")
    (root / "a/back").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "nowhere").symlink_to("not there")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture
def folder(root: Path) -> Iterator[SafeDirectory]:
    with SafeDirectory(root) as folder:
        yield folder


@pytest.mark.parametrize(("path", "content"), [
    ("top", b"top"),
    ("a/b/file", b"inside"),
    ("caf\udce9 \u202e\n", b"odd"),
])  # fmt: skip
def test_files_below_the_root_are_read(folder: SafeDirectory, path: str, content: bytes) -> None:
    assert folder.read(path) == content
    assert folder.read(path, 2) == content[:2]
    assert folder.is_file(path)


REFUSED = [
    # by its look
    ("", errno.EXDEV), (".", errno.EXDEV), ("..", errno.EXDEV), ("../outside/secret", errno.EXDEV),
    ("a/../top", errno.EXDEV), ("a/../../outside/secret", errno.EXDEV), ("./top", errno.EXDEV),
    ("/etc/passwd", errno.EXDEV), ("//etc/passwd", errno.EXDEV), ("a//b/file", errno.EXDEV),
    ("top/", errno.EXDEV), ("top\0", errno.EINVAL), ("to\0p", errno.EINVAL),
    ("\ud800", errno.EILSEQ), ("x" * 5000, errno.ENAMETOOLONG), ("x" * 256, errno.ENAMETOOLONG),
    ("a/" * 2100 + "b", errno.ENAMETOOLONG), ("ä" * 128, errno.ENAMETOOLONG),
    # a link, as the last part or on the way, wherever it leads
    ("to_file", errno.ELOOP), ("to_folder", errno.ELOOP), ("to_folder/secret", errno.ELOOP),
    ("to_inside", errno.ELOOP), ("a/back/top", errno.ELOOP), ("a/back/to_folder/secret", errno.ELOOP),
    ("loop", errno.ELOOP), ("loop/x", errno.ELOOP), ("nowhere", errno.ELOOP),
    # no regular file
    ("a", errno.EISDIR), ("a/b", errno.EISDIR), ("pipe", errno.EINVAL),
    # not there: case and look-alikes are other names
    ("TOP", errno.ENOENT), ("A/b/file", errno.ENOENT), ("t\u200bop", errno.ENOENT),
    ("\uff0e\uff0e/outside/secret", errno.ENOENT), ("..\\outside\\secret", errno.ENOENT),
    ("a\u2215b\u2215file", errno.ENOENT), ("%2e%2e/outside/secret", errno.ENOENT),
    ("~/secret", errno.ENOENT), ("$HOME", errno.ENOENT), ("top/x", errno.ENOTDIR),
]  # fmt: skip


REASONS = {
    "top\0": "its name contains a NUL",
    "to\0p": "its name contains a NUL",
    "pipe": "it is not a regular file",
    "\ud800": "its name cannot be encoded for the file system",
}


def test_a_file_is_replaced_whole_and_leaves_nothing_beside_it(
    folder: SafeDirectory, root: Path
) -> None:
    folder.replace("a/b/file", b"new")
    assert [(path.name, path.read_bytes()) for path in (root / "a/b").glob("file*")] == [
        ("file", b"new")
    ]


def test_everything_else_is_refused_and_says_why(folder: SafeDirectory) -> None:
    said = []
    for path, number in REFUSED:
        with pytest.raises(OSError) as caught:
            folder.read(path)
        outside = "its path leads out of the tree" if number == errno.EXDEV else None
        assert caught.value.strerror == REASONS.get(path, outside or os.strerror(number))
        assert caught.value.filename in {path, *path.split("/")}
        assert not folder.is_file(path)
        said.append((path, caught.value.errno))
    assert said == REFUSED


@pytest.mark.parametrize("path", ["root/etc/passwd", "cwd/top", "exe", "fd/0", "environ/../root"])
def test_the_kernels_own_links_are_not_followed(path: str) -> None:
    with SafeDirectory(f"/proc/{os.getpid()}") as folder, pytest.raises(OSError) as caught:
        folder.read(path)
    assert caught.value.errno in {errno.ELOOP, errno.EXDEV}


def test_devices_and_sockets_are_refused_at_once(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(root / "socket"))
        signal.alarm(5)  # what waits is ended, and the test with it
        try:
            for where, path in ((root, "socket"), ("/dev", "zero"), ("/dev", "null")):
                with SafeDirectory(where) as folder, pytest.raises(OSError) as caught:
                    folder.read(path)
                assert caught.value.errno in {errno.EINVAL, errno.ENXIO}
        finally:
            signal.alarm(0)


def test_the_target_of_a_link_is_read_and_not_followed(folder: SafeDirectory) -> None:
    assert folder.read_link("a/back") == ".."
    assert folder.read_link("nowhere") == "not there"
    with pytest.raises(OSError):
        folder.read_link("to_folder/secret")


def test_a_root_that_is_a_link_is_none(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(OSError):
        SafeDirectory(tmp_path / "link")


def test_the_folder_stays_what_it_was(root: Path, folder: SafeDirectory, tmp_path: Path) -> None:
    root.rename(tmp_path / "moved")
    root.symlink_to(tmp_path / "outside")
    assert folder.read("top") == b"top"
    with pytest.raises(FileNotFoundError):
        folder.read("secret")


@pytest.mark.parametrize("path", ["new", "a/b/file", "a/x/y/z", "to_file", "nowhere", "pipe"])
def test_a_write_lands_beneath_and_replaces_what_is_no_folder(
    root: Path, folder: SafeDirectory, path: str, tmp_path: Path
) -> None:
    folder.write(path, b"written", 0o600)
    assert not (root / path).is_symlink()
    assert (root / path).read_bytes() == b"written"
    assert (root / path).stat().st_mode & 0o7777 == 0o600
    assert (tmp_path / "outside/secret").read_bytes() == SECRET


def test_a_write_out_of_the_folder_is_refused(
    root: Path, folder: SafeDirectory, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    for path in (
        "to_folder/new", "to_folder/secret", "a/back/new", "../new", f"{tmp_path}/new", "a", "top/x",
        "pipe/x", "to_folder/deep/er/new", "loop/new", "a/\0", "nowhere/new",
    ):  # fmt: skip
        with pytest.raises(OSError):
            folder.write(path, b"written")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "outside/secret").read_bytes() == SECRET


def test_a_hard_link_is_replaced_and_not_written_through(root: Path, folder: SafeDirectory) -> None:
    (root / "twin").hardlink_to(root.parent / "outside/secret")
    folder.write("twin", b"written")
    assert (root.parent / "outside/secret").read_bytes() == SECRET


def test_a_written_file_has_its_mode_from_the_start(
    root: Path, folder: SafeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("new", b"x")
    assert (root / "new").stat().st_mode & 0o7777 == 0o644
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    for path in ("new", "another"):
        folder.write(path, b"x", 0o600)
        assert (root / path).stat().st_mode & 0o7777 == 0o600


def test_a_file_is_whole_when_it_is_put_on_disk(
    folder: SafeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    with folder.parent("new") as (directory, name):
        create_file(directory, name, b"four", 0o600)
        assert synced == []
        create_file(directory, name, b"seven..", 0o600, sync=True)
    assert synced == [7]


def test_folders_are_opened_made_and_given_a_mode(root: Path, folder: SafeDirectory) -> None:
    before = os.listdir("/proc/self/fd")
    mask = os.umask(0)
    try:
        folder.make_directory("a/m/n/o")
        folder.make_directory("a/m/n/o")
    finally:
        os.umask(mask)
    assert {(root / p).stat().st_mode & 0o7777 for p in ("a/m", "a/m/n", "a/m/n/o")} == {0o755}
    folder.set_mode("a/m", 0o711)
    assert (root / "a/m").stat().st_mode & 0o7777 == 0o711
    assert os.listdir("/proc/self/fd") == before
    for path, name in (("", "top"), ("a", "m")):
        directory = folder.open_directory(path)
        try:
            assert name in os.listdir(directory)
        finally:
            os.close(directory)
    with pytest.raises(NotADirectoryError):
        folder.open_directory("top")
    os.close(folder.open_directory())


def test_the_longest_path_has_4095_bytes() -> None:
    longest = "ä/" * 1365
    safe_paths.check_path(f"{longest[:-1]}a")
    with pytest.raises(OSError) as caught:
        safe_paths.check_path(f"{longest}a")
    assert (caught.value.errno, caught.value.filename) == (errno.ENAMETOOLONG, f"{longest}a")
    assert caught.value.strerror == os.strerror(errno.ENAMETOOLONG)


def test_very_deep_folders_are_made(folder: SafeDirectory) -> None:
    path = "/".join("d" * 200)
    folder.write(path, b"deep")
    assert folder.read(path) == b"deep"


def test_descriptors_are_given_back(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with SafeDirectory(root) as folder:
        for path, _ in REFUSED:
            assert not folder.is_file(path)
        folder.write("a/b/file", b"x")
        for path in ("to_folder/x", "a", "top/x", "to_folder/x/y"):
            with pytest.raises(OSError):
                folder.write(path, b"x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_read_whole_or_up_to_a_bound(root: Path) -> None:
    assert read_safely(root, "top") == b"top"
    assert read_safely(root, "top", 2) == b"to"
    assert safe_paths.escape_reason("a/b") is None


@pytest.mark.parametrize("path", [
    ".git", ".git/config", "a/.GIT/hooks/x", ".git.", ".git ", ".git . .", "GIT~1/config",
    ".g\u200cit/config", ".git\ufeff", "\u202a.git", ".git::$INDEX_ALLOCATION", ".git:stream/x",
])  # fmt: skip
def test_names_that_a_tree_must_not_put_on_disk(path: str) -> None:
    assert unsafe_path_reason(path) == "its path is in a .git directory"


@pytest.mark.parametrize("path", ["..", "a/../b", "/a", "", "a//b"])
def test_nor_paths_that_lead_out(path: str) -> None:
    assert unsafe_path_reason(path) == "its path leads out of the tree"
    assert unsafe_path_reason("a\0") == "its name contains a NUL"


@pytest.mark.parametrize(
    "path",
    [".gitignore", ".github/x", "git", "a.git", ".gitea/x", "git~2", "x:y", ".gitX", ".gité"],
)
def test_ordinary_names_that_look_similar_are_accepted(path: str) -> None:
    assert unsafe_path_reason(path) is None
