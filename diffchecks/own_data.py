"""A repository's own data files beside those in ``data``: whether the checks can use them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from diffchecks import DataFileError
from diffchecks.check_io import Gap, Source, parse_program
from diffchecks.fixes.template_loading import build_templates
from diffchecks.infrastructure.value_patterns import read_patterns
from diffchecks.patterns import Program, find_matches
from diffchecks.patterns.pattern_loading import (
    EXTENDS,
    Pattern,
    PatternFile,
    build_language,
    find_language,
)
from diffchecks.rules import IMPORTED, RuleTable
from diffchecks.taint.library_models import build

Documents = Sequence[tuple[str, Mapping[str, Any]]]
"""Name in messages and content of each file."""

Known = Mapping[str, Mapping[str, Any]]
"""The content of each file of the same kind, the shipped ones too, by name without suffix."""


def _validate_taint(documents: Documents, known: Known, rules: RuleTable) -> None:
    classes = {item["name"] for data in known.values() for item in data.get("classes") or ()}
    for shown, models in [(shown, build([(shown, content)])) for shown, content in documents]:
        for name in models.named_classes():
            if name not in classes:
                allowed = ", ".join(sorted(classes))
                raise DataFileError(f"there is no class {name!r}; allowed: {allowed}", shown)


def _validate_patterns(documents: Documents, known: Known, rules: RuleTable) -> None:
    """Check that each file has the right structure, and that ast-grep accepts its patterns."""
    codes = rules.codes("patterns")  # others would never be reported
    for shown, content in documents:
        extended = _find_extended(content, known, shown) if EXTENDS in content else None
        try:
            language = content if extended is None else known[extended]
            whole = build_language({**language, **content})
            grammars = {name for names in language["grammars"].values() for name in names}
        except (LookupError, TypeError, AttributeError, ValueError, re.error) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            what = f"not a valid pattern file: {what} (docs/own-patterns.md)"
            raise DataFileError(what, shown) from None
        for pattern in whole.patterns:
            if pattern.code not in codes:
                raise DataFileError(
                    f"no rule names patterns:{pattern.code}; add one in config/rules/", shown
                )
            names = (*pattern.only_names.values(), *pattern.except_names.values())
            for config in (pattern.config, *({"rule": rule} for rule in names)):
                check_search(config, pattern.grammars or grammars, pattern.code, shown)
            _prove(pattern, whole, shown)


def _find_extended(content: Mapping[str, Any], known: Known, shown: str) -> str:
    found = find_language(content[EXTENDS], known)
    if found is None:
        languages = {name: data for name, data in known.items() if EXTENDS not in data}
        named = (data.get("grammars", {}).values() for data in languages.values())
        grammars = {grammar for several in named for each in several for grammar in each}
        allowed = ", ".join(sorted({*languages, *grammars}))
        raise DataFileError(
            f"unknown language {content[EXTENDS]!r} to extend; allowed: {allowed}", shown
        )
    return found


def check_search(
    config: Mapping[str, Any], grammars: Collection[str], name: str, shown: str
) -> None:
    """Check that ast-grep accepts a search configuration in each grammar.

    Args:
        config: ``rule`` and ``constraints`` of ast-grep.
        name: the pattern's name in messages.
        shown: the file's name in messages.
    """
    for grammar in sorted(grammars):
        try:
            parse_program("", grammar).find_all(dict(config))  # type: ignore[call-overload]
        except BaseException as error:  # a panic at an unknown grammar is no Exception
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            why = " ".join(str(error).partition("Stack backtrace")[0].split())
            raise DataFileError(f"ast-grep rejects {name}: {why:.200}", shown) from None


def _prove(pattern: Pattern, language: PatternFile, shown: str) -> None:
    """Check that the pattern matches its bad example and not its good one, for one extension."""
    finds_bad = False
    for suffix in language.grammars:
        if _finds(pattern, language, suffix, pattern.bad):
            finds_bad = True
            if not _finds(pattern, language, suffix, pattern.good):
                return
    what = "matches its good example too" if finds_bad else "does not match its bad example"
    fault = f"{pattern.code} {what}; correct its rule, its where, or its example"
    raise DataFileError(fault, shown)


def _finds(pattern: Pattern, language: PatternFile, suffix: str, program: str) -> bool:
    try:
        source = Source(f"example{suffix}", program.encode())
        return bool(list(find_matches([pattern], Program(source, language))))
    except Gap:
        return False


def _validate_infrastructure(documents: Documents, known: Known, rules: RuleTable) -> None:
    for shown, content in documents:
        try:
            patterns = read_patterns(content).patterns
        except ValueError as error:
            what = f"not a valid file of infrastructure patterns: {error}"
            raise DataFileError(f"{what} (docs/own-patterns.md)", shown) from None
        for pattern in patterns:
            if pattern.code not in rules.codes("infrastructure"):
                names = f"infrastructure:{pattern.code}"
                raise DataFileError(f"no rule names {names}; add one in config/rules/", shown)


def _validate_fixes(documents: Documents, known: Known, rules: RuleTable) -> None:
    for shown, content in documents:
        try:
            templates = build_templates(content)
        except (ValueError, re.error) as error:
            what = f"not a valid file of fixes: {error}"
            raise DataFileError(f"{what} (docs/fixes.md)", shown) from None
        grammars = {name for names in templates.grammars.values() for name in names}
        for fix in templates.fixes:
            if fix.rule not in rules.rules and not fix.rule.startswith(IMPORTED):
                what = f"there is no rule {fix.rule!r} to fix"
                raise DataFileError(f"{what}; `diffcourt catalog --rules` lists them", shown)
            if fix.match is not None:
                check_search(fix.config, grammars, f"the fix of {fix.rule}", shown)


VALIDATORS: Mapping[str, Callable[[Documents, Known, RuleTable], None]] = {
    "taint": _validate_taint,
    "patterns": _validate_patterns,
    "infrastructure": _validate_infrastructure,
    "fixes": _validate_fixes,
}
"""Directory in ``data`` → what raises ``DataFileError`` for what a check could not use."""
