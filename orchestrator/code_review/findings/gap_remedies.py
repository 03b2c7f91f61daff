"""How an incomplete review becomes a complete one: what to do, and which setting accepts a gap."""

import json
import re
from collections.abc import Sequence

from diffchecks import name_some
from diffchecks.rules import CONFIGURED_ANALYZERS
from diffchecks.skipped_files import BIG_FILE_BYTES, GENERATED, TOO_LARGE, UTF_16
from orchestrator.code_review.findings.reading_depth import NOTHING_READ, TEXT_ONLY, WHOLE_CHANGE
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.registry import ANALYZERS
from orchestrator.code_review.verdict.model import Finding, RequiredCheck, Skipped
from orchestrator.optional_dependencies import NOT_INSTALLED

VERDICT_POLICY = ".diffcourt/config/verdict.yaml of the base branch"
TOOL_SETTINGS = ".diffcourt/config/tools.yaml of the base branch"
SETTINGS = ".diffcourt/config/defaults.yaml of the base branch"
_SYNTAX_ERRORS = frozenset({"qa.does-not-parse", "qa.shell-syntax"})
_NAMED = 3
_OF_BASE = frozenset({"run_tests", "typecheck", CONFIGURED_ANALYZERS})
"""Analyzers that run a command of the repository."""


def close_gaps(
    skipped: Sequence[Skipped],
    findings: Sequence[Finding],
    checks: Sequence[RequiredCheck],
    workspace: ReviewWorkspace,
) -> list[str]:
    """What closes the gaps, a step for each kind; a file is read once its syntax is corrected."""
    broken = {one.path for one in findings if one.rule in _SYNTAX_ERRORS and one.state == "open"}
    gaps = [skip for skip in skipped if skip.gap and skip.path not in broken]
    missing = [skip for skip in gaps if NOT_INSTALLED in skip.why]
    shallow = [skip for skip in gaps if TEXT_ONLY in skip.why or NOTHING_READ in skip.why]
    refused = [skip for skip in gaps if skip.tool in _OF_BASE and skip not in missing]
    closed = [skip for skip in gaps if skip not in [*missing, *shallow, *refused]]
    files = list({skip.path: skip for skip in reversed(closed) if skip.path != WHOLE_CHANGE})[::-1]
    steps = ["Install what is missing, as the gaps say, and review again."] if missing else []
    once = {skip.tool: skip for skip in reversed(refused)}.values()
    whole = [skip for skip in closed if skip.path == WHOLE_CHANGE][:1]
    steps += [_do_without(skip, checks, workspace) for skip in (*once, *whole)]
    if files:
        steps.append(_exclude(files, closed, workspace))
    failed = [check for check in checks if not check.is_satisfied]
    if failed and not steps and not broken:
        steps.append(
            f"Let the check {failed[0].name} run ({failed[0].detail}), or take it out of "
            f"required_checks in {VERDICT_POLICY}."
        )
    if shallow:
        named, it = _name(list(dict.fromkeys(skip.path for skip in shallow)))
        accept = f"add `unread: note` to {VERDICT_POLICY}"
        if all(skip.why.startswith(GENERATED) for skip in shallow):
            accept = "mark them `linguist-generated` in .gitattributes of the base branch"
        steps.append(
            f"Read {named} by hand: no tool reads {it} as code. To accept such files from now on, "
            f"{accept}, unless they run in CI or production."
        )
    return steps


def _name(paths: Sequence[str]) -> tuple[str, str]:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}", "them" if more else "it"


def _exclude(paths: Sequence[str], gaps: Sequence[Skipped], workspace: ReviewWorkspace) -> str:
    named, it = _name(paths)
    first = next(gap for gap in gaps if gap.path == paths[0])
    by = f", which {first.tool} did not" if first.tool else ""
    step = f"Review {named} by hand{by}: {first.why.rstrip('.')}."
    wide = [gap.path for gap in gaps if UTF_16 in gap.why]
    large = [gap.path for gap in gaps if gap.why.startswith(TOO_LARGE)]
    if wide:
        step += f" Or save {wide[0]} as UTF-8."
    if any(workspace.files[path].size <= BIG_FILE_BYTES for path in large):
        step += f" Or raise `limits.max_file_bytes` in {SETTINGS}."
    globs = ", ".join(json.dumps(_glob(path), ensure_ascii=False) for path in paths[:_NAMED])
    entry = f"{{paths: [{globs}{', ...' if len(paths) > _NAMED else ''}], why: TEXT}}"
    never = "it runs" if it == "it" else "they run"
    return (
        f"{step} To accept {it}, add {entry} to `exclude` in {VERDICT_POLICY}, "
        f"unless {never} in CI or production."
    )


def _glob(path: str) -> str:
    """The pattern of this file alone; what YAML cannot hold matches as any character."""
    plain = re.sub(r"([\\*?\[\]]| $)", r"\\\1", path)
    return "/" + re.sub(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]", "?", plain)


def _do_without(gap: Skipped, checks: Sequence[RequiredCheck], workspace: ReviewWorkspace) -> str:
    why = gap.why.rstrip(".")
    name = gap.tool if gap.path in {WHOLE_CHANGE, *workspace.files} else gap.path
    step = f"Review the whole change by hand, which {gap.tool} did not: {why}."
    if gap.tool in _OF_BASE:
        step = f"Let {name} do its work: {why}."
    if gap.tool not in ANALYZERS:
        return step
    without = f"add {gap.tool} to `deny` under `environments` in {TOOL_SETTINGS}"
    if gap.tool == CONFIGURED_ANALYZERS:
        without = f"take its entry of `analyzers` out of {SETTINGS}"
    needing = name_some([check.name for check in checks if gap.tool in check.detail], _NAMED)
    also = f", and take {needing} out of required_checks in {VERDICT_POLICY}" if needing else ""
    return f"{step} To do without it, {without}{also}."
