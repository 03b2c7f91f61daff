"""Templates of fixes: ``data/fixes/<name>.yaml``.

A file holds:

    grammars   file suffix -> names of ast-grep's grammars; the first that parses the file is used
    files      patterns of file names, for templates with ``regex`` alone
    imports    kinds of node at the top of a file that import something
    header     kinds of node that stand before them
    fixes      the templates, see ``Template``

Expressions are searched for with ``^`` and ``$`` at the ends of lines.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct, convert

from diffchecks.patterns.pattern_loading import read_definitions, read_text


class Derivation(Struct, frozen=True, forbid_unknown_fields=True):
    """A step that derives the text of a variable from that of another.

    Attributes:
        of: the variable to read.
        name: the variable to write; default: ``of``.
        find: an expression; every match is replaced. Without a match the template does not apply.
        put: what stands there instead, with ``\\1``; ``<n>`` is the number of the place, from 1.
        collect: a variable that gets the first group of every place, with commas between them.
        fits: an expression that must match the whole result.
        optional: the template applies without a match of ``find`` too.
    """

    of: str
    find: re.Pattern[str]
    put: str = ""
    name: str = ""
    collect: str = ""
    fits: re.Pattern[str] | None = None
    optional: bool = False


class Companion(Struct, frozen=True, forbid_unknown_fields=True):
    """A second place in the file to change: the first match of ``regex``, if any."""

    regex: re.Pattern[str]
    replace: str


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """How to fix findings of one rule.

    Attributes:
        match: an ast-grep pattern, or a rule of ast-grep. A match that overlaps the finding's lines
            is replaced.
        constraints: those of ast-grep, for variables of ``match``.
        regex: instead of ``match``, searched for in the finding's lines.
        replace: the new text, with the variables of ``match``, or the groups of ``regex`` as
            ``\\1``. A line that would become empty is removed.
        derive: steps that run before.
        rewrites: variables that stand outside of what ``match`` matches, in a rule of ast-grep such
            as ``follows``, and what each of them is replaced by.
        imports: import lines to add after the file's imports if they are missing.
        drops: a module whose import they replace if nothing else in the file uses it.
        also: further places to change.
        when: an expression that must match in the file.
        unless: an expression that must not match in the file.
    """

    rule: str
    replace: str
    match: str | dict[str, Any] | None = None
    constraints: dict[str, Any] | None = None
    regex: re.Pattern[str] | None = None
    derive: tuple[Derivation, ...] = ()
    rewrites: dict[str, str] = {}
    imports: tuple[str, ...] = ()
    drops: str = ""
    also: tuple[Companion, ...] = ()
    when: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        if (self.match is None) == (self.regex is None):
            raise ValueError(f"a template of {self.rule} needs either match or regex")
        if self.regex and (self.derive or self.constraints or self.imports):
            raise ValueError(f"derive, constraints and imports need match ({self.rule})")

    @property
    def config(self) -> Mapping[str, Any]:
        """The search configuration for ast-grep."""
        rule = {"pattern": self.match} if isinstance(self.match, str) else self.match
        return {"rule": rule, **({"constraints": self.constraints} if self.constraints else {})}


class FixTemplates(Struct, frozen=True, forbid_unknown_fields=True):
    """One file; the module's docstring describes the fields."""

    fixes: tuple[Template, ...]
    grammars: dict[str, tuple[str, ...]] = {}
    files: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()
    header: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for fix in self.fixes:
            if fix.match is not None and not self.grammars:
                raise ValueError(f"match needs grammars ({fix.rule})")


def build_templates(data: Mapping[str, Any]) -> FixTemplates:
    """A file's content as templates.

    Raises:
        ValueError, re.error: its structure is invalid.
    """
    return convert(data, FixTemplates, dec_hook=_compile)


@cache
def load_templates(file: str, rules: frozenset[str]) -> FixTemplates | None:
    """Read a file's templates for some rules; None if it has none of them.

    Most files have none, and compiling all expressions takes longer than using a few of them.
    """
    if not any(rule in read_text(file) for rule in rules):
        return None
    data = read_definitions(file)
    fixes = [fix for fix in data["fixes"] if fix["rule"] in rules]
    return build_templates({**data, "fixes": fixes}) if fixes else None


def _compile(kind: type, text: Any) -> re.Pattern[str]:
    if not isinstance(text, str):
        raise TypeError(f"an expression must be text, not {type(text).__name__}")
    return re.compile(text, re.MULTILINE)
