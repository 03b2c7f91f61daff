"""Files that begin with a byte order mark, as editors on Windows write it, in whole reviews."""

from pathlib import Path

import pytest

from tests.review.review_kit import change, review

MARK = "\ufeff"
GUARDED = (
    '"""Views."""\n\nfrom app import login_required, route\n\n\n'
    '@route("/a")\n@login_required\ndef view():\n    """View."""\n    return 1\n'
)
OPEN = GUARDED.replace("@login_required\n", "")
WORKFLOW = (
    "on: pull_request_target\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n"
    '      - run: echo "${{ github.event.pull_request.title }}"\n'
)


@pytest.mark.parametrize(("base", "head"), [("", ""), (MARK, ""), ("", MARK), (MARK, MARK)])
async def test_a_removed_login_is_found_with_a_mark_on_either_side(
    base: str, head: str, tmp_path: Path
) -> None:
    repo = change(tmp_path, {"a.py": base + GUARDED}, {"a.py": head + OPEN})
    verdict = await review(repo)
    assert verdict.status == "complete"
    assert "security.access-control-removed" in {finding.rule for finding in verdict.findings}


async def test_a_workflow_with_a_mark_is_read_and_a_broken_one_is_no_template(
    tmp_path: Path,
) -> None:
    files = {
        ".github/workflows/a.yml": MARK + WORKFLOW,
        ".github/workflows/b.yml": WORKFLOW.replace("steps", "stepz"),
    }
    verdict = await review(change(tmp_path, {}, files))
    found = {(finding.path, finding.rule) for finding in verdict.findings}
    assert (".github/workflows/a.yml", "security.workflow-injection") in found
    (gap,) = [skip for skip in verdict.skipped if skip.gap]
    assert (gap.path, gap.tool) == (".github/workflows/b.yml", "zizmor")
    assert "template" not in gap.why


async def test_a_fix_leaves_the_mark_where_it_is(tmp_path: Path) -> None:
    code = f'{MARK}"""A."""\n\n\ndef f(text):\n    """F."""\n    return eval(text)\n'
    verdict = await review(change(tmp_path, {}, {"a.py": code}))
    (finding,) = [one for one in verdict.findings if one.rule == "security.eval"]
    assert finding.fix is not None
    assert finding.fix.state == "verified", finding.fix
    assert "+import ast" in finding.fix.patch.split("\n")
