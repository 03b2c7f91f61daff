"""Reads how one run of one test ended, from its runner's report."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree as Xml

from msgspec import Struct

MAX_MESSAGE = 2_000
MAX_TRACE = 20_000
BROKEN: Literal["broken"] = "broken"


class TestEnd(Struct, frozen=True):
    """How the one test of a run ended.

    Attributes:
        kind: ``broken``: no test ran to its end, for example because its file cannot be imported.
        exception: the bare name of the exception that it failed with.
        message: what that says; of a broken run, why no test ran.
        trace: what the runner shows of a failure, with the lines that it went through.
    """

    __test__ = False

    kind: Literal["passed", "failed", "broken"]
    exception: str = ""
    message: str = ""
    trace: str = ""


def run(job: Mapping[str, Any]) -> TestEnd:
    """How a run ended.

    Args:
        job: ``format`` of the report; ``code``, the exit status; ``printed``, its output; and
            ``report``, the path of the report, or empty.
    """
    printed, code = str(job["printed"]), int(job["code"])
    try:
        text = Path(job["report"]).read_text("utf-8", "replace") if job["report"] else ""
        ends = list(_READERS[job["format"]](text, printed))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, Xml.ParseError) as error:
        return TestEnd(BROKEN, message=f"its report cannot be read: {error}"[:MAX_MESSAGE])
    # A fixture of the project may run one test on several event loops or databases.
    if len({(end.kind, end.exception, end.message) for end in ends}) != 1:
        what = "no test ran" if not ends else f"{len(ends)} tests ran, with different ends"
        return TestEnd(BROKEN, message=f"{what}: {printed.strip()[-MAX_MESSAGE:]}")
    end = ends[0]
    if end.kind != BROKEN and (end.kind == "passed") != (code == 0):
        return TestEnd(BROKEN, message=f"the test {end.kind}, but the exit status is {code}")
    return end


def _failed(text: str, name: str = "", trace: str = "") -> TestEnd:
    """A failure that begins with ``Exception: message`` or ``Exception``, or has a known name."""
    head, _, rest = text.partition(":")
    if not name and re.fullmatch(r"[\w.]+", head):
        name, text = head, rest
    message, name = text.strip()[:MAX_MESSAGE], name.rpartition(".")[2]
    name = "AssertionError" if name == "FailTest" else name  # of Twisted's trial
    return TestEnd("failed", name, message, trace[-MAX_TRACE:] or message)


def _read_junit(text: str, printed: str) -> Iterator[TestEnd]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("it has a document type")
    failed = set[str | None]()
    # In a confined worker, and without a document type nothing expands.
    for case in Xml.fromstring(text).iter("testcase"):  # noqa: S314
        failure, error, name = case.find("failure"), case.find("error"), case.get("name")
        of_end = error is not None and (error.get("message") or "").startswith("failed on teardown")
        if of_end and name in failed:
            continue  # the same test, with an error that it logged, as Twisted's do
        failed |= {name} if failure is not None else set()
        if case.find("skipped") is not None:
            yield TestEnd(BROKEN, message="the test was skipped")
        elif error is not None:
            message = f"{error.get('message') or ''}\n{error.text or ''}".strip()
            yield TestEnd(BROKEN, message=message[:MAX_MESSAGE])
        elif failure is None:
            yield TestEnd("passed")
        else:
            yield _junit_failure(failure.get("message") or "", failure)


def _junit_failure(message: str, failure: Xml.Element) -> TestEnd:
    text = failure.text or ""
    if "cause: 'test failed'" in text:  # of node: the file failed before any test of it
        return TestEnd(BROKEN, message=message)
    cause = re.search(r"cause: (\w+)", text)
    named = failure.get("type") or ""
    if named == "testCodeFailure":  # node's own name for any failure
        named = cause[1] if cause else "Error"
    if not named and message.startswith("assert "):  # pytest leaves the name out
        named = "AssertionError"
    return _failed(message, named, text)


def _read_jest(text: str, printed: str) -> Iterator[TestEnd]:
    for file in json.loads(text)["testResults"]:
        if not file["assertionResults"]:
            yield TestEnd(BROKEN, message=_plain(str(file["message"])))
        for test in file["assertionResults"]:
            if test["status"] == "passed":
                yield TestEnd("passed")
            elif test["status"] == "failed":
                message = _plain("\n".join(test["failureMessages"]))
                end = _failed(re.split(r"\n\s+at ", message)[0], trace=message)
                is_bare = "expect(" in message  # a failed expectation is a bare Error
                yield _failed(end.message, "AssertionError", message) if is_bare else end


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)[:MAX_MESSAGE]


def _read_unittest(text: str, printed: str) -> Iterator[TestEnd]:
    """What a test prints is in the same stream, so each mark may stand there once."""
    ran = re.findall(r"^Ran (\d+) tests? in ", printed, re.MULTILINE)
    failures = re.findall(r"^={70}$", printed, re.MULTILINE)
    if len(ran) > 1 or len(failures) > 1:
        yield TestEnd(BROKEN, message="its output cannot be told from that of the test")
        return
    for _ in range(int(ran[0]) if ran else 0):
        if not failures and re.search(r"^OK$", printed, re.MULTILINE):
            yield TestEnd("passed")
            continue
        failure = re.search(
            r"^={70}\n(?:FAIL|ERROR): .*?^Traceback .*?^(?P<error>[A-Za-z_][\w.]*(?::.*?)?)"
            r"\n\n(?:-{20,}|Stdout:|Stderr:)\n",
            printed,
            re.MULTILINE | re.DOTALL,
        )
        if failure is None or "unittest.loader._FailedTest" in printed:
            yield TestEnd(BROKEN, message=printed.strip()[-MAX_MESSAGE:])
        else:
            yield _failed(failure["error"], trace=failure[0])


def _read_go(text: str, printed: str) -> Iterator[TestEnd]:
    output: list[str] = []
    for line in printed.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        test, action = event.get("Test", ""), event["Action"]
        if action == "output" and test:
            output.append(event["Output"])
        elif test and "/" not in test and action in {"pass", "fail", "skip"}:
            message = "".join(line for line in output if not line.startswith(("=== ", "--- ")))
            panic = re.search(r"^panic: (.*)", message, re.MULTILINE)
            if action == "pass":
                yield TestEnd("passed")
            elif action == "skip":
                yield TestEnd(BROKEN, message="the test was skipped")
            elif panic:
                yield _failed(panic[1], "panic", message)
            else:
                yield _failed(message, "AssertionError")


_READERS: Mapping[str, Callable[[str, str], Iterator[TestEnd]]] = {
    "junit": _read_junit,
    "jest": _read_jest,
    "unittest": _read_unittest,
    "go": _read_go,
}
