"""What the text of a test may not do if it is to prove a finding."""

from pathlib import Path

import pytest

from diffchecks.test_quality.proof_tests import run

SHOP = "TAX = 2\n\n\ndef total(prices):\n    return sum(prices)\n"
HONEST = {
    "plain": "from shop import total\n\ndef test_a():\n    assert total([2, 3]) == 5\n",
    "raises": "import pytest, shop\n\ndef test_a():\n    with pytest.raises(ValueError):\n        shop.total(None)\n",
    "unittest": "import unittest, shop\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(shop.total([1]), 1)\n",
    "async": "import shop\n\nasync def test_a():\n    assert await shop.go() == 1\n",
    "tmp_path": "import shop\n\ndef test_a(tmp_path):\n    shop.save(tmp_path)\n    assert (tmp_path / 'a').read_text() == 'x'\n",
    "a system function": "import os, shop\n\ndef test_a(monkeypatch):\n    monkeypatch.setattr('shop.os.getuid', lambda: 0)\n    assert shop.total([1]) == 1\n",
    "files of its own, made in a loop": "import os, shop\n\ndef test_a(tmp_path):\n    dirs = [str(tmp_path / 'a'), str(tmp_path / 'b')]\n    for d in dirs:\n        os.mkdir(d)\n        open(os.path.join(d, 'x'), 'w').close()\n    assert shop.count(dirs) == 2\n",
    "autospec": "from unittest.mock import create_autospec\nimport shop\n\ndef test_a():\n    assert shop.use(create_autospec(dict)) == 1\n",
    "seeded": "import random, shop\n\ndef test_a():\n    assert shop.pick(random.Random(3)) == 1\n",
    "an attribute that sounds like one": "import shop\n\ndef test_a():\n    assert shop.session().exec('q').id == 1\n",
    "a documented name of an ORM": "import shop\n\ndef test_a():\n    assert shop.names(shop.Item.__table__) == ['id']\n",
    "SQL's time": "import shop\nfrom sqlalchemy import func\n\ndef test_a():\n    assert str(shop.total([func.now()])) == 'now()'\n",
    "what lies beside a module": "import os, shop\n\ndef test_a():\n    assert shop.load(os.path.join(os.path.dirname(shop.__file__), 'data')) == 1\n",
    "what lies beside it, by pathlib": "import shop\nfrom pathlib import Path\n\ndef test_a():\n    assert shop.load(Path(shop.__file__).parent / 'test-data/unit') == 1\n",
    "code as input": "import ast, shop\n\ndef test_a():\n    assert shop.check(ast.parse('import os\\nprint(now())')) == 1\n",
    "a fake": "import shop\n\nclass Fake:\n    def ping(self, reconnect):\n        return 1\n\ndef test_a():\n    assert shop.ping(Fake()) == 1\n",
}  # fmt: skip
CHEATS = {
    "no test": ("import shop\nassert shop.total([]) == 0\n", "0 tests"),
    "two tests": ("def test_a():\n    assert f() == 1\n\ndef test_b():\n    assert f() == 2\n", "2 tests"),
    "no assertion": ("import shop\n\ndef test_a():\n    shop.total([1])\n", "asserts nothing"),
    "constant": ("import shop\n\ndef test_a():\n    if shop.total([1]) == 1:\n        assert False\n", "constant"),
    "raise": ("import shop\n\ndef test_a():\n    assert 1 == shop.total([1])\n    raise KeyError('x')\n", "raises"),
    "fail": ("import pytest\n\ndef test_a():\n    assert f()\n    pytest.fail('x')\n", "raises"),
    "mock": ("from unittest.mock import Mock\n\ndef test_a():\n    assert f(Mock()) == 1\n", "mock"),
    "magic mock": ("from unittest import mock\n\ndef test_a():\n    assert f(mock.MagicMock()) == 1\n", "mock"),
    "patch": ("from unittest.mock import patch\n\ndef test_a():\n    with patch('os.getuid'):\n        assert f() == 1\n", "mock"),
    "calls": ("def test_a(spy):\n    f(spy)\n    spy.run.assert_called_once_with(1)\n    assert 1 == f()\n", "calls"),
    "call count": ("def test_a(spy):\n    f(spy)\n    assert spy.run.call_count == 1\n", "calls"),
    "source": ("import inspect, shop\n\ndef test_a():\n    assert 'sum' in inspect.getsource(shop.total)\n", "written"),
    "code": ("import shop\n\ndef test_a():\n    assert shop.total.__code__.co_consts == ()\n", "written"),
    "file": ("def test_a():\n    assert 'sum' in open('shop.py').read()\n", "written"),
    "path": ("from pathlib import Path\n\ndef test_a():\n    assert 'sum' in Path('shop.py').read_text()\n", "written"),
    "a file among its own": ("import shop\n\ndef test_a(tmp_path):\n    for each in [tmp_path / 'a', shop.PATH]:\n        assert len(open(each).read()) == 3\n", "written"),
    "others zipped with its own": ("import shop\n\ndef test_a(tmp_path):\n    for a, b in zip([tmp_path], [shop.PATH]):\n        assert len(open(b).read()) == 3\n", "written"),
    "a set with its own": ("import shop\n\ndef test_a(tmp_path):\n    for each in {tmp_path, shop.PATH}:\n        assert len(open(each).read()) == 3\n", "written"),
    "a pair with its own": ("import shop\n\ndef test_a(tmp_path):\n    for a, b in [(tmp_path, shop.PATH)]:\n        assert len(open(b).read()) == 3\n", "written"),
    "its own and more": ("import shop\n\ndef test_a(tmp_path):\n    for each in [tmp_path] + [shop.PATH]:\n        assert len(open(each).read()) == 3\n", "written"),
    "items of its own": ("import shop\n\ndef test_a(tmp_path):\n    for k, v in {tmp_path: shop.PATH}.items():\n        assert len(open(v).read()) == 3\n", "written"),
    "its own or another": ("import shop\n\ndef test_a(tmp_path):\n    p = shop.PATH or tmp_path\n    assert len(open(p).read()) == 3\n", "written"),
    "its own file": ("import shop\n\ndef test_a():\n    assert shop.load(shop.__file__) == 1\n", "written"),
    "its directory": ("import os, shop\n\ndef test_a():\n    assert shop.load(os.path.dirname(shop.__file__)) == 1\n", "written"),
    "its directory, joined": ("import os, shop\n\ndef test_a():\n    assert shop.load(os.path.join(os.path.dirname(shop.__file__), '.')) == 1\n", "written"),
    "a copy of what lies beside it": ("import os, shutil, shop\n\ndef test_a(tmp_path):\n    shutil.copytree(os.path.join(os.path.dirname(shop.__file__), 'data'), tmp_path)\n    assert shop.load(tmp_path) == 1\n", "written"),
    "parsed source": ("import ast, shop\n\ndef test_a():\n    assert ast.dump(ast.parse(open('shop.py').read())) == shop.total([])\n", "written"),
    "hasattr": ("import shop\n\ndef test_a():\n    assert not hasattr(shop, 'new')\n", "written"),
    "getattr": ("import shop\n\ndef test_a():\n    assert getattr(shop, 'new', None) is None\n", "hides"),
    "signature": ("import shop\nfrom inspect import signature\n\ndef test_a():\n    assert len(signature(shop.total).parameters) == 1\n", "written"),
    "replaced function": ("import shop\n\ndef test_a(monkeypatch):\n    monkeypatch.setattr(shop, 'total', lambda p: 3)\n    assert shop.total([]) == 5\n", "replaces"),
    "replaced by name": ("import shop\n\ndef test_a(monkeypatch):\n    monkeypatch.setattr('shop.TAX', 3)\n    assert shop.total([]) == 5\n", "replaces"),
    "patched by name": ("from unittest.mock import patch\n\ndef test_a():\n    with patch('shop.total', lambda p: 1):\n        assert f() == 5\n", "replaces"),
    "assigned": ("import shop as s\n\ndef test_a():\n    s.total = len\n    assert s.total([]) == 5\n", "replaces"),
    "random": ("import random\n\ndef test_a():\n    assert f() == random.random()\n", "chance"),
    "sleep": ("import time\n\ndef test_a():\n    time.sleep(90)\n    assert f() == 1\n", "chance"),
    "now": ("from datetime import datetime\n\ndef test_a():\n    assert f() == datetime.now()\n", "chance"),
    "today": ("from datetime import date as d\n\ndef test_a():\n    assert f() == d.today()\n", "chance"),
    "a framework's time": ("from django.utils.timezone import now\n\ndef test_a():\n    assert f() == now()\n", "chance"),
    "version": ("import sys\n\ndef test_a():\n    assert sys.version_info < (3, 0) or f() == 1\n", "version"),
    "package version": ("import shop\n\ndef test_a():\n    assert shop.__version__ == '1'\n", "version"),
    "environment": ("import os\n\ndef test_a():\n    assert os.environ['CI'] == f()\n", "machine"),
    "skip": ("import pytest\n\n@pytest.mark.skipif(True, reason='x')\ndef test_a():\n    assert f() == 1\n", "skip"),
    "xfail": ("import pytest\n\n@pytest.mark.xfail\ndef test_a():\n    assert f() == 1\n", "skip"),
    "exit": ("import os\n\ndef test_a():\n    assert f() == 1\n    os._exit(0)\n", "skip"),
    "catch all": ("def test_a():\n    try:\n        assert f() == 1\n    except Exception:\n        pass\n", "any exception"),
    "exec": ("def test_a():\n    exec('x')\n    assert f() == 1\n", "written"),
    "subtest of many": ("import pytest\n\n@pytest.mark.parametrize('a', [1])\ndef test_a(a):\n    assert f() == 1\n", "cases"),
    "broken": ("def test_a(:\n", "parse"),
    "large": ("x = 1\n" * 3000, "KiB"),
}  # fmt: skip


