"""The first commits of a new repository without a process: with git each takes two, and 6 ms."""

import hashlib
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

AUTHOR = "test <test@example.invalid>"
Files = Mapping[str, str | bytes | None]


def can_commit(path: Path, commits: Iterable[tuple[str, Files]]) -> bool:
    """Whether ``git add`` would take these files as they are, and no others, at the time of now."""
    names = [name for _, files in commits for name in files]
    dated = not {"GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"}.isdisjoint(os.environ)
    return (
        not dated
        and os.listdir(path) == [".git"]
        and all(
            name == str(PurePosixPath(name))
            and not name.startswith(("/", "../"))
            and ".git" not in name
            for name in names
        )
    )


def commit(
    path: Path, commits: Iterable[tuple[str, Files]], author: str = AUTHOR, at: int | None = None
) -> None:
    """Commit to ``main`` what each commit changes; the files themselves are written already.

    Args:
        at: seconds since 1970; None: now.
    """
    objects, tree, head = path / ".git/objects", dict[bytes, bytes](), b""
    for message, files in commits:
        for name, content in files.items():
            if content is None:
                del tree[os.fsencode(name)]
            else:
                data = content.encode() if isinstance(content, str) else content
                tree[os.fsencode(name)] = _write(objects, b"blob", data)
        parent = b"parent %b\n" % head if head else b""
        made = f"{author} {int(time.time()) if at is None else at} +0000".encode()
        text = b"tree %b\n%bauthor %b\ncommitter %b\n\n%b\n" % (
            _write_tree(objects, tree).hex().encode(), parent, made, made, message.encode(),
        )  # fmt: skip
        head = _write(objects, b"commit", text).hex().encode()
    (path / ".git/refs/heads/main").write_bytes(head + b"\n")
    (path / ".git/index").write_bytes(_index(path, tree))


def _write(objects: Path, kind: bytes, data: bytes) -> bytes:
    whole = b"%b %d\0%b" % (kind, len(data), data)
    digest = hashlib.sha1(whole, usedforsecurity=False)
    name = digest.hexdigest()
    place = objects / name[:2] / name[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(zlib.compress(whole, 1))
    return digest.digest()


def _write_tree(objects: Path, files: Mapping[bytes, bytes]) -> bytes:
    rows: dict[bytes, bytes] = {}
    folders: dict[bytes, dict[bytes, bytes]] = {}
    for name, digest in files.items():
        first, slash, rest = name.partition(b"/")
        if slash:
            folders.setdefault(first, {})[rest] = digest
        else:
            rows[first] = b"100644 %b\0%b" % (first, digest)
    for first, inner in folders.items():  # sorted as if its name ended in a slash
        rows[first + b"/"] = b"40000 %b\0%b" % (first, _write_tree(objects, inner))
    return _write(objects, b"tree", b"".join(rows[name] for name in sorted(rows)))


def _index(path: Path, files: Mapping[bytes, bytes]) -> bytes:
    entries = [b"DIRC", (2).to_bytes(4, "big"), len(files).to_bytes(4, "big")]
    for name in sorted(files):
        stat = os.lstat(os.fsencode(path) + b"/" + name)
        seconds = (divmod(stat.st_ctime_ns, 10**9), divmod(stat.st_mtime_ns, 10**9))
        numbers = (
            *(*seconds[0], *seconds[1], stat.st_dev, stat.st_ino, stat.st_mode),
            *(stat.st_uid, stat.st_gid, stat.st_size),
        )
        fixed = b"".join((number & 0xFFFFFFFF).to_bytes(4, "big") for number in numbers)
        entry = fixed + files[name] + min(len(name), 0xFFF).to_bytes(2, "big") + name
        entries.append(entry + b"\0" * (8 - len(entry) % 8))
    content = b"".join(entries)
    return content + hashlib.sha1(content, usedforsecurity=False).digest()
