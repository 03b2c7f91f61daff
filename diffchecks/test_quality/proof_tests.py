"""Checks a test that a model wrote to prove a finding: by its text, it can show only an effect.

A test that passes on base and fails on head proves a claim only if it fails for the reason that was
claimed. So a test may not look at how the code is written, replace what the change defines, count
calls, depend on chance, time or the machine, hide what it does, or say itself what was predicted.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

from diffchecks.data_files import read_yaml
from diffchecks.test_quality.proof_python import GENERIC, ProofTestJob, PythonTest, compares_two
from diffchecks.test_quality.proof_scripts import ScriptTest

MAX_BYTES = 8 << 10
_REASONS = read_yaml("proof_tests.yaml")["reasons"]


def run(job: Mapping[str, Any]) -> list[str]:
    """Why the test proves nothing, a reason each; empty: it may be run."""
    given = ProofTestJob(**job)
    if len(given.text.encode("utf-8", "replace")) > MAX_BYTES:
        return [f"has more than {MAX_BYTES >> 10} KiB"]
    if given.value and not re.search(r"\w", GENERIC.sub("", given.value)):
        return [_REASONS["predicts"]]
    if given.language != "python":
        test = ScriptTest(given)
        found = list(test.problems())
        same = given.same and not test.compares_two()
    else:
        try:
            tree = ast.parse(given.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            return [f"does not parse: {error}"]
        found = list(PythonTest(tree, given).problems())
        same = given.same and not any(map(compares_two, ast.walk(tree)))
    if same:
        found.append("compares no two values that are both computed")
    told: dict[str, str] = {}
    for problem in found:
        why, _, quote = problem.partition(": ")
        reason = _REASONS.get(why, problem)
        told.setdefault(reason, f"{reason} ({quote})" if quote and why in _REASONS else reason)
    return list(told.values())