def problems(folder: Path, text: str, language: str = "python", **more: object) -> list[str]:
    (folder / "shop.py").write_text(SHOP)
    job = {"text": text, "language": language, "paths": ["shop.py"], "roots": [str(folder)]}
    return run({**job, **more})


def test_honest_tests_are_accepted(tmp_path: Path) -> None:
    found = {name: problems(tmp_path, text) for name, text in HONEST.items()}
    assert {name: why for name, why in found.items() if why} == {}


@pytest.mark.attack("a test that cannot prove what it claims")
def test_each_cheat_is_refused_for_its_reason(tmp_path: Path) -> None:
    found = {name: problems(tmp_path, text) for name, (text, _) in CHEATS.items()}
    wrong = {name: why for name, why in found.items() if CHEATS[name][1] not in "; ".join(why)}
    assert wrong == {}


def test_a_refusal_names_the_construct_and_its_line(tmp_path: Path) -> None:
    looks = "looks at how the code is written, not at what it does"
    assert problems(tmp_path, CHEATS["path"][0]) == [
        f"{looks} (Path('shop.py').read_text(), line 4)"
    ]
    assert problems(tmp_path, CHEATS["signature"][0]) == [f"{looks} (inspect.signature, line 2)"]
    alias = "from inspect import getsource as g\nimport shop\n\ndef test_a():\n    assert 'a' in g(shop)\n"
    assert problems(tmp_path, alias)[0].endswith("(inspect.getsource, line 1)")
    (replaced,) = problems(tmp_path, CHEATS["assigned"][0])
    assert replaced == "replaces what the change defines (s.total, line 4)"


