"""Which comments a patch may not add, and which may stay."""

import pytest

from diffchecks.fixes.patches import read_patch
from diffchecks.unified_diff import PatchRefused
from orchestrator.code_review.tools.prove_fixes import require_no_suppression


def check(old: str, new: str, *lost: str) -> None:
    (file,) = read_patch(f"--- a/app\n+++ b/app\n@@ -1,1 +1,1 @@\n-{old}\n+{new}\n")
    require_no_suppression(file, [line.encode() for line in lost])


ADDED = [
    "# noqa", "#noqa: S602", "# ruff: noqa", "# nosec", "# nosec B602",
    "# type: ignore", "# type: ignore[arg-type]", "# pyright: ignore", "# zizmor: ignore[a]",
    "# pylint: disable=W0123", "# shellcheck disable=SC2086", "// eslint-disable-next-line no-eval",
    "/* eslint-disable */", "// @ts-ignore", "// biome-ignore lint: x", "//nolint:gosec",
    "// #nosec G204", "# nosemgrep: a", "// NOSONAR", "# checkov:skip=A", "# gitleaks:allow",
    "# pragma: allowlist secret", "# pragma: no cover", "# mypy: ignore-errors",
]  # fmt: skip


@pytest.mark.parametrize("comment", ADDED)
def test_a_comment_that_silences_a_tool_is_refused_unless_it_stood_there(comment: str) -> None:
    with pytest.raises(PatchRefused, match="it silences an analyzer in app with"):
        check("run(x)", f"run(y)  {comment}")
    check(f"run(x)  {comment}", f"run(y)  {comment}")
    check(f"run(x)  {comment}", "run(y)")
    check("run(x)", f"run(y)  {comment}", f"run()  {comment}")  # which base has there


def test_a_comment_that_silences_more_than_before_is_refused() -> None:
    with pytest.raises(PatchRefused, match="it silences"):
        check("run(x)  # noqa: S602", "run(x)  # noqa")
    with pytest.raises(PatchRefused, match="it silences"):
        check("run(x)", "run(x)  # noqa", "run(x)  # noqa: S602")
    with pytest.raises(PatchRefused, match="it silences"):
        check("run(x)", "run(x)  # nosec\n+run(y)  # nosec", "run(x)  # nosec")


@pytest.mark.parametrize(
    "new", ["ignore(type)  # type of the key", "noqa = 1", "# nosecond try", "disable(x)"]
)
def test_other_lines_are_no_suppression(new: str) -> None:
    check("run(x)", new)
