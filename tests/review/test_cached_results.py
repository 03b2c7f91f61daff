"""A review with a result cache gives the same verdict as one without, and analyzes nothing twice."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diffchecks import DATA, PREFIX, TABLES
from diffchecks.check_io import RawFinding
from diffchecks.declarations import CHECKS
from orchestrator.app.run_review import run_review
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.analyzer_types import AnalyzerReport, Side, SideAnalyzer
from orchestrator.code_review.analyzers import result_cache
from orchestrator.code_review.analyzers.own_checks import SideCheck
from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.code_review.analyzers.result_cache import cacheable_entries, run_cached
from orchestrator.code_review.policy_loading import load_rules
from orchestrator.code_review.tools.registry import ANALYZERS, make_side_analyzers
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.sandbox.worker_pool import WorkerPool
from tests.diffchecks.programs.program_tools import Ruff
from tests.review.review_kit import MemoryCache, Repo, change, options

BASE = {
    "app.py": "import os\n\n\ndef run(name):\n    return eval(name)\n",
    "run.sh": "#!/bin/sh\ncd $1\n",
    "web/a.js": "export const f = (x) => eval(x);\n",
    "data.json": "{}\n",
}
HEAD = {
    "app.py": BASE["app.py"] + "\n\ndef more(x):\n    exec(x)\n",
    "run.sh": BASE["run.sh"] + "rm -rf $2/*\n",
    "web/a.js": BASE["web/a.js"] + "export const g = (x) => { document.write(x); };\n",
    "data.json": "{\n",
    "bad.py": "def (\n",
    "deploy.py": 'TOKEN = "ghp_' + 'a8Kd03mZq7Lw2Xc9Vb5Nh1Tj6Rf4Ys0PeUiG"\n',
}


def reviewed(repo: Repo, **said: object) -> Verdict:
    return run_review(options(repo.path, **said), ignore_event)


def test_the_verdict_is_the_same_with_and_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    repo = change(tmp_path / "repo", BASE, HEAD)
    without = reviewed(repo, no_cache=True)
    assert not cache.exists()
    cold, warm = reviewed(repo), reviewed(repo)
    assert cold.digest == warm.digest == without.digest
    assert len(without.findings) > 3
    assert any(skip.path == "bad.py" for skip in warm.skipped)
    assert b"a8Kd03mZ" not in b"".join(file.read_bytes() for file in cache.rglob("*.db*"))
    # The next state of the change, over a cache that somebody has spoiled.
    repo.commit({"app.py": HEAD["app.py"] + "\n\nimport pickle\npickle.loads(input())\n"})
    (cache / "diffcourt/results.db").write_bytes(b"\0" * 9000)
    assert reviewed(repo).digest == reviewed(repo, no_cache=True).digest


@pytest.fixture
def side(tmp_path: Path) -> Side:
    for name, text in HEAD.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return Side("head", tmp_path)


async def asked(
    pool: WorkerPool, memory: MemoryCache, side: Side, paths: list[str]
) -> AnalyzerReport:
    (declared,) = (check for check in CHECKS if check.name == "parse_check")
    check = SideCheck(declared, pool, workspace=None)  # type: ignore[arg-type]
    return await run_cached(check, memory, side, paths)


async def test_cached_files_are_not_analyzed_again(side: Side) -> None:
    memory, closed = MemoryCache(), WorkerPool(1, prefix=PREFIX)
    paths = ["app.py", "bad.py", "data.json"]
    async with WorkerPool(1, prefix=PREFIX, reads=[side.root]) as pool:
        first = await asked(pool, memory, side, paths)
    assert {raw.path for raw in first.findings} == {"bad.py", "data.json"}
    assert await asked(closed, memory, side, paths) == first
    # Another name, or another content, is another question: to nobody, so it is a gap.
    (side.root / "other.py").write_text(HEAD["app.py"])
    (side.root / "data.json").write_text("{}")
    again = await asked(closed, memory, side, ["other.py", *paths])
    assert set(again.gaps) == {"other.py", "data.json"}
    assert again.examined == {"app.py", "bad.py"}
    # A gap is not kept.
    assert set((await asked(closed, memory, side, ["data.json"])).gaps) == {"data.json"}


MALFORMED: list[str | dict[str, object]] = [
    "[]",
    '{"version": "1", "examined": true}',
    '{"version": "1", "examined": true, "findings": [{"path": "app.py"}]}',
    "\xff",
    "nothing",
    {"path": "bad.py"},
    {"line": "1"},
    {"line": 0},
    {"message": None},
    {"confidence": "high"},
]


async def test_a_malformed_entry_is_ignored(side: Side) -> None:
    memory = MemoryCache()
    async with WorkerPool(1, prefix=PREFIX, reads=[side.root]) as pool:
        first = await asked(pool, memory, side, ["data.json"])
        ((key, right),) = memory.entries.items()
        for planted in MALFORMED:
            if isinstance(planted, dict):
                entry = json.loads(right)
                entry["findings"][0] |= planted
                memory.entries[key] = json.dumps(entry).encode()
            else:
                memory.entries[key] = planted.encode("latin-1")
            assert await asked(pool, memory, side, ["data.json"]) == first, planted
            assert memory.entries == {key: right}


def test_a_whole_tree_is_traced_again_only_where_a_file_that_was_read_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    traced = list[str]()
    run = SideCheck.run

    async def noted(self: SideCheck, side: Side, paths: Sequence[str]) -> AnalyzerReport:
        if self.name == "taint":
            traced.append(side.name)
        return await run(self, side, paths)

    monkeypatch.setattr(SideCheck, "run", noted)
    view = "import os\nfrom flask import request\nfrom lib import clean\n\n\ndef view():\n"
    view += "    os.system(clean(request.args['x']))\n"
    base = {"lib.py": "import shlex\n\n\ndef clean(x):\n    return shlex.quote(x)\n", "view.py": ""}
    repo = change(tmp_path / "repo", base, {"view.py": view, "notes.md": "# Notes\n"})

    def found(rule: str = "security.command-injection") -> tuple[bool, list[str]]:
        traced.clear()
        verdict = reviewed(repo)
        sides = list(traced)
        assert verdict.digest == reviewed(repo, no_cache=True).digest
        return any(finding.rule == rule for finding in verdict.findings), sides

    assert found() == (False, ["head"])
    assert found() == (False, [])
    repo.commit({"notes.md": "# Some notes\n"})
    assert found() == (False, [])
    repo.commit({"lib.py": "def clean(x):\n    return x\n"})
    assert found() == (True, ["head", "base"])
    assert found() == (True, [])


def test_others_code_is_searched_for_severe_patterns_alone_under_a_key_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, asked = "vendor/lib/a.js", list[tuple[int, list[str]]]()
    text = (
        "app.get('/x', (req, res) => { require('child_process').exec('ls ' + req.query.at); });\n"
    )
    text += "https.get(url, { rejectUnauthorized: false });\n"
    call = WorkerPool.call

    async def noted(self: WorkerPool, function: str, job: dict[str, Any], **given: Any) -> Any:
        if function.endswith("patterns:run_for_all"):
            asked.append((sum(map(len, job["codes"])), job["paths"]))
        return await call(self, function, job, **given)

    monkeypatch.setattr(WorkerPool, "call", noted)

    def rules(base: Mapping[str, str], name: str) -> set[str]:
        repo = change(tmp_path / name, base, {path: text, "app.js": "go();\n"})
        verdict, uncached = reviewed(repo), reviewed(repo, no_cache=True)
        assert verdict.digest == uncached.digest
        return {finding.rule for finding in verdict.findings if finding.path == path}

    severe = rules({path: "// a\n", "app.js": "\n"}, "vendored")
    few = {number for number, paths in asked if path in paths}
    own = rules({"app.js": "\n"}, "new")
    assert max(few) < max(number for number, paths in asked if path in paths) / 2
    assert set[str]() < severe < own


def test_the_cache_key_contains_everything_that_the_result_depends_on(tmp_path: Path) -> None:
    other = tmp_path / "ruff"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    made = [
        Ruff({"S602"}),
        Ruff({"S602", "S603"}),
        Ruff({"S602"}, Program("ruff", "ruff", search=str(tmp_path))),
    ]
    assert len({ruff.identity for ruff in made}) == 3
    assert Ruff({"S602"}).identity == made[0].identity
    assert Ruff({"S602"}, Program("none", "none")).identity is None


def test_a_changed_table_of_the_checks_is_another_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = shutil.copytree(TABLES, tmp_path / "tables")
    flows = shutil.copytree(DATA / "flows", tmp_path / "data/flows")
    monkeypatch.setattr(result_cache, "TABLES", tables)
    monkeypatch.setattr(result_cache, "DATA", tmp_path / "data")
    build_digest = result_cache.build_digest.__wrapped__
    digests = [build_digest()]
    for path in (tables / "vocabulary.yaml", tables / "secrets/contexts.txt", flows / "go.yaml"):
        path.write_bytes(path.read_bytes() + b"\n")
        digests.append(build_digest())
    assert len(set(digests)) == 4


def test_which_analyzers_are_cached() -> None:
    rules = load_rules([read_shipped_layer()])

    nothing: Any = None
    workspace: Any = SimpleNamespace(rules=rules)
    data = dict.fromkeys(("taint", "patterns", "infrastructure"), ())
    inputs = ToolInputs(workspace, nothing, nothing, nothing, (), data, cache=MemoryCache())
    made: dict[str, SideAnalyzer] = {
        name: make_side_analyzers(one, inputs)[0]
        for name, one in ANALYZERS.items()
        if not one.compares and name != "configured_analyzers"
    }
    by_file = {name: one.identity for name, one in made.items() if not one.needs_tree}
    assert made.keys() - by_file.keys() == {
        "flows",
        "taint",
        "links",
    }  # they read other files as well
    assert None not in by_file.values()
    assert len(set(by_file.values())) == len(by_file)


def test_a_secret_is_not_cached() -> None:
    raw = RawFinding("token", "a.py", 1, "a token", redact=("abc",))
    report = AnalyzerReport("secrets", "1", (raw,), frozenset({"a.py", "b.py"}))
    assert set(cacheable_entries(report, ["a.py", "b.py"])) == {"b.py"}


def test_a_cache_is_ready_for_threads_once_its_module_is_imported() -> None:
    """msgspec describes a class at its first conversion; two threads doing so crash the process."""
    code = """
