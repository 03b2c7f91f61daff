"""A repository's own data files beside those in ``data``: whether the checks can use them.

They import what they need when it is needed, as few repositories have any.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from diffchecks import DATA, DataFileError
from diffchecks.data_files import parse_yaml
from diffchecks.declarations import Check
from diffchecks.file_patterns import file_names
from diffchecks.rules import IMPORTED, RuleTable

Documents = Sequence[tuple[str, Mapping[str, Any]]]
"""Name in messages and content of each file."""

Known = Mapping[str, Mapping[str, Any]]
"""The content of each file of the same kind, the shipped ones too, by name without suffix."""


def _validate_taint(documents: Documents, known: Known, rules: RuleTable) -> None:
    from diffchecks.taint.library_models import build  # noqa: PLC0415

    classes = {item["name"] for data in known.values() for item in data.get("classes") or ()}
    for shown, models in [(shown, build([(shown, content)])) for shown, content in documents]:
        for name in models.named_classes():
            if name not in classes:
                allowed = ", ".join(sorted(classes))
                raise DataFileError(f"there is no class {name!r}; allowed: {allowed}", shown)


def _validate_patterns(documents: Documents, known: Known, rules: RuleTable) -> None:
    from diffchecks.patterns.user_pattern_validation import check_user_patterns  # noqa: PLC0415

    check_user_patterns(documents, known, rules.codes("patterns"))


def _validate_infrastructure(documents: Documents, known: Known, rules: RuleTable) -> None:
    from diffchecks.infrastructure.value_patterns import read_patterns  # noqa: PLC0415

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
    from diffchecks.fixes.template_loading import build_templates  # noqa: PLC0415
    from diffchecks.patterns.user_pattern_validation import check_search  # noqa: PLC0415

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


def with_own_languages(check: Check, pattern_files: Sequence[str]) -> Check:
    """The check of patterns, for the languages that a repository adds as well.

    Args:
        pattern_files: the paths of all files of defect patterns, which are valid.
    """
    own = [Path(file) for file in pattern_files if Path(file).name not in _shipped_patterns()]
    contents = [parse_yaml(file.read_bytes()) for file in own]
    added = [f"*{suffix}" for content in contents for suffix in content.get("grammars", ())]
    to_python = any(content.get("extends") == "python" for content in contents)
    python = file_names("modules") if to_python else ()
    files, code = check.files, check.code
    return replace(
        check,
        files=replace(files, names=(*files.names, *added, *python)),
        code=replace(code, names=(*code.names, *added)),
    )


@cache
def _shipped_patterns() -> frozenset[str]:
    return frozenset(path.name for path in (DATA / "patterns").glob("*.yaml"))
