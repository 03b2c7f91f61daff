"""The checks that the policy requires of a change, and whether they have run."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from orchestrator.catalog.verdict_policy import CheckRule
from orchestrator.code_review.findings.evidence_from_journal import ToolHealth
from orchestrator.code_review.tools.path_globs import matches_any
from orchestrator.code_review.verdict.model import RequiredCheck
from orchestrator.wording import count_noun


def concerned(rule: CheckRule, paths: Iterable[str]) -> Sequence[str]:
    """Those of the files for which a check is required."""
    return _matching(rule.when, tuple(paths))


@lru_cache(maxsize=64)  # planning asks for each check again and again, of all files of the change
def _matching(patterns: tuple[str, ...], paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if matches_any(path, patterns))


def required(rules: Iterable[CheckRule], paths: Sequence[str]) -> list[CheckRule]:
    """The checks that the policy requires for these files."""
    return [rule for rule in rules if concerned(rule, paths)]


def check_required(
    rule: CheckRule,
    due: Mapping[str, frozenset[str]] | None,
    tools: Mapping[str, ToolHealth],
    off: Mapping[str, str],
) -> RequiredCheck:
    """Whether a required check has run.

    Args:
        due: tool → the paths that it must examine; None: the check does not apply.
        off: tool → why no agent was given it.
    """
    if due is None:
        return RequiredCheck(name=rule.name, status="not_applicable")
    silent = [name for name in rule.tools if name not in tools]
    if silent:
        whys = "; ".join(dict.fromkeys(off[name] for name in silent if name in off))
        detail = f"{', '.join(silent)} did not run{f': {whys}' if whys else ''}"
        return RequiredCheck(name=rule.name, status="not_run", detail=detail)
    broken = [f"{name}: {tools[name].error}" for name in rule.tools if tools[name].error]
    missed = sorted(
        {
            path
            for name in rule.tools
            for path in tools[name].gaps | (due.get(name, frozenset()) - tools[name].given)
        }
    )
    if broken or missed:
        # A gap under its tool's name concerns no single file.
        texts = ("{} did not do all of its work", "did not look at {}")
        seen = [texts[path not in rule.tools].format(path) for path in missed[:3]]
        more = f" and {len(missed) - 3} more" if len(missed) > 3 else ""
        return RequiredCheck(
            name=rule.name, status="failed", detail="; ".join([*broken, *seen]) + more
        )
    if all(tools[name].nothing for name in rule.tools):
        why = "; ".join(f"{name}: {tools[name].nothing}" for name in rule.tools)
        return RequiredCheck(name=rule.name, status="not_applicable", detail=why)
    own = "; ".join(tools[name].own_tests for name in rule.tools if tools[name].own_tests)
    if own:
        return RequiredCheck(name=rule.name, status="passed_by_own_tests", detail=own)
    found = sum(tools[name].found for name in rule.tools)
    what = count_noun(found, "finding") if found else "found nothing"
    return RequiredCheck(name=rule.name, status="ran", detail=f"{', '.join(rule.tools)}: {what}")