import msgspec._utils
from orchestrator.code_review.analyzers import result_cache

def describe(*given):
    raise AssertionError("a class is described after the import")

msgspec._utils._eval_type = describe
entry = result_cache._Result("1", ("a.py",), ()).to_bytes()
print(result_cache._read_entry(entry, "a.py") is not None)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


SHOP = {
    "shop/__init__.py": "",
    "shop/requests.py": """from shlex import quote

from flask import request


def get_host():
    return quote(request.headers["Host"])
""",
    "shop/shell.py": "import os\n\n\ndef run(command):\n    return os.system(command)\n",
    "shop/views.py": """from flask import Flask

from shop.requests import get_host
from shop.shell import run

app = Flask(__name__)


@app.route("/ping")
def ping():
    return str(run("ping " + get_host()))
""",
    "shop/text.py": "def shorten(text):\n    return text[:20]\n",
}
NO_QUOTE = SHOP["shop/requests.py"].replace(
    'quote(request.headers["Host"])', 'request.headers["Host"]'
)
RENAMED = {path: SHOP[path].replace("run", "start") for path in ("shop/shell.py", "shop/views.py")}
PUSHES: Sequence[tuple[Mapping[str, str | None], str]] = (
    ({"shop/text.py": SHOP["shop/text.py"].replace("20", "30")}, ""),
    ({"shop/requests.py": NO_QUOTE}, "security.command-injection"),  # in what others use
    (RENAMED, "security.command-injection"),
    ({"shop/text.py": None, "shop/shell.py": None}, "architecture.broken-import"),
)
"""What is pushed, and a rule of which there is a finding then."""


def test_each_push_gets_the_verdict_of_a_review_that_remembers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repo = Repo(tmp_path / "repo")
    repo.commit(SHOP)
    repo.git("tag", "release")
    for push, rule in PUSHES:
        repo.commit(push)
        cold = reviewed(repo, base="release", no_cache=True)
        warm = reviewed(repo, base="release")
        assert (warm.findings, warm.digest) == (cold.findings, cold.digest)
        assert rule in {finding.rule for finding in warm.findings} or not rule
