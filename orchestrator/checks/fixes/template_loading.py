"""Templates of fixes: ``config/fixes/<name>.yaml``.

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

from orchestrator.checks.patterns.pattern_loading import read_definitions, read_text


class Derivation(Struct, frozen=True, forbid_unknown_fields=True):
    """A step that makes the text of a variable from that of another.

    Attributes:
        of: the variable that is read.
        name: the variable that is written; ``of`` where it is left out.
        find: every place that is replaced. Without any the template does not apply.
        put: what stands there instead, with ``\\1``; ``<n>`` is the number of the place, from 1.
        collect: a variable that gets the first group of every place, with commas between them.
        fits: must match the whole result.
        optional: the template applies without a place too.
    """

    of: str
    find: re.Pattern[str]
    put: str = ""
    name: str = ""
    collect: str = ""
    fits: re.Pattern[str] | None = None
    optional: bool = False


class Companion(Struct, frozen=True, forbid_unknown_fields=True):
    """A second place of the file that changes too: the first that ``regex`` finds, if any."""

    regex: re.Pattern[str]
    replace: str


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """How findings of one rule are mended.

    Attributes:
        rule: its id.
        match: an ast-grep pattern, or a rule of ast-grep. What it matches is replaced where it
            overlaps the finding's lines.
        constraints: those of ast-grep, for variables of ``match``.
        regex: in place of ``match``, searched for in the finding's lines.
        replace: the new text, with the variables of ``match``, or the groups of ``regex`` as
            ``\\1``. A line of which nothing would be left is removed.
        derive: steps that run before.
        rewrites: variables that stand outside of what ``match`` matches, in a rule of ast-grep such
            as ``follows``, and what each of them is replaced by.
        imports: lines that are added behind the file's imports where they are missing.
        drops: a module whose import makes room for them where nothing else in the file names it.
        also: further places that change.
        when: must be found in the file.
        unless: must not be found in the file.
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
        """What ast-grep searches for."""
        rule = {"pattern": self.match} if isinstance(self.match, str) else self.match
        return {"rule": rule, **({"constraints": self.constraints} if self.constraints else {})}


class Templates(Struct, frozen=True, forbid_unknown_fields=True):
    """One file; its docstring above says what the fields hold."""

    fixes: tuple[Template, ...]
    grammars: dict[str, tuple[str, ...]] = {}
    files: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()
    header: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for fix in self.fixes:
            if fix.match is not None and not self.grammars:
                raise ValueError(f"match needs grammars ({fix.rule})")


def build_templates(data: Mapping[str, Any]) -> Templates:
    """A file's content as templates.

    Raises:
        ValueError, re.error: it is of another shape.
    """
    return convert(data, Templates, dec_hook=_compile)


@cache
def load_templates(file: str, rules: frozenset[str]) -> Templates | None:
    """Read a file's templates of some rules; None where it has none of them.

    Most files have none, and compiling all expressions takes longer than using a few.
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
