"""Patterns that a repository adds, for a shipped language and for one of its own."""

from pathlib import Path

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import ConfigError
from tests.review.review_kit import change, options

MORE = """
extends: javascript
patterns:
  - code: js-shop-raw
    rule: {pattern: shop.raw($SQL)}
    where: {SQL: {is: [varies]}}
    message: Text that varies goes into a raw query
    example: {bad: "shop.raw(text);", good: "shop.raw('select 1');"}
"""
RULE = """
rules:
  - {id: security.shop-raw, title: Raw query, severity: high, from: ["patterns:js-shop-raw", "patterns:haskell-run"],
     why: Because., fix: Mend it.}
"""
CODE = {
    "bad.js": "export const f = (t) => shop.raw(t);\n",
    "good.js": "shop.raw('select 1');\n",
    "old.js": "export const f = (x) => eval(x);\n",
    "a.hs": "main = callCommand x\n",
}
FOLDER = ".diffcourt/config"


HASKELL = """
grammars: {.hs: [haskell]}
patterns:
  - code: haskell-run
    rule: {pattern: callCommand $V}
    message: A command is run
    example: {bad: "main = callCommand x", good: "main = print x"}
"""


def review(tmp_path: Path, own: dict[str, str]) -> Verdict:
    policy = {f"{FOLDER}/{name}": text for name, text in own.items()}
    return run_review(options(change(tmp_path, policy, CODE).path), ignore_event)


def test_patterns_of_a_repository_add_to_the_shipped_ones(tmp_path: Path) -> None:
    own = {"patterns/shop.yaml": MORE, "patterns/haskell.yaml": HASKELL, "rules/shop.yaml": RULE}
    verdict = review(tmp_path, own)
    found = {(f.path, f.rule) for f in verdict.findings if f.category == "security"}
    assert {("bad.js", "security.shop-raw"), ("a.hs", "security.shop-raw")} <= found
    assert "good.js" not in {path for path, _ in found}
    assert {path for path, rule in found if rule != "security.shop-raw"} == {"old.js"}
    assert {entry.path for entry in verdict.checked if entry.depth == "code"} == CODE.keys()


def test_a_language_is_extended_by_the_name_of_its_grammar(tmp_path: Path) -> None:
    own = {"patterns/shop.yaml": MORE.replace("extends: javascript", "extends: typescript")}
    verdict = review(tmp_path, {**own, "patterns/haskell.yaml": HASKELL, "rules/shop.yaml": RULE})
    assert "bad.js" in {f.path for f in verdict.findings if f.rule == "security.shop-raw"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- a\n", "must be a mapping"),
        ("a: [\n", "not valid YAML"),
        ("grammars: {}\ngrammars: {}\n", ":2: the key 'grammars' appears twice"),
        (
            "extends: klingon\npatterns: []\n",
            "allowed: bash, c, cpp, csharp, dart, elixir, go, hcl",
        ),
        (MORE.replace("js-shop-raw", "js-other"), "no rule names patterns:js-other"),
        (MORE.replace("{pattern: shop.raw($SQL)}", "{kindred: call}"), "ast-grep rejects"),
        (MORE.replace("where: {SQL: {is: [varies]}}", "near: '('"), "not a valid pattern file"),
        (
            MORE.replace("    message: Text that varies goes into a raw query\n", ""),
            ":4: missing keys: message (line 4)",
        ),
        ("a: 1\n", "missing keys: grammars (line 1), patterns (line 1)"),
        (
            "extends: typescript\npatterns:\n  - code: a\n    example: {bad: x}\n",
            ":3: missing keys: message (line 3), rule (line 3), example.good (line 3)",
        ),
        (MORE.replace("extends: javascript", "grammars: {.kl: [klingon]}"), "ast-grep rejects"),
    ],
)
def test_a_fault_names_the_file(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        review(tmp_path, {"patterns/shop.yaml": text, "rules/shop.yaml": RULE})
    assert f"{FOLDER}/patterns/shop.yaml" in str(refused.value)
    assert why in str(refused.value)
