"""``diffcourt catalog``: list and validate agents, skills, tools and rubrics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.cli.arguments import did_you_mean
from orchestrator.cli.output import width_of
from orchestrator.errors import EXIT_OK, EXIT_USAGE, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line

if TYPE_CHECKING:
    from diffchecks.rules import Rule
    from orchestrator.app.types import CatalogListing

PARTS = ("agents", "skills", "tools", "rubrics")


def run(args: argparse.Namespace) -> int:
    """Print the catalog on stdout, and every error on stderr."""
    from orchestrator.app.catalog_listing import list_catalog, list_readers, list_rules

    if args.rule is not None:
        rules = {rule.id: rule for rule in list_rules(args.repo)}
        emit(_explain(args.rule, rules, json=args.json), sys.stdout)
        return EXIT_OK
    if args.rules:
        from orchestrator.report.rules_page import render_rules_page

        page = render_rules_page(list_rules(args.repo), list_readers(args.repo))
        emit(page, sys.stdout)
        return EXIT_OK
    listing = list_catalog(args.repo)
    if args.json:
        emit(_json(listing), sys.stdout)
    elif not listing.problems:  # with errors nothing is loaded, and an empty list would mislead
        emit(_text(listing), sys.stdout)
    for problem in listing.problems:
        emit_line(str(problem), sys.stderr)
    return EXIT_USAGE if listing.problems else EXIT_OK


def _explain(name: str, rules: Mapping[str, Rule], *, json: bool) -> str:
    from orchestrator.report.rules_page import render_rule_text

    if name.startswith("import.") or name.endswith(".reported"):
        whose = "another analyzer" if name.startswith("import.") else "an agent"
        raise InputError(f"{name} marks findings of {whose}, which no rule here describes")
    if name not in rules:
        hint = did_you_mean(name, rules) or "; `diffcourt catalog --rules` prints all"
        raise InputError(f"there is no rule {name}{hint}")
    if json:
        return as_json(to_builtins(rules[name]))
    return render_rule_text(rules[name], width_of(sys.stdout))


def _json(listing: CatalogListing) -> str:
    document: dict[str, object] = {
        part: [{"name": name, "description": text} for name, text in getattr(listing, part)]
        for part in PARTS
    }
    document["problems"] = [
        {"file": error.file, "line": error.line, "message": error.message}
        for error in listing.problems
    ]
    return as_json(document)


def _text(listing: CatalogListing) -> str:
    from orchestrator.report.text_layout import render_name_list

    return render_name_list({part: getattr(listing, part) for part in PARTS}, width_of(sys.stdout))
