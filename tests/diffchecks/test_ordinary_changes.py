"""Ordinary changes in which a rule finds nothing, and the twin that it tells of."""

from pathlib import Path

import pytest

from tests.diffchecks.test_false_alarms import Files, found

CS = "class C : Controller {{\n  async Task F() {{ await client.GetAsync({}); }}\n}}\n"
KT = "fun f(call: ApplicationCall) {{\n  {}\n}}\n"

# Base, a quiet head, one that is told of, and the rule.
CHANGES: dict[str, tuple[Files, Files, Files, str]] = {
    "a count and flags, each by its name": (
        {},
        {"a.py": "import re\n\nA = re.sub('a', '', b, flags=re.I)\nB = re.split(',', b, flags=re.I)\n"},
        {"a.py": "import re\n\nA = re.sub('a', '', b, re.I)\n"},
        "qa.wrong-argument",
    ),
    "a fixed host by its parameter's name, C#": (
        {},
        {"C.cs": CS.format('requestUri: "https://a.com/" + Request.Query["a"]')},
        {"C.cs": CS.format('requestUri: Request.Query["a"]')},
        "security.server-side-request-forgery",
    ),
    "a fixed host by its parameter's name, Kotlin": (
        {},
        {"a.kt": KT.format('URL(spec = "https://a.com/" + call.request.queryParameters["a"])')},
        {"a.kt": KT.format('URL(spec = call.request.queryParameters["a"])')},
        "security.fetch-from-request",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_ordinary_change_is_quiet_and_its_twin_is_told(tmp_path: Path, what: str) -> None:
    base, quiet, told, rule = CHANGES[what]
    for side in ("quiet", "told"):
        (tmp_path / side).mkdir()
    assert rule not in found(tmp_path / "quiet", base, quiet)
    assert rule in found(tmp_path / "told", base, told)
