"""paths read and written while links, folders and pipes are swapped under them: none gets out

Attackers in processes of their own swap what stands beneath the folder for links out of it. What a
read returns is held against what stands outside, and what stands outside against what it was. Each
path is opened in the plain way as well, to see that the race is one.
"""

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from pathlib import Path

import anyio

from diffchecks.safe_paths import SafeDirectory
from orchestrator.code_review.change.file_export import write_files
from orchestrator.errors import InputError, NotPermitted
from orchestrator.sandbox.file_rollback import FileRollback
from tests.torture.processes import FORK, PATIENCE

FULL = 100_000
SAMPLE = 1000
CANARY, INSIDE = b"this stands outside", b"this stands inside"
EXCHANGE, HERE = 2, -100
BATCH, ROLLBACK_EVERY = 1000, 500
ENOUGH = 5000
"""Attempts of which some must get out in the plain way."""


# --- the attackers ----------------------------------------------------------------------------


def attack(root: str, outside: str) -> None:
    """Swap, as fast as it goes, until it is killed or alone.

    It holds folders open, lest it strays itself.
    """
    parent = parent_process()
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    os.chdir(root)
    while not parent or parent.is_alive():
        with suppress(OSError):
            # Undoing may have made a new folder, so it is looked for again now and then.
            name = "d.out" if os.path.islink("d") else "d"
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                for _ in range(50):
                    renameat2(HERE, b"d", HERE, b"d.out", EXCHANGE)
                    renameat2(inner, b"e", inner, b"e.out", EXCHANGE)
                    put_link(f"{outside}/secret", "f")
                    put_file("f")
                    put_pipe("p")
                    put_file("p")
            finally:
                os.close(inner)
        if not os.path.islink("d") and not os.path.islink("d.out"):
            put_link(outside, "d.out")


def put_link(target: str, name: str) -> None:
    beside = f".{os.getpid()}.link"
    with suppress(FileNotFoundError):
        os.unlink(beside)
    os.symlink(target, beside)
    os.rename(beside, name)


def put_file(name: str) -> None:
    beside = f".{os.getpid()}.file"
    Path(beside).write_bytes(INSIDE)
    os.rename(beside, name)


def put_pipe(name: str) -> None:
    beside = f".{os.getpid()}.pipe"
    with suppress(FileNotFoundError):
        os.unlink(beside)
    os.mkfifo(beside)
    os.rename(beside, name)


def lay_out(folder: Path) -> tuple[Path, Path]:
    """The folder, with a link out beside each thing in it, and what stands outside."""
    root, outside = folder / "root", folder / "outside"
    for place, content in ((root / "d", INSIDE), (outside, CANARY)):
        (place / "e").mkdir(parents=True)
        for name in ("f", "e/f", "secret"):
            (place / name).write_bytes(content)
    (root / "f").write_bytes(INSIDE)
    (root / "p").write_bytes(INSIDE)
    (root / "d.out").symlink_to(outside)
    (root / "d/e.out").symlink_to(outside / "e")
    return root, outside


@contextmanager
def attacked(folder: Path, attackers: int = 1) -> Iterator[tuple[Path, Path]]:
    """A root under attack, and what stands outside of it."""
    root, outside = lay_out(folder)
    swapping = [
        FORK.Process(target=attack, args=(str(root), str(outside))) for _ in range(attackers)
    ]
    for process in swapping:
        process.start()
    try:
        yield root, outside
    finally:
        for process in swapping:
            process.kill()
            process.join()


# --- the attempts -----------------------------------------------------------------------------


PATHS = ("d/f", "f", "d/e/f", "p", "d/secret", "d/e/../f", "d.out/f")


def plainly(root: Path, path: str) -> bool:
    """Whether opening it in the plain way got out. The pipe is left alone: it would wait."""
    with suppress(OSError):
        return path not in {"p", "d.out/f"} and (root / path).read_bytes() == CANARY
    return False


def read(folder: SafeDirectory, path: str) -> str:
    """Read; what went wrong, empty where nothing did."""
    with suppress(OSError):
        found = folder.read(path)
        if found not in {INSIDE, b""} and not found.startswith(b"written"):
            return f"{path} gave {found!r}"
    return ""


def write(folder: SafeDirectory, path: str, number: int) -> str:
    with suppress(OSError):
        folder.write(path if path != "d/secret" else f"d/e/new/{number % 9}", b"written")
    return ""


def export(root: Path, number: int) -> str:
    with suppress(OSError):
        write_files(
            root, [("d/f", b"written"), (f"d/e/{number % 9}", b"written"), ("f", b"written")]
        )
    return ""


async def _written_and_undone(root: Path, vault: Path, number: int) -> None:
    scopes = FileRollback(root, vault)
    try:
        await scopes.begin(f"call{number}")
        with SafeDirectory(root) as folder, suppress(OSError):
            folder.write("f", b"written by a tool")
        if number % 2:
            await scopes.undo(f"call{number}")
        else:
            await scopes.commit(f"call{number}")
            scopes.restore(f"call{number}", force=["f"])
    except (NotPermitted, InputError, OSError):
        return  # refused, because it would not hold still


def photograph(outside: Path) -> dict[str, object]:
    """Everything outside, as it is."""
    found: dict[str, object] = {}
    for path in sorted(outside.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (about.st_mode, about.st_ino, about.st_mtime_ns, content)
    return found


def attempts(root: Path, vault: Path, number: int, folder: SafeDirectory) -> str:
    """One attempt of the mixture."""
    path = PATHS[number // 2 % len(PATHS)]
    if number % ROLLBACK_EVERY == ROLLBACK_EVERY - 1:
        anyio.run(_written_and_undone, root, vault, number)
        return ""
    if number % 20 == 19:
        return export(root, number)
    return write(folder, path, number) if number % 5 == 4 else read(folder, path)


def _hang(*_: object) -> None:
    raise AssertionError(f"a batch did not end within {PATIENCE} s: it waits for a pipe")


@contextmanager
def _alarmed() -> Iterator[None]:
    """An alarm raises, so that what was started is ended as well."""
    before = signal.signal(signal.SIGALRM, _hang)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(count: int, say: Callable[[str], None] = print) -> tuple[int, int]:
    """So many attempts; returns how many stayed inside and how many got out."""
    failed = plain = 0
    with tempfile.TemporaryDirectory() as name, attacked(Path(name)) as (root, outside), _alarmed():
        before, folder = photograph(outside), SafeDirectory(root)
        for start in range(0, count, BATCH):
            signal.alarm(PATIENCE)
            problems: list[str] = []
            for number in range(start, min(start + BATCH, count)):
                problems += filter(None, [attempts(root, Path(name, "vault"), number, folder)])
                plain += plainly(root, PATHS[number % len(PATHS)])
            after = photograph(outside)
            if after != before:
                problems.append(
                    f"what stands outside was changed: {set(after.items()) ^ set(before.items())}"
                )
            failed, before = failed + len(problems), after
            for problem in problems:
                say(f"from attempt {start}: {problem}")
        folder.close()
    if count >= ENOUGH:
        print(f"in the plain way, {plain} of {count} attempts got out")
        failed += not plain  # then nothing was raced with
    return count - failed, failed