def test_two_ways_that_have_to_agree_are_both_computed(tmp_path: Path) -> None:
    same = "import shop\n\ndef test_a():\n    assert shop.cached(1) == shop.plain(1)\n"
    assert problems(tmp_path, same, same=True) == []
    written_out = same.replace("shop.plain(1)", "[1, -2]")
    assert problems(tmp_path, written_out, same=True) == [
        "compares no two values that are both computed"
    ]


SCRIPTS = {
    "it('a', () => { expect(total([1])).toBe(1) })": "",
    "test('a', async () => { assert.equal(await total(), 1) })": "",
    "it('a', () => { expect(f).toHaveBeenCalledWith(1) })": "calls",
    "it('a', () => { const f = vi.fn(); expect(g(f)).toBe(1) })": "mock",
    "vi.mock('../src/shop'); it('a', () => { expect(g()).toBe(1) })": "replaces",
    "it('a', () => { expect(readFileSync('a.ts')).toContain('x') })": "written",
    "it('a', () => { expect(g()).toBe(Math.random()) })": "chance",
    "it.skip('a', () => { expect(g()).toBe(1) })": "skip",
    "it('a', () => { throw new Error('x'); expect(1) })": "raises",
    "it('a', () => { g() })": "asserts nothing",
    "it('a', () => { expect(g()).toMatchSnapshot() })": "written",
    "it('a', () => { expect(process.env.CI).toBe('1') })": "machine",
    "it('a', () => { /* setTimeout( */ expect(g()).toBe(1) })": "",
}
GO = {
    'func TestClaim(t *testing.T) {\n\tif Total() != 1 {\n\t\tt.Errorf("got %d", Total())\n\t}\n}': "",
    "func TestClaim(t *testing.T) {\n\tt.Skip()\n\tt.Error(1)\n}": "skip",
    "func TestClaim(t *testing.T) {\n\tpanic(1)\n\tt.Error(1)\n}": "raises",
    'func TestClaim(t *testing.T) {\n\tb, _ := os.ReadFile("a.go")\n\tt.Error(b)\n}': "written",
    "func TestClaim(t *testing.T) {\n\tif rand.Int() > 1 {\n\t\tt.Error(1)\n\t}\n}": "chance",
    "func TestClaim(t *testing.T) {\n\tif !Due(early).After(late) {\n\t\tt.Error(1)\n\t}\n}": "",
    "func TestClaim(t *testing.T) {\n\tTotal()\n}": "asserts nothing",
}


