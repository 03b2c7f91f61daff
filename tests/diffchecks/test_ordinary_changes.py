"""Ordinary changes in which a rule finds nothing, and the twin that it tells of."""

from pathlib import Path

import pytest

from tests.diffchecks.test_false_alarms import Files, found

CS = "class C : Controller {{\n  async Task F() {{ await client.GetAsync({}); }}\n}}\n"
VIEW = "{}def drop(request, pk):\n{}\n"
PHP = "<?php\nclass A {{\n  {}public function drop(A $a): Response\n  {{\n    {}\n  }}\n}}\n"
JAVA = "class A {{\n  {}Object drop(A a) {{\n    {}\n  }}\n}}\n"
TS = "class A {{\n  {}drop(a: A) {{\n    {}\n  }}\n}}\n"
CSHARP = "class A {{\n  {}public IActionResult Drop(A a) {{\n    {}\n  }}\n}}\n"
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
    "an action that only answers that it is gone, Python": (
        {"a.py": VIEW.format("@login_required\n", "    remove(pk)\n    return done()")},
        {"a.py": VIEW.format("", "    return HttpResponse(status=410)")},
        {"a.py": VIEW.format("", "    remove(pk)\n    return HttpResponse(status=410)")},
        "security.access-control-removed",
    ),
    "an action that only throws, PHP": (
        {"A.php": PHP.format("#[IsGranted('edit', 'a')]\n  ", "return $this->remove($a);")},
        {"A.php": PHP.format("", "throw new GoneHttpException('Use \"POST /b\".');")},
        {"A.php": PHP.format("", "$this->remove($a); throw new GoneHttpException('x');")},
        "security.access-control-removed",
    ),
    "an action that only throws, Java": (
        {"A.java": JAVA.format("@PreAuthorize(\"hasRole('ADMIN')\")\n  ", "remove(a);")},
        {"A.java": JAVA.format("", "throw new ResponseStatusException(HttpStatus.GONE);")},
        {"A.java": JAVA.format("", "throw new ResponseStatusException(HttpStatus.GONE, remove(a));")},
        "security.access-control-removed",
    ),
    "an action that only throws, TypeScript": (
        {"a.ts": TS.format("@UseGuards(AdminGuard)\n  ", "return this.remove(a);")},
        {"a.ts": TS.format("", "throw new GoneException();")},
        {"a.ts": TS.format("", "return this.remove(a, 410);")},
        "security.access-control-removed",
    ),
    "an action that only throws, C#": (
        {"A.cs": CSHARP.format('[Authorize(Roles = "Admin")]\n  ', "return Remove(a);")},
        {"A.cs": CSHARP.format("", "return StatusCode(410);")},
        {"A.cs": CSHARP.format("", "return Remove(StatusCode(410));")},
        "security.access-control-removed",
    ),
    "a token that a method of the name of a guard makes": (
        {"A.java": JAVA.format("", "h.matchers(P).authenticated();\n    keep(Token.authenticated(u, t));")},
        {"A.java": JAVA.format("", "h.matchers(P).authenticated();\n    keep(session.establish(t));")},
        {"A.java": JAVA.format("", "h.matchers(P);\n    keep(Token.authenticated(u, t));")},
        "security.access-control-removed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_ordinary_change_is_quiet_and_its_twin_is_told(tmp_path: Path, what: str) -> None:
    base, quiet, told, rule = CHANGES[what]
    for side in ("quiet", "told"):
        (tmp_path / side).mkdir()
    assert rule not in found(tmp_path / "quiet", base, quiet)
    assert rule in found(tmp_path / "told", base, told)
