"""What one run of a test says of a finding: it shows it, or why not."""

import re
from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from diffchecks.data_files import read_yaml
from diffchecks.test_quality.proof_runs import TestEnd

LACKS = "the environment of the tests lacks "
HEAD_PASSES = "head passes the test"
BY_ITSELF = "the exception comes from the test itself; assert on what the code returns"
_BY_ASSERTION = frozenset({"AssertionError", "Failed", "Error"})
_MISSING_NAME = frozenset({"ImportError", "ModuleNotFoundError", "NameError", "ReferenceError"})
_TEXTS = {name: re.compile(text) for name, text in read_yaml("proof_failures.yaml").items()}


class NoProof(Exception):
    """The proof ends here, with a state and a reason."""

    def __init__(
        self, reason: str, state: Literal["inconclusive", "not_introduced"] = "inconclusive"
    ) -> None:
        self.state: Literal["inconclusive", "not_introduced"] = state
        super().__init__(reason)


class Prediction(Struct, frozen=True):
    """A test, and how it shall fail on head.

    Attributes:
        value: what the message of the exception holds.
        oracle: ``same``: two ways of the same code are compared, which base may lack.
        base: what the changed files hold in base.
    """

    path: str
    test: str
    exception: str
    value: str
    oracle: str
    claim: str = ""
    base: str = ""


def is_as_predicted(predicted: Prediction, end: TestEnd) -> bool:
    """Whether a run failed with this exception, and with the value in its message."""
    if end.kind != "failed" or end.exception != predicted.exception.rpartition(".")[2]:
        return False
    said = end.message or predicted.exception  # which says nothing but its name
    message, value = (" ".join(text.split()) for text in (said, predicted.value))
    # As a whole: "5" is not in "15". An edge that is no word character is its own end.
    begins = r"(?<!\w)" if re.match(r"\w", value) else ""
    ends = r"(?!\w)" if re.search(r"\w\Z", value) else ""
    return bool(value and re.search(f"{begins}{re.escape(value)}{ends}", message))


def passes_base(predicted: Prediction, end: TestEnd) -> bool:
    """Whether a run is as of base: the test passes, or its feature is missing."""
    lacks_feature = predicted.oracle == "same" and _TEXTS["missing_feature"].search(
        f"{end.exception}: {end.message}"
    )
    return end.kind == "passed" or bool(lacks_feature)


def require_as_predicted(
    predicted: Prediction, side: str, end: TestEnd, paths: Collection[str], *, again: bool = False
) -> bool:
    """Check one run.

    Args:
        side: ``head`` or ``base``.
        paths: all files of both sides.
        again: it is the side's second run.

    Returns:
        Whether it shows that something is gone, as the claim says.

    Raises:
        NoProof: with it, the test proves nothing.
    """
    failed_as_predicted = is_as_predicted(predicted, end)
    if end.kind == "broken" and (package := _missing_package(end.message, predicted.test, paths)):
        raise NoProof(f"{LACKS}{package}; install it where `tests:` of base finds it")
    how = f"{end.exception}: {end.message}" if end.exception else end.message
    if side == "head":
        if end.kind == "passed":
            raise NoProof(f"{HEAD_PASSES}, run again" if again else HEAD_PASSES)
        if not failed_as_predicted:
            raise NoProof(
                f"head does not fail as predicted ({predicted.exception}, {predicted.value}), "
                f"but so: {how[:400]}"
            )
        return _shows_removal(predicted, end, paths)
    if not passes_base(predicted, end):
        if failed_as_predicted:
            raise NoProof("base fails the test in the same way", "not_introduced")
        raise NoProof(f"base does not pass the test: {how[:400]}")
    return False


def require_imports(end: TestEnd) -> None:
    """Check a run that does no more than import what a test of base imports.

    Raises:
        NoProof: it cannot, so no test of a finding would run.
    """
    if end.kind == "broken" and (found := _TEXTS["not_imported"].findall(end.message)):
        raise NoProof(
            f"{LACKS}what base's own tests import ({' '.join(found[-1]).strip()}); "
            "install or build it, or a Python that it runs on, where `tests:` of base finds it"
        )


def _shows_removal(predicted: Prediction, end: TestEnd, paths: Collection[str]) -> bool:
    """Whether a failure of head shows that a name of base, or a parameter, is gone, as claimed."""
    refused = _TEXTS["refused"].search(end.message)
    function, *parameters = refused.groups() if refused else ("",)
    defined = rf"\b(?:def |class |(?=lambda)){function.strip('<>')}\b"
    is_input = parameters[1:] and parameters[1] and _is_input(function, predicted)
    if function and re.search(defined, predicted.test) and not is_input:
        raise NoProof(f"it shows only what its own fake lacks: {refused and refused[0]!r}")
    if lacking := _TEXTS["lacking"].search(end.message):
        own, *names = lacking.groups()
        fake = rf"\bclass {own}(?:\(\))?:" if own else _TEXTS["fake"]
        if re.search(fake, predicted.test):
            name = next(filter(None, names))
            raise NoProof(f"it shows only what its own fake lacks: {name!r}")
    kind = "missing_name" if end.exception in _MISSING_NAME else "gone"
    missing = _TEXTS[kind].search(end.message) or _TEXTS["gone"].search(end.message)
    name = next(filter(None, missing.groups()), "") if missing else ""
    if name and re.search(rf"\b{re.escape(name)}\b", predicted.test):
        if not _names(name, predicted.value, predicted.claim, predicted.base):
            raise NoProof(f"it shows only that the name {name!r} is gone")
        return True
    if end.exception in _BY_ASSERTION or _is_of_project(end, predicted.path, paths):
        return False
    if not (
        function and _names(function, predicted.claim) and re.search(defined, predicted.base)
    ) or not all(_names(one, predicted.value, predicted.claim) for one in parameters if one):
        raise NoProof(BY_ITSELF)
    return True


def _is_input(name: str, predicted: Prediction) -> bool:
    """Whether a test only gives what it defines to the project, which calls it, as is claimed."""
    given = re.findall(_TEXTS["given"].pattern.replace("NAME", re.escape(name)), predicted.test)
    all_of_it = re.findall(rf"\b{re.escape(name)}\b", predicted.test)
    is_claimed = _TEXTS["called"].search(predicted.claim)
    return bool(is_claimed and given) and len(all_of_it) == len(given) + 1  # and its definition


def _names(name: str, *texts: str) -> bool:
    """Whether all texts hold a public name."""
    return all(re.search(rf"\b(?!_){re.escape(name)}\b", text) for text in texts)


def _is_of_project(end: TestEnd, test: str, paths: Collection[str]) -> bool:
    """Whether code of the project raised an exception, or the test got nothing from it."""
    named = [one.split("/") for one in re.findall(r"""([^\s"':()]+)(?::|", line )\d""", end.trace)]
    ends = (["/".join(parts[at:]) for at in range(len(parts))] for parts in named)
    known = (next((one for one in each if one in {*paths, test}), "") for each in ends)
    frames = [*filter(None, known)]
    raised_in = frames[-1 if test.endswith(".py") else 0] if frames else ""  # or called from there
    got_nothing = _TEXTS["nothing"].search(end.message) and {*frames} == {test}
    return raised_in != test or bool(got_nothing)


def _missing_package(message: str, test: str, paths: Collection[str]) -> str:
    """A package that a run did not find, and that is neither the project's nor in the test."""
    found = _TEXTS["not_found"].search(message)
    name = next(filter(None, found.groups()), "") if found else ""
    own = any(name in {PurePosixPath(path).stem, *path.split("/")} for path in paths)
    return "" if own or name in test else name
