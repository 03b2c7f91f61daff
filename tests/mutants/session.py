"""One session of pytest that tries the mutants of many modules, each in a fork of its own.

Run by ``tests.mutants`` in a copy of the checkout. pytest starts and collects once. The forks run
only tests that reach the mutated function, the fastest first, up to the first that fails.
"""

import difflib
import json
import os
import random
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from _pytest.warnings import catch_warnings_for_item

SPARE = 4.0
"""Seconds of the processor that a mutant may take beyond five times what its tests take."""

WAITING = 15.0
"""How many times as long it may take by the clock: the processor is shared."""


NOTICED = 100
"""Exit code of a fork whose first test failed; the next one's is one more."""


class Mutant(NamedTuple):
    """A change of one function of a module, whose name mutmut gives."""

    module: str
    name: str
    diff: str

    @property
    def function(self) -> str:
        """The function, as the switches of mutmut call it."""
        return f"{dotted(self.module)}.{self.name.partition('__mutmut_')[0]}"


class Reach(NamedTuple):
    """A test: the functions that it reaches, and the seconds that it takes."""

    functions: set[str]
    seconds: float


def file_of(module: str) -> str:
    """The file of a module, in the checkout."""
    return module if module.startswith("diffchecks/") else f"orchestrator/{module}"


def dotted(module: str) -> str:
    """How Python imports a module."""
    return file_of(module).removesuffix(".py").replace("/", ".")


def mutate(module: str, sample: int | None, seed: int) -> list[Mutant]:
    """Replace the file of a module by one with all of its mutants; returns those to try."""
    path = Path(file_of(module))
    mutmut = import_module("mutmut.mutation.file_mutation")
    tree, changes, *left_out = mutmut.create_mutations(str(path), path.read_text())
    # Of fields of a class, say, it makes changes and then drops them.
    function = import_module("libcst").FunctionDef
    changes = [one for one in changes if isinstance(one.contained_by_top_level_function, function)]
    if sample:
        chosen = random.Random(seed).sample(range(len(changes)), min(sample, len(changes)))
        changes = [changes[at] for at in sorted(chosen)]
    made = mutmut.combine_mutations_to_source(tree, changes, *left_out)
    path.write_text(made.code)
    lines = made.code.splitlines()

    def source(name: str) -> list[str]:
        span = made.line_span_by_function_name[name]
        text = "\n".join(lines[span.start - 1 : span.end])
        return text.replace(name, name.partition("__mutmut_")[0]).splitlines()

    def diff(name: str) -> str:
        whole = source(name.partition("__mutmut_")[0] + "__mutmut_orig")
        changed = difflib.unified_diff(whole, source(name), n=0, lineterm="")
        return "\n".join(line for line in list(changed)[2:] if not line.startswith("@@"))

    return [Mutant(module, name, diff(name)) for name in made.mutant_names]


def forked(work: Callable[[], int], seconds: float) -> int | None:
    """Do something in a fork, and end all it started; returns its exit code, None if it is late."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        code = 3
        with suppress(BaseException):
            code = work()
        os._exit(code)
    with suppress(OSError):
        os.setpgid(child, child)
    descriptor = os.pidfd_open(child)
    in_time = select.select([descriptor], [], [], WAITING * seconds)[0]
    os.close(descriptor)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if not in_time or code in {-signal.SIGXCPU, -signal.SIGKILL} else code


def failures(item: pytest.Item, following: pytest.Item | None) -> list[str]:
    """Run one test; returns what it says if it fails."""
    # As pytest does around a test: its marks may ignore warnings.
    with catch_warnings_for_item(item.config, item.ihook, "runtest", item):
        reports = runtestprotocol(item, log=False, nextitem=following)
    return [f"{report.nodeid}\n{report.longreprtext}" for report in reports if report.failed]


class Session:
    """The plugin: instead of running the tests once, it runs them for each mutant."""

    def __init__(self, job: dict[str, Any], mutants: Sequence[Mutant]) -> None:
        self.mutants = mutants
        self.tests: dict[str, list[str]] = job["tests"]
        self.seconds: float = job["seconds"]
        self.output = Path(job["output"])
        self._select: Callable[[str | None], None] = import_module(
            "mutmut.mutation.trampoline"
        ).set_mutant_under_test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all the tests without a mutant, then what concerns each mutant."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        reached = self._reached(session.items)
        with self.output.open("w", buffering=1) as out:
            for module in self.tests:
                self._try_module(module, session.items, reached, lambda row: out.write(row + "\n"))
        return True

    def _try_module(
        self,
        module: str,
        items: Sequence[pytest.Item],
        reached: dict[str, Reach],
        tell: Callable[[str], object],
    ) -> None:
        began = time.monotonic()
        own = [i for i in items if i.nodeid.partition("::")[0] in self.tests[module]]
        own.sort(key=lambda item: reached[item.nodeid].seconds)
        for mutant in (m for m in self.mutants if m.module == module):
            outcome = "not run"
            if time.monotonic() < began + self.seconds:
                concerned = [i for i in own if mutant.function in reached[i.nodeid].functions]
                outcome, first = self._outcome(mutant, concerned, reached)
                if first is not None:  # it probably notices the next one too
                    own.remove(first)
                    own.insert(0, first)
            tell(json.dumps([module, mutant.name, mutant.diff, outcome]))

    def _outcome(
        self, mutant: Mutant, items: Sequence[pytest.Item], reached: dict[str, Reach]
    ) -> tuple[str, pytest.Item | None]:
        """What came of a mutant, and the test that noticed it."""

        def run() -> int:
            self._select(f"{dotted(mutant.module)}.{mutant.name}")
            for at, item in enumerate(items):
                if failures(item, items[at + 1] if at + 1 < len(items) else None):
                    return NOTICED + min(at, 100)
            return 0

        code = forked(run, SPARE + 5 * sum(reached[item.nodeid].seconds for item in items))
        if code is None:
            return "late", None
        at = code - NOTICED
        return "noticed" if code else "survived", items[at] if 0 <= at < 100 else None

    def _reached(self, items: Sequence[pytest.Item]) -> dict[str, Reach]:
        """What each test reaches without a mutant, and how long it takes; all of them must pass."""
        answer = self.output.with_suffix(".reached")

        def run() -> int:
            state = import_module("mutmut.state").state()
            found, failed = {}, list[str]()
            self._select("stats")
            for item, following in zip(items, [*items[1:], None], strict=True):
                state._stats.clear()
                began = sum(os.times()[:4])
                failed += failures(item, following)
                found[item.nodeid] = [sorted(state._stats), sum(os.times()[:4]) - began]
            answer.write_text(json.dumps(found))
            print(*failed, sep="\n", file=sys.__stderr__, flush=True)
            return int(bool(failed))

        if forked(run, 3600.0) != 0:
            pytest.exit("the tests do not pass without a mutant", 2)
        whole = json.loads(answer.read_text())
        return {test: Reach(set(names), seconds) for test, (names, seconds) in whole.items()}


def main(job: dict[str, Any]) -> int:
    """Mutate the modules, and run pytest once; returns its exit code."""
    mutants = [
        mutant for module in job["tests"] for mutant in mutate(module, job["sample"], job["seed"])
    ]
    files = dict.fromkeys(name for names in job["tests"].values() for name in names)
    arguments = ["-p", "no:cacheprovider", "-p", "no:faulthandler", "-q", "--capture=sys"]
    return int(
        pytest.main(
            [*arguments, "--timeout", "0", "-k", job["selection"], *files],
            plugins=[Session(job, mutants)],
        )
    )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