@pytest.mark.parametrize(("language", "tests"), [("javascript", SCRIPTS), ("go", GO)])
def test_other_languages_have_the_same_rules(
    tmp_path: Path, language: str, tests: dict[str, str]
) -> None:
    found = {text: problems(tmp_path, text, language) for text in tests}
    wrong = {
        text: why
        for text, why in found.items()
        if (tests[text] not in "; ".join(why) if tests[text] else why)
    }
    assert wrong == {}


@pytest.mark.attack("a test that is nested too deeply to read")
@pytest.mark.parametrize("language", ["python", "javascript", "go"])
def test_a_test_that_is_nested_deeply_is_refused(tmp_path: Path, language: str) -> None:
    (why,) = problems(tmp_path, f"{'(' * 4000}1{')' * 4000}", language)
    assert why.startswith("does not parse: ")


def test_a_test_framework_is_tested_with_its_own_parts(tmp_path: Path) -> None:
    (tmp_path / "src/_pytest").mkdir(parents=True)
    (tmp_path / "src/_pytest/python.py").write_text("")
    text = (
        "from _pytest.python import Module\n\ndef test_a(pytester):\n    pytester.makepyfile('')\n"
    )
    text += "    pytester.runpytest().assert_outcomes(passed=3)\n    assert Module.size() == 3\n"
    for path, is_refused in (
        ("src/_pytest/python.py", False), ("src/_pytest/added.py", True), ("src/shop.py", True),
    ):  # fmt: skip
        job = {"text": text, "language": "python", "paths": [path], "roots": [str(tmp_path)]}
        assert bool(run(job)) == is_refused, path
    hint = "from _pytest.monkeypatch import MonkeyPatch\nimport shop\n\ndef test_a(monkeypatch: MonkeyPatch):\n"
    assert run({"text": hint + "    assert shop.total() == 5\n", "language": "python"}) == []


def test_a_refusal_quotes_what_matched() -> None:
    text = "def test_a():\n    assert  shop.session.call_count == 1\n"
    assert run({"text": text, "language": "python"}) == [
        "asserts on calls instead of effects (.call_count, line 2)"
    ]
