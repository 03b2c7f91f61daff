"""How long a coding agent waits: a review through MCP against the command line, and a pass of watch.

    python bench/coding_agents.py [--repo A_LARGE_CHECKOUT --file PATH]

It reviews a small change with analyzers alone, in turn as ``diffcourt review`` and as the first call
of a server whose client has just connected, and prints wall time, and processor time of all
processes, as ratios. With ``--repo`` it changes a file of that checkout instead, which is as before
at the end, while ``diffcourt watch`` looks at it, and prints the passes.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
PROGRAM = (sys.executable, "-m", "orchestrator")
RUNS = 5
"""Of all that is compared; the least of them counts."""

SHELL = "\n\ndef list_files_{n}(path):\n    import os\n\n    os.system('ls ' + path)\n"
TICKS = os.sysconf("SC_CLK_TCK")
Figures = tuple[float, float]


def repository(folder: Path) -> Path:
    """A repository whose newest commit adds one file with a finding."""
    repo = folder / "repo"
    subprocess.run([*GIT, "init", "-q", str(repo)], check=True)
    for name, text in (("a.py", "X = 1\n"), ("b.py", SHELL.format(n=1).lstrip())):
        (repo / name).write_text(text)
        subprocess.run([*GIT, "-C", str(repo), "add", "-A"], check=True)
        subprocess.run([*GIT, "-C", str(repo), "commit", "-qm", name], check=True)
    return repo


def processor_seconds(root: int) -> float:
    """What a process, its living descendants and those that they waited for have used."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            used[int(stat.parent.name)] = sum(map(int, fields[11:15])) / TICKS
    family = {root}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(used.get(one, 0.0) for one in family)


def on_the_command_line(repo: Path) -> Figures:
    """Wall and processor time of a review."""
    before, start = os.times(), time.perf_counter()
    command = [*PROGRAM, "review", "HEAD~1", "--repo", str(repo), "--provider", "offline"]
    subprocess.run(command, capture_output=True, check=False)
    after = os.times()
    used = after.children_user + after.children_system
    return time.perf_counter() - start, used - before.children_user - before.children_system


def through_mcp(repo: Path) -> tuple[Figures, float]:
    """Wall and processor time of a server's first call; seconds until it was connected."""
    command = [*PROGRAM, "mcp", "serve", "--repo", str(repo), "--base", "HEAD~1"]
    begun = time.perf_counter()
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with server:
        assert server.stdin
        assert server.stdout
        asks, answers = server.stdin, server.stdout

        def ask(number: int, method: str, params: object) -> str:
            sent = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            asks.write(json.dumps(sent) + "\n")
            return next((line for line in answers if json.loads(line).get("id") == number), "")

        about = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        ask(1, "initialize", hello)
        asks.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        before, start = processor_seconds(server.pid), time.perf_counter()
        told = ask(2, "tools/call", {"name": "review", "arguments": {"reasoner": "offline"}})
        wall = time.perf_counter() - start
        used = processor_seconds(server.pid) - before
        assert "b.py:" in told, told
        asks.close()
    return (wall, used), start - begun


def compare(repo: Path) -> None:
    """Print a review's times through MCP and on the command line."""
    direct: list[Figures] = []
    served: list[Figures] = []
    connected: list[float] = []
    for _ in range(RUNS):
        direct.append(on_the_command_line(repo))
        found, seconds = through_mcp(repo)
        served.append(found)
        connected.append(seconds)
    for name, row in (("command line", direct), ("MCP, first call", served)):
        wall, used = (min(column) for column in zip(*row, strict=True))
        print(f"{name:16} {wall:6.2f} s of wall time {used:6.2f} s of processor time")
    ratios = (
        min(column) / min(other)
        for column, other in zip(zip(*served, strict=True), zip(*direct, strict=True), strict=True)
    )
    print(
        "MCP over the command line: {:.2f} of wall time, {:.2f} of processor time".format(*ratios)
    )
    print(f"connected after  {min(connected):6.2f} s of wall time")


@contextlib.contextmanager
def watching(repo: Path) -> Iterator[subprocess.Popen[str]]:
    """``diffcourt watch``, ended at the end."""
    watcher = subprocess.Popen(
        [*PROGRAM, "watch", "--repo", str(repo)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield watcher
    finally:
        watcher.terminate()
        watcher.wait()


def watch(repo: Path, file: Path) -> None:
    """Print the passes of a watcher of a large checkout, one after each change of a file."""
    text = file.read_bytes()
    try:
        with watching(repo) as watcher:
            assert watcher.stdout
            for number in range(RUNS):
                changed, before = time.perf_counter(), processor_seconds(watcher.pid)
                for line in watcher.stdout:
                    if (told := json.loads(line))["event"] == "pass":
                        break
                wall = time.perf_counter() - changed
                used = processor_seconds(watcher.pid) - before
                print(
                    f"pass {number}: {told['seconds']:.2f} s, {wall:.2f} s after the change, "
                    f"{used:.2f} s of processor time, {told['new']} new, {told['open']} open"
                )
                file.write_bytes(text + SHELL.format(n=number).encode())
    finally:
        file.write_bytes(text)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", type=Path)
    parser.add_argument("--file", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        if not args.repo:
            compare(repository(Path(folder)))
        else:
            watch(args.repo, args.repo / args.file)


if __name__ == "__main__":
    main()
