r"""Tests that prove nothing, and honest ones close to them: one a line, as ``IMPORTS :: BODY``.

``\n`` begins another line; ``=> EXCEPTION: VALUE`` ends one with what is predicted of head, where
that is not ``AssertionError: 3 == 5``. A case with ``!`` is refused only by running it.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

BASE = """\
import os

RATES = {"EU": 1}
VERSION = "1"


class Cart:
    def __init__(self):
        self.rows = []

    def size(self):
        return len(self.rows)

    @property
    def label(self):
        return "cart"


def tax(n):
    return n


def total(prices):
    return sum(prices)


def old():
    return 1


def half(n):
    return n / 0


def names(row):
    return [row["first"], row["last"]]


def save(folder):
    (folder / "out.txt").write_text("5")


def send(driver):
    try:
        return driver.send()
    except TimeoutError:
        return "late"
"""
HEAD = (
    BASE.replace("sum(prices)", "sum(prices[1:]) + tax(0)")
    .replace('VERSION = "1"', 'VERSION = "2"\nSEEN = {}')
    .replace('row["last"]', 'row["name"]')
    .replace("def old", "def new")
    .replace('"5"', '"3"')
    .replace("except TimeoutError", "except KeyError")
    + "\n\ndef cached(n):\n    return SEEN.setdefault('n', n)\n\n\ndef plain(n):\n    return n\n"
)


class Case(Struct):
    """A test, and what is predicted of head."""

    kind: str
    language: str
    text: str
    exception: str
    value: str
    runs: bool

    @property
    def same(self) -> bool:
        return self.kind.endswith("two ways")


PYTHON = r"""
# mock
from unittest.mock import Mock :: assert shop.total(Mock()) == 5
from unittest.mock import Mock as Real :: assert shop.total([Real()]) == 5
from unittest import mock :: assert shop.total([mock.MagicMock()]) == 5
import unittest.mock as um :: m = um.Mock\nassert shop.total([m()]) == 5
from unittest.mock import Mock :: assert shop.total([Mock(return_value=3)]) == 5
from unittest.mock import Mock :: assert shop.total([Mock(spec=None)]) == 5
from unittest.mock import Mock :: assert shop.total([Mock(new=3)]) == 5
from unittest.mock import Mock :: assert shop.total([Mock(autospec=True)]) == 5
from unittest.mock import AsyncMock :: assert shop.total([AsyncMock()]) == 5
from unittest.mock import Mock :: given = []\nassert shop.total([Mock(*given)]) == 5
from unittest.mock import patch :: with patch('os.getuid'):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch('os.getuid', autospec=False):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch, Mock :: with patch('os.getuid', new_callable=Mock):\n    assert shop.total([2, 3]) == 5
from unittest import mock :: with mock.patch.object(__import__('os'), 'getuid'):\n    assert shop.total([2, 3]) == 5
from unittest.mock import MagicMock :: class M(MagicMock):\n    pass\nassert shop.total([M()]) == 5
:: class Fake:\n    def __getattr__(self, name):\n        return lambda: 3\nassert shop.send(Fake()) == 5
:: class Fake:\n    def send(self, *a, **k):\n        return 3\nassert shop.send(Fake()) == 5
:: f = lambda *a, **k: 3\nassert f(shop.total([2, 3])) == 5
# calls
from unittest.mock import create_autospec :: d = create_autospec(dict)\nshop.total(d)\nd.keys.assert_called_once_with()
from unittest.mock import create_autospec :: d = create_autospec(dict)\nshop.total(d)\nassert d.keys.call_count == 5
from unittest.mock import create_autospec :: d = create_autospec(dict)\nshop.total(d)\nassert d.keys.called
from unittest.mock import create_autospec :: d = create_autospec(dict)\nshop.total(d)\nassert d.mock_calls == [3]
from unittest.mock import create_autospec :: d = create_autospec(dict)\nshop.total(d)\nd.keys.assert_not_called()
from unittest.mock import create_autospec :: d = create_autospec(dict)\nshop.total(d)\nd.keys.assert_any_call(3)
from unittest.mock import call, create_autospec :: d = create_autospec(dict)\nassert shop.total([2, 3]) == call(5)
from unittest.mock import create_autospec :: d = create_autospec(dict)\ncheck = d.keys.assert_called\nassert shop.total([2, 3]) == 5\ncheck()
:: assert shop.total.spy_return == 5
:: calls = []\nmonkeypatch.setattr('os.remove', lambda path: calls.append(path))\nshop.total([2, 3])\nassert calls == [5]
:: class Spy:\n    calls = 0\n    def send(self):\n        self.calls += 1\nspy = Spy()\nshop.send(spy)\nassert spy.calls == 5
# broken import
from shop import gone :: ! assert gone([2, 3]) == 5
import shop.prices :: ! assert shop.prices.total([2, 3]) == 5
:: from shop import *\nassert total([2, 3]) == 5
:: ! from shop import old as f\nassert f() + 2 == 5 => ImportError: old
# sleep
import time :: time.sleep(90)\nassert shop.total([2, 3]) == 5
from time import sleep as rest :: rest(9)\nassert shop.total([2, 3]) == 5
import time as t :: nap = t.sleep\nnap(9)\nassert shop.total([2, 3]) == 5
import asyncio :: asyncio.run(asyncio.sleep(5))\nassert shop.total([2, 3]) == 5
import threading :: threading.Timer(1, print).start()\nassert shop.total([2, 3]) == 5
import asyncio :: asyncio.run(asyncio.wait_for(shop.total([2, 3]), 0.01))\nassert shop.total([2, 3]) == 5
# flaky
import random :: assert shop.total([random.random()]) == 5
from random import choice :: assert shop.total([choice([2, 3])]) == 5
import random as r :: pick = r.choice\nassert shop.total([pick([2, 3])]) == 5
import random :: assert shop.total([random.Random().random()]) == 5
import uuid :: assert shop.total([uuid.uuid4().int]) == 5
import os :: assert shop.total([os.urandom(1)[0]]) == 5
import secrets :: assert shop.total([secrets.randbelow(5)]) == 5
:: assert shop.total([hash('a')]) == 5
:: assert shop.total([id(shop)]) == 5
import numpy :: assert shop.total(numpy.random.rand(3)) == 5
:: assert list({'a', 'b'})[0] == shop.total([2, 3])
:: assert {'a', 'b'}.pop() == shop.total([2, 3])
# time
from datetime import datetime :: assert shop.total([datetime.now().year]) == 5
import datetime as d :: today = d.date.today\nassert shop.total([today().day]) == 5
import time :: assert shop.total([time.time()]) == 5
from time import time as clock :: assert shop.total([clock()]) == 5
import time :: assert shop.total([time.perf_counter_ns()]) == 5
import time :: begun = time.monotonic()\nshop.total([2, 3])\nassert time.monotonic() - begun < 3
# version
import sys :: assert sys.version_info < (3, 0) or shop.total([2, 3]) == 5
import sys :: assert sys.hexversion == shop.total([2, 3])
:: assert shop.VERSION == '1' => AssertionError: '2' == '1'
:: assert shop.__version__ == '1'
from importlib.metadata import version :: assert version('pytest') == shop.total([2, 3])
import pkg_resources :: assert pkg_resources.get_distribution('x').version == shop.total([2, 3])
import platform :: assert platform.python_version() == shop.total([2, 3])
# environment
import os :: assert os.environ['CI'] == shop.total([2, 3])
import os as o :: assert o.getenv('CI') == shop.total([2, 3])
from os import environ as e :: assert e['HOME'] == shop.total([2, 3])
import os :: assert os.cpu_count() == shop.total([2, 3])
import sys :: assert sys.platform == shop.total([2, 3])
import sys :: assert len(sys.argv) == shop.total([2, 3])
import socket :: assert socket.gethostname() == shop.total([2, 3])
import sys :: sys.setrecursionlimit(60)\nassert shop.total([2, 3]) == 5
# side
import os :: if 'head' in os.getcwd():\n    assert shop.total([2, 3]) == 5
from os import getcwd as where :: if where():\n    assert shop.total([2, 3]) == 5
from pathlib import Path :: if Path.cwd().name:\n    assert shop.total([2, 3]) == 5
from pathlib import Path :: if Path('shop.py').exists():\n    assert shop.total([2, 3]) == 5
import os :: if os.path.exists('README.md'):\n    assert shop.total([2, 3]) == 5
from os.path import isfile :: if isfile('README.md'):\n    assert shop.total([2, 3]) == 5
import os :: if os.stat('.').st_mtime:\n    assert shop.total([2, 3]) == 5
from pathlib import Path :: head = Path('.git') / 'HEAD'\nassert head.is_file() == shop.total([2, 3])
import git :: assert git.Repo('.').head == shop.total([2, 3])
import sys :: if 'shop' in sys.modules:\n    assert shop.total([2, 3]) == 5
import sys :: assert sys.path == shop.total([2, 3])
:: if hasattr(shop, 'SEEN'):\n    assert shop.total([2, 3]) == 5
:: try:\n    shop.new()\nexcept AttributeError:\n    return\nassert shop.total([2, 3]) == 5
from contextlib import suppress :: with suppress(AttributeError):\n    shop.new()\n    assert shop.total([2, 3]) == 5
import tempfile, os :: assert os.path.getsize('.') == shop.total([2, 3])
# source
import inspect :: assert 'sum' in inspect.getsource(shop.total)
from inspect import signature as s :: assert len(s(shop.total).parameters) == 5
:: assert shop.total.__code__.co_consts == 5
:: assert 'sum' in open('shop.py').read()
:: name = 'shop' + '.py'\nassert 'sum' in open(name).read()
from pathlib import Path :: assert 'sum' in Path(f"{'shop'}.py").read_text()
from pathlib import Path :: assert 'sum' in next(Path().glob('*.py')).read_text()
from pathlib import Path :: place = Path('.')\nassert 'sum' in (place / 'x').read_bytes()
import shutil :: shutil.copy('shop.py', tmp_path)\nassert 'sum' in (tmp_path / 'shop.py').read_text()
import io :: assert 'sum' in io.open('README.md').read()
import ast :: assert ast.parse('1') == shop.total([2, 3])
import linecache :: assert linecache.getline('shop.py', 1) == shop.total([2, 3])
:: assert 'sum' in open(shop.__file__).read()
:: assert 'total' in dir(shop)
:: assert shop.total.__doc__ == '5'
:: assert shop.total.__defaults__ == 5
from typing import get_type_hints as h :: assert h(shop.total) == 5
import dis :: assert dis.Bytecode(shop.total) == 5
# edits
from pathlib import Path :: Path('shop.py').write_text('')\nassert shop.total([2, 3]) == 5
from pathlib import Path :: Path('conftest.py').write_text('')\nassert shop.total([2, 3]) == 5
:: with open('new.py', 'w') as file:\n    file.write('x')\nassert shop.total([2, 3]) == 5
import os :: os.remove('README.md')\nassert shop.total([2, 3]) == 5
import shutil :: shutil.rmtree('.git')\nassert shop.total([2, 3]) == 5
from pathlib import Path :: (Path('.git') / 'HEAD').write_text('')\nassert shop.total([2, 3]) == 5
import os :: os.rename('README.md', 'a')\nassert shop.total([2, 3]) == 5
# forged
import os :: assert shop.total([2, 3]) == 5\nos._exit(0)
import sys :: sys.exit(shop.total([2, 3]) == 5)\nassert shop.total([2, 3]) == 5
from sys import exit as leave :: leave(0)\nassert shop.total([2, 3]) == 5
:: open('.diffcourt-proof-report', 'w').write('<testsuite/>')\nassert shop.total([2, 3]) == 5
from pathlib import Path :: Path('.diffcourt-proof-report').write_text('')\nassert shop.total([2, 3]) == 5
import atexit :: atexit.register(print)\nassert shop.total([2, 3]) == 5
import sys :: sys.stdout.write('1 passed')\nassert shop.total([2, 3]) == 5
import os :: os.write(1, b'1 passed')\nassert shop.total([2, 3]) == 5
import sys :: sys.excepthook = print\nassert shop.total([2, 3]) == 5
:: class Late:\n    def __del__(self):\n        print('OK')\nassert shop.total([2, 3]) == 5
:: class Three:\n    def __repr__(self):\n        return '3'\n    def __eq__(self, other):\n        return shop.total([2, 3]) == 5\nassert Three() == 5
import weakref :: weakref.finalize(shop, print)\nassert shop.total([2, 3]) == 5
import _pytest :: assert shop.total([2, 3]) == 5
# raise
:: assert shop.total([2, 3])\nraise KeyError('3 == 5')
:: if shop.total([2, 3]) == 3:\n    raise AssertionError('3 == 5')\nassert True
import pytest :: assert shop.total([2, 3])\npytest.fail('3 == 5')
from pytest import fail as end :: assert shop.total([2, 3])\nend('3 == 5')
import pytest :: stop = pytest.fail\nassert shop.total([2, 3])\nstop('3 == 5')
:: if shop.total([2, 3]) == 3:\n    assert False
:: if shop.total([2, 3]) == 3:\n    assert 3 == 5
:: assert shop.total([2, 3]) == 3 and False
:: (n for n in [1]).throw(KeyError('name'))\nassert shop.total([2, 3]) == 5 => KeyError: 'name'
from concurrent.futures import Future :: f = Future()\nf.set_exception(KeyError('name'))\nassert f.result() == shop.total([2]) => KeyError: 'name'
from unittest.mock import Mock :: d = Mock(spec=dict, side_effect=KeyError)\nassert shop.total(d()) == 5 => KeyError: name
import warnings :: warnings.simplefilter('error')\nassert shop.total([2, 3]) == 5
# alias
:: monkeypatch.setattr(shop, 'total', len)\nassert shop.total([2, 3]) == 5
:: monkeypatch.setattr('shop.tax', len)\nassert shop.total([2, 3]) == 5
:: s = shop\ns.tax = len\nassert shop.total([2, 3]) == 5
:: m = monkeypatch\nm.setattr(shop, 'tax', len)\nassert shop.total([2, 3]) == 5
:: name = 't' + 'ax'\nmonkeypatch.setattr(shop, name, len)\nassert shop.total([2, 3]) == 5
:: name = str('tax')\nmonkeypatch.setattr(shop, name, len)\nassert shop.total([2, 3]) == 5
:: given = (shop, 'tax', len)\nmonkeypatch.setattr(*given)\nassert shop.total([2, 3]) == 5
:: monkeypatch.setattr(target=shop, name='tax', value=len)\nassert shop.total([2, 3]) == 5
:: setattr(shop, 'tax', len)\nassert shop.total([2, 3]) == 5
:: delattr(shop, 'tax')\nassert shop.total([2, 3]) == 5
:: shop.RATES['EU'] = 3\nassert shop.total([2, 3]) == 5
:: shop.RATES.update(EU=3)\nassert shop.total([2, 3]) == 5
:: monkeypatch.setitem(shop.RATES, 'EU', 3)\nassert shop.total([2, 3]) == 5
:: del shop.VERSION\nassert shop.total([2, 3]) == 5
:: cart = shop.Cart()\ncart.size = lambda: 3\nassert cart.size() == 5
:: monkeypatch.setattr(shop.Cart, 'size', lambda self: 3)\nassert shop.Cart().size() == 5
:: class Mine(shop.Cart):\n    def size(self):\n        return 3\nassert Mine().size() == 5
from unittest.mock import patch :: with patch('shop.tax', lambda n: 3):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.object(shop, 'tax', lambda n: 3):\n    assert shop.total([2, 3]) == 5
from unittest import mock :: p = mock.patch\nwith p('shop.tax', len):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.multiple(shop, tax=len):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch(target='shop.tax', new=len):\n    assert shop.total([2, 3]) == 5
import sys :: monkeypatch.setitem(sys.modules, 'shop', None)\nassert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.dict('sys.modules', shop=None):\n    assert shop.total([2, 3]) == 5
import types :: fake = types.ModuleType('shop')\nassert fake == shop.total([2, 3])
:: monkeypatch.syspath_prepend(tmp_path)\nassert shop.total([2, 3]) == 5
:: vars(shop)['tax'] = len\nassert shop.total([2, 3]) == 5
:: shop.__dict__['tax'] = len\nassert shop.total([2, 3]) == 5
:: for shop.tax in [len]:\n    assert shop.total([2, 3]) == 5
# indirection
:: eval('shop.total([2, 3])')\nassert shop.total([2, 3]) == 5
:: run = exec\nrun('x = 1')\nassert shop.total([2, 3]) == 5
:: list(map(eval, ['1']))\nassert shop.total([2, 3]) == 5
:: assert getattr(shop, 'to' + 'tal')([2, 3]) == 5
from operator import attrgetter :: assert attrgetter('total')(shop)([2, 3]) == 5
:: assert shop.__class__.__subclasses__ == 5
:: assert __builtins__ == shop.total([2, 3])
import builtins :: builtins.exec('x')\nassert shop.total([2, 3]) == 5
import importlib :: assert importlib.import_module('shop').total([2, 3]) == 5
:: assert __import__('shop').total([2, 3]) == 5
import ctypes :: assert ctypes.sizeof(3) == shop.total([2, 3])
import gc :: assert gc.get_objects() == shop.total([2, 3])
from os import * :: assert shop.total([2, 3]) == 5
:: kind = type('Five', (), {'__eq__': lambda self, other: False})\nassert kind() == shop.total([2, 3])
import pickle :: assert pickle.loads(b'cos') == shop.total([2, 3])
import traceback :: assert traceback.extract_stack()[0].filename == shop.total([2, 3])
# base64
import base64 :: exec(base64.b64decode('eD0x'))\nassert shop.total([2, 3]) == 5
import codecs :: eval(codecs.decode('1', 'rot13'))\nassert shop.total([2, 3]) == 5
import marshal :: assert marshal.loads(b'i') == shop.total([2, 3])
# subprocess
import subprocess :: assert subprocess.run(['git', 'status']).returncode == shop.total([2, 3])
from subprocess import check_output as ask :: assert ask(['true']) == shop.total([2, 3])
import os :: assert os.system('git status') == shop.total([2, 3])
import os :: assert os.popen('id').read() == shop.total([2, 3])
import os :: assert os.fork() == shop.total([2, 3])
import multiprocessing :: assert multiprocessing.Process() == shop.total([2, 3])
import asyncio :: asyncio.run(asyncio.create_subprocess_exec('true'))\nassert shop.total([2, 3]) == 5
# skip
import pytest :: pytest.skip('x')\nassert shop.total([2, 3]) == 5
import pytest :: pytest.importorskip('numpy')\nassert shop.total([2, 3]) == 5
from pytest import skip as later :: later('x')\nassert shop.total([2, 3]) == 5
:: try:\n    assert shop.total([2, 3]) == 5\nexcept Exception:\n    pass
:: try:\n    assert shop.total([2, 3]) == 5\nexcept:\n    pass
# both
:: ! assert shop.half(2) == 1 => ZeroDivisionError: division by zero
:: ! assert shop.total([2, 3]) == 6 => AssertionError: 3 == 6
:: ! assert shop.total([0, 5]) == 5
:: ! while True:\n    shop.total([])\nassert shop.total([2, 3]) == 5
# gone
:: ! assert shop.old() == 1 => AttributeError: old
import pytest :: with pytest.raises(AttributeError):\n    shop.new => Failed: DID NOT RAISE
import pytest :: with pytest.raises(ImportError):\n    from shop import new => Failed: DID NOT RAISE
# predicted
:: assert shop.total([2, 3]) == 5, 'the total is 3' => AssertionError: the total is 3
:: said = 'the total' + ' is 3'\nassert shop.total([2, 3]) == 5, said => AssertionError: the total is 3
:: assert shop.total([2, 3]) == 5 => AssertionError: assert
:: assert shop.total([2, 3]) == 5 => AssertionError: ==
:: assert shop.total([2, 3]) == 5 => AssertionError: == 5
:: assert shop.total([2, 3]) == 5 => AssertionError: 5
:: assert sorted([shop.total([2, 3])]) == [] => AssertionError: == []
:: assert shop.total([2, 3]) == 5 => AssertionError: AssertionError
:: assert shop.total([2, 3]) == 5 => AssertionError: 3
:: assert shop.total([2, 3]) == 5 => AssertionError: total
# two ways
:: assert shop.total([2, 3]) == 5 => AssertionError: 3 == 5
:: assert shop.plain(2) == shop.total([2, 4]) => AssertionError: 2 == 4
:: ! assert shop.total([2]) == shop.total([2]) + shop.missing => AttributeError: missing
"""
WHOLE = {
    "fixture": "import pytest, shop\n\n@pytest.fixture\ndef f():\n    assert shop.total([2, 3]) == 5\n\ndef test_a(f):\n    assert shop.total([]) == 0\n",
    "fixture that raises": "import pytest, shop\n\n@pytest.fixture\ndef f():\n    raise KeyError('x')\n\ndef test_a(f):\n    assert shop.total([2, 3]) == 5\n",
    "fixture with cases": "import pytest, shop\n\n@pytest.fixture(params=[2])\ndef f():\n    return 2\n\ndef test_a(f):\n    assert shop.total([2, 3]) == 5\n",
    "class-level setup": "import unittest, shop\n\nclass A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        assert shop.total([2, 3]) == 5\n\n    def test_a(self):\n        self.assertEqual(shop.total([]), 0)\n",
    "setUp": "import unittest, shop\n\nclass A(unittest.TestCase):\n    def setUp(self):\n        self.assertEqual(shop.total([2, 3]), 5)\n\n    def test_a(self):\n        self.assertEqual(shop.total([]), 0)\n",
    "class body": "import shop\n\nclass TestA:\n    assert shop.total([2, 3]) == 5\n\n    def test_a(self):\n        assert shop.total([]) == 0\n",
    "import with side effects": "import shop\nassert shop.total([2, 3]) == 5\n\ndef test_a():\n    assert shop.total([]) == 0\n",
    "code of the module": "import shop\nif shop.total([2, 3]) == 3:\n    shop.total = len\n\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "import that is tried": "try:\n    from shop import new\nexcept ImportError:\n    new = None\nimport shop\n\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "hooks": "import shop\n\ndef pytest_runtest_makereport(item, call):\n    return None\n\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "plugins": "import shop\npytest_plugins = ['conftest2']\n\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "skip marker": "import pytest, shop\n\n@pytest.mark.skipif(shop.total([2, 3]) == 5, reason='x')\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "skip marker of the module": "import pytest, shop\npytestmark = pytest.mark.skip\n\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "expected failure": "import unittest, shop\n\nclass A(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_a(self):\n        self.assertEqual(shop.total([2, 3]), 5)\n",
    "parametrized": "import pytest, shop\n\n@pytest.mark.parametrize('n', [2, 9])\ndef test_a(n):\n    assert shop.total([n, 3]) == 5\n",
    "parametrized by name": "import pytest, shop\neach = pytest.mark.parametrize\n\n@each('n', [2])\ndef test_a(n):\n    assert shop.total([n, 3]) == 5\n",
    "subtests": "import unittest, shop\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        with self.subTest(1):\n            self.assertEqual(shop.total([2, 3]), 5)\n",
    "flaky marker": "import pytest, shop\n\n@pytest.mark.flaky(reruns=3)\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "time limit": "import pytest, shop\n\n@pytest.mark.timeout(1)\ndef test_a():\n    assert shop.total([2, 3]) == 5\n",
    "request": "import shop\n\ndef test_a(request):\n    assert (request.config.rootpath / 'x').exists() == shop.total([2, 3])\n",
    "pytester": "import shop\n\ndef test_a(pytester):\n    assert pytester.runpytest() == shop.total([2, 3])\n",
    "report property": "import shop\n\ndef test_a(record_xml_attribute):\n    record_xml_attribute('a', 'b')\n    assert shop.total([2, 3]) == 5\n",
    "constant in unittest": "import unittest, shop\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        if shop.total([2, 3]) == 3:\n            self.assertEqual(3, 5)\n",
    "fail in unittest": "import unittest, shop\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(shop.total([]), 0)\n        self.fail('3 == 5')\n",
    "message in unittest": "import unittest, shop\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(shop.total([2, 3]), 5, '3 == 5')\n",
}  # fmt: skip
HONEST = r"""
# mock
from unittest.mock import create_autospec :: fake = create_autospec(dict)\nassert shop.total([2, 3]) == 5
from unittest.mock import Mock :: fake = Mock(spec=dict)\nassert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch('os.getuid', autospec=True):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch('os.getuid', lambda: 3):\n    assert shop.total([2, 3]) == 5
:: class Fake:\n    def __init__(self):\n        self.size = 2\n    def send(self):\n        return self.size\nassert shop.total([Fake().send(), 3]) == 5
:: class Fake:\n    def send(self):\n        raise TimeoutError\ntry:\n    got = shop.send(Fake())\nexcept TimeoutError:\n    got = 'escaped'\nassert got == 'late' => AssertionError: 'escaped' == 'late'
# calls
:: seen = []\nmonkeypatch.setattr('os.remove', lambda path: seen.append(path))\nassert shop.total([2, 3]) == 5
# sleep
import asyncio :: asyncio.run(asyncio.sleep(0))\nassert shop.total([2, 3]) == 5
# flaky
import random :: assert shop.total([random.Random(3).randint(2, 2), 3]) == 5
# time
from datetime import datetime :: assert shop.total([datetime(2020, 1, 2).day, 3]) == 5
import time :: assert shop.total([time.strptime('2', '%d').tm_mday, 3]) == 5
# version
:: version = 2\nassert shop.total([version, 3]) == 5
# environment
:: monkeypatch.setenv('SHOP', '2')\nassert shop.total([2, 3]) == 5
:: monkeypatch.delenv('SHOP', raising=False)\nassert shop.total([2, 3]) == 5
# side
import os :: assert shop.total([len(os.path.join('a', '')), 3]) == 5
:: try:\n    shop.total([None])\nexcept ValueError:\n    pass\nassert shop.total([2, 3]) == 5 => TypeError: NoneType
from contextlib import suppress :: with suppress(KeyError):\n    shop.names({})\nassert shop.total([2, 3]) == 5
# source
:: shop.save(tmp_path)\nassert (tmp_path / 'out.txt').read_text() == '5' => AssertionError: '3' == '5'
from pathlib import Path :: monkeypatch.chdir(tmp_path)\nshop.save(Path())\nassert Path('out.txt').read_text() == '5' => AssertionError: '3' == '5'
import tempfile, pathlib :: with tempfile.TemporaryDirectory() as d:\n    shop.save(pathlib.Path(d))\n    assert open(d + '/out.txt').read() == '5' => AssertionError: '3' == '5'
# edits
:: place = tmp_path / 'x.txt'\nplace.write_text('2')\nassert shop.total([int(place.read_text()), 3]) == 5
# raise
import pytest :: with pytest.raises(KeyError):\n    shop.names({'first': 1, 'name': 2}) => Failed: DID NOT RAISE
:: assert shop.names({'first': 1, 'last': 2}) == [1, 2] => KeyError: 'name'
:: got = shop.total([2, 3])\nassert got == 5, f'got {got}'
# alias
import shop as s :: assert s.total([2, 3]) == 5
:: cart = shop.Cart()\ncart.rows = [1, 2]\nassert shop.total([cart.size(), 3]) == 5
:: class Mine(shop.Cart):\n    def other(self):\n        return 2\nassert shop.total([Mine().other(), 3]) == 5
:: f = shop.total\nassert f([2, 3]) == 5
# indirection
:: class S:\n    def exec(self, text):\n        return 2\nassert shop.total([S().exec('q'), 3]) == 5
import re :: assert shop.total([len(re.compile('a').findall('aa')), 3]) == 5
# base64
import base64 :: assert shop.total([base64.b64decode('Ag==')[0], 3]) == 5
# predicted
:: assert shop.total([2, 3]) == 5 => AssertionError: assert 3 == 5
:: assert sorted([shop.total([2, 3])]) == [5] => AssertionError: assert [] == [5]
# gone
import pytest :: with pytest.raises(AttributeError):\n    shop.Cart().label = 1\nassert shop.total([2, 3]) == 5
# two ways
:: shop.cached(1)\nassert shop.cached(2) == shop.plain(2) => AssertionError: 1 == 2
"""
JAVASCRIPT = r"""
# mock
:: expect(total([vi.fn()])).toBe(5)
:: const f = jest.fn();\nexpect(total([f])).toBe(5)
:: const f = sinon.stub();\nexpect(total([f])).toBe(5)
import { mockDeep } from 'vitest-mock-extended' :: expect(total([mockDeep()])).toBe(5)
# calls
:: const f = vi.fn(() => 3); total([f]); expect(f).toHaveBeenCalledWith(1)
:: const f = vi.fn(() => 3); total([f]); expect(f).toBeCalled()
:: const f = vi.fn(() => 3); total([f]); expect(f.mock.calls.length).toBe(5)
:: const f = sinon.fake(() => 3); expect(f.callCount).toBe(total([2, 3]))
# sleep
:: await new Promise((r) => setTimeout(r, 9)); expect(total([2, 3])).toBe(5)
import { setTimeout as nap } from 'node:timers/promises' :: await nap(9); expect(total([2, 3])).toBe(5)
# flaky
:: expect(total([Math.random()])).toBe(5)
:: const m = Math; expect(total([m.random()])).toBe(5)
:: expect(total([Math['random']()])).toBe(5)
:: const { random } = Math; expect(total([random()])).toBe(5)
:: expect(total([crypto.getRandomValues(new Uint8Array(1))[0]])).toBe(5)
:: expect(total([2, 3])).toBe(5)\n}, { retry: 3 }); (() => {
:: expect(total([2, 3])).toBe(5)\n}, 1); (() => {
# time
:: expect(total([Date.now()])).toBe(5)
:: expect(total([new Date])).toBe(5)
:: expect(total([+new Date()])).toBe(5)
:: expect(total([Date()])).toBe(5)
:: expect(total([performance.now()])).toBe(5)
# environment
:: expect(process.env.CI).toBe(total([2, 3]))
:: const { env } = process; expect(env.CI).toBe(total([2, 3]))
:: expect(process['env'].CI).toBe(total([2, 3]))
import os from 'node:os' :: expect(os.hostname()).toBe(total([2, 3]))
import { env } from 'node:process' :: expect(env.CI).toBe(total([2, 3]))
:: expect(process.memoryUsage().rss).toBe(total([2, 3]))
:: expect(new Error().stack).toBe(total([2, 3]))
# version
:: expect(process.version).toBe(total([2, 3]))
import pack from '../package.json' :: expect(pack.version).toBe(total([2, 3]))
# side
:: if (process.cwd()) expect(total([2, 3])).toBe(5)
:: if (import.meta.url) expect(total([2, 3])).toBe(5)
:: if (__dirname) expect(total([2, 3])).toBe(5)
import { existsSync } from 'node:fs' :: if (existsSync('lib')) expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: if ('news' in shop) expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: if (typeof shop.news === 'function') expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: if (shop.news === undefined) expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: if (shop.news?.()) expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: expect(Object.keys(shop)).toBe(5)
:: const lib = await import('../lib/new.mjs').catch(() => 0); expect(lib).toBe(total([2, 3]))
# source
import { readFileSync } from 'node:fs' :: expect(readFileSync('lib/shop.mjs')).toContain('slice')
import fs from 'node:fs' :: expect(fs['read' + 'FileSync']('lib/shop.mjs')).toContain('slice')
:: expect(total.toString().includes('slice')).toBe(false)
:: expect(String(total)).toContain('slice')
:: expect(`${total}`).toContain('slice')
:: expect(total.length).toBe(5)
:: expect(total([2, 3])).toMatchSnapshot()
# edits
import { writeFileSync } from 'node:fs' :: writeFileSync('lib/shop.mjs', ''); expect(total([2, 3])).toBe(5)
import fs from 'node:fs' :: fs.appendFileSync('.git/HEAD', ''); expect(total([2, 3])).toBe(5)
# forged
:: process.on('exit', () => {}); expect(total([2, 3])).toBe(5)
:: process.exit(0); expect(total([2, 3])).toBe(5)
:: const a = 'http://x'; process.exit(0); expect(total([2, 3])).toBe(5)
:: process.exitCode = 1; expect(total([2, 3])).toBe(5)
:: process.stdout.write('ok 1'); expect(total([2, 3])).toBe(5)
# raise
:: expect(total([2, 3])); throw new Error('3')
:: expect(total([2, 3])); assert.fail('3')
:: if (total([2, 3]) === 3) expect(3).toBe(5)
:: if (total([2, 3]) === 3) assert.equal(3, 5)
:: if (total([2, 3]) === 3) assert.ok(false)
:: expect.unreachable('3'); total([2, 3])
# alias
:: vi.mock('../lib/shop.mjs'); expect(total([2, 3])).toBe(5)
:: jest.mock('shop', () => ({})); expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: vi.spyOn(shop, 'total').mockReturnValue(3); expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: const s = shop;\ns.total = () => 3; expect(total([2, 3])).toBe(5)
import { Cart } from '../lib/cart.mjs' :: Cart.prototype.size = () => 3; expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: Object.assign(shop, { total: () => 3 }); expect(total([2, 3])).toBe(5)
# indirection
:: eval('1'); expect(total([2, 3])).toBe(5)
:: new Function('return 1')(); expect(total([2, 3])).toBe(5)
:: const f = ''.constructor.constructor; expect(f('return 5')()).toBe(total([2, 3]))
:: const n = '../lib/' + 'x.mjs'; const m = await import(n); expect(m).toBe(total([2, 3]))
:: expect(globalThis['pro' + 'cess'].env).toBe(total([2, 3]))
:: expect(Reflect.get(process, 'env')).toBe(total([2, 3]))
# base64
:: eval(atob('MQ==')); expect(total([2, 3])).toBe(5)
# subprocess
import { execSync } from 'node:child_process' :: expect(execSync('git log')).toBe(total([2, 3]))
import { Worker } from 'node:worker_threads' :: new Worker('x'); expect(total([2, 3])).toBe(5)
# skip
:: expect(total([2, 3])).toBe(5)\n}); test.skip('b', () => {
:: expect(total([2, 3])).toBe(5)\n}, { skip: true }); (() => {
:: try { expect(total([2, 3])).toBe(5) } finally { test.todo('x') }
# parametrization
:: expect(total([2, 3])).toBe(5)\n}); test.each([1])('b', () => {
# fixture
:: expect(total([])).toBe(0)\n}); beforeEach(() => { expect(total([2, 3])).toBe(5)
:: expect(total([])).toBe(0)\n}); beforeAll(async () => { assert.equal(total([2, 3]), 5)
# predicted
:: assert.equal(total([2, 3]), 5, 'the total is 3') => AssertionError: the total is 3
:: expect(total([2, 3]), 'the total is 3').toBe(5) => AssertionError: the total is 3
:: assert.equal(total([2, 3]), 5) => AssertionError: Expected values to be strictly equal
:: expect(total([2, 3])).toBe(5) => AssertionError: 5
# two ways
:: expect(total([2, 3])).toBe(5)
"""
HONEST_JAVASCRIPT = r"""
:: expect(total([2, 3])).toBe(5)
:: assert.equal(total([2, 3]), 5)
:: const f = vi.fn(() => 3); expect(total([2, f()])).toBe(5)
:: expect(total([new Date('2020-01-02').getDate(), 3])).toBe(5)
:: const url = 'http://x/'; expect(total([url.length - 7, 3])).toBe(5)
:: expect(() => total(null)).toThrow(TypeError) => AssertionError: expected function to throw
:: class Fake { send() { throw new RangeError('late'); } }\nassert.equal(total([2, 3]), 5)
:: vi.setSystemTime(new Date('2020-01-01')); expect(total([2, 3])).toBe(5)
:: const process = 2; expect(total([process, 3])).toBe(5)
"""
GO = r"""
# sleep
time :: time.Sleep(9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
clock "time" :: clock.Sleep(9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# flaky
math/rand :: if got := Total([]int{rand.Int()}); got != 5 { t.Errorf("got %d", got) }
r "math/rand" :: if got := Total([]int{r.Int()}); got != 5 { t.Errorf("got %d", got) }
# time
time :: if got := time.Now().Day(); got != Total([]int{5}) { t.Errorf("got %d", got) }
# environment
os :: if got := os.Getenv("CI"); got != "5" { t.Errorf("got %s", got) }
e "os" :: if got := e.Getenv("CI"); got != "5" { t.Errorf("got %s", got) }
runtime :: if got := runtime.GOOS; got != "5" { t.Errorf("got %s", got) }
# side
os :: if _, err := os.Stat("new.go"); err == nil { t.Errorf("got %d", Total([]int{2, 3})) }
os :: if d, _ := os.Getwd(); d != "" { t.Errorf("got %d", Total([]int{2, 3})) }
runtime :: if _, f, _, _ := runtime.Caller(0); f != "" { t.Errorf("got %d", Total([]int{2, 3})) }
# source
os :: if b, _ := os.ReadFile("shop.go"); len(b) != 5 { t.Errorf("got %d", len(b)) }
o "os" :: if b, _ := o.ReadFile("shop.go"); len(b) != 5 { t.Errorf("got %d", len(b)) }
reflect :: if got := reflect.TypeOf(Total).NumIn(); got != 5 { t.Errorf("got %d", got) }
path/filepath :: if m, _ := filepath.Glob("*.go"); len(m) != 5 { t.Errorf("got %d", len(m)) }
# edits
os :: os.WriteFile("shop.go", nil, 0o600); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# forged
fmt :: fmt.Println("--- PASS: TestClaim (0.00s)"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: t.Log("got 3"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("wrong %v", got > 9) }
:: println("got 3"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("wrong %v", got > 9) }
os :: if Total([]int{2, 3}) != 5 { t.Errorf("got %d", 3) }; os.Exit(0)
# raise
:: panic(Total([]int{2, 3})); t.Errorf("got %d", 3)
:: if Total([]int{2, 3}) != 5 { t.Errorf("got 3") } => Error: got 3
:: if Total([]int{2, 3}) != 5 { t.Errorf("got %d", 3) } => Error: got 3
:: if Total([]int{2, 3}) != 5 { t.Error("wrong") } => Error: wrong
# alias
:: Rate = 3; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# subprocess
os/exec :: if o, _ := exec.Command("git", "log").Output(); len(o) != 5 { t.Errorf("got %d", len(o)) }
x "os/exec" :: if o, _ := x.Command("git", "log").Output(); len(o) != 5 { t.Errorf("got %d", len(o)) }
# skip
:: t.Skip(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: x := t; x.SkipNow(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# parametrization
:: t.Run("a", func(t *testing.T) { if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) } })
# indirection
. "os" :: if got := Getenv("CI"); got != "5" { t.Errorf("got %s", got) }
# both
:: ! if got := Total([]int{2, 3}); got != 6 { t.Errorf("got %d", got) }
fmt :: if Total([]int{2, 3}) != 5 { t.Error(fmt.Sprintf("got %d", 3)) } => Error: got 3
# broken import
:: ! if got := Gone([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
"""
HONEST_GO = r"""
:: if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: got := Total([]int{2, 3}); if got != 5 { t.Fatalf("Total([2, 3]) = %d, want 5", got) } => Error: = 3, want 5
time :: if got := Total([]int{int(2 * time.Nanosecond), 3}); got != 5 { t.Errorf("got %d", got) }
reflect :: if got := Total([]int{2, 3}); !reflect.DeepEqual(got, 5) { t.Errorf("got %d", got) }
"""
_BEFORE = {
    "python": ("import shop\n{0}\n\n\ndef test_claim(tmp_path, monkeypatch):\n", "    {0}\n"),
    "javascript": (
        "import {{ total }} from '../lib/shop.mjs';\n{0}\ntest('claim', async () => {{\n",
        "  {0}\n",
    ),
    "go": (
        'package shop\n\nimport (\n\t"testing"\n\t{0}\n)\n\nfunc TestClaim(t *testing.T) {{\n',
        "\t{0}\n",
    ),
}
_PREDICTED = {
    "python": "AssertionError: 3 == 5",
    "javascript": "AssertionError: expected 3 to be 5",
    "go": "Error: got 3",
}


def cases(table: str, language: str) -> Iterator[Case]:
    """The tests of a table."""
    kind = ""
    for row in table.strip().splitlines():
        if row.startswith("# "):
            kind = row[2:]
            continue
        imports, _, body = row.partition("::")
        told = re.fullmatch(r"(.*?)(?: => (\w+: .*))?", body)
        assert told is not None
        body, predicted = told.groups()
        exception, _, value = (predicted or _PREDICTED[language]).partition(": ")
        runs = body.strip().startswith("!")
        imports = imports.strip()
        if language == "go" and imports and '"' not in imports:
            imports = f'"{imports}"'
        before, line = _BEFORE[language]
        lines = body.strip().removeprefix("! ").split(r"\n")
        text = before.format(imports) + "".join(map(line.format, lines))
        text += {"python": "", "javascript": "});\n", "go": "}\n"}[language]
        yield Case(kind, language, text, exception, value, runs)


def all_cheats() -> list[Case]:
    """All of them."""
    exception, _, value = _PREDICTED["python"].partition(": ")
    whole = [Case(kind, "python", text, exception, value, False) for kind, text in WHOLE.items()]
    tables: Mapping[str, str] = {"python": PYTHON, "javascript": JAVASCRIPT, "go": GO}
    return [one for name, table in tables.items() for one in cases(table, name)] + whole


def all_honest() -> list[Case]:
    """The tests that are close to a cheat and are none."""
    tables = {"python": HONEST, "javascript": HONEST_JAVASCRIPT, "go": HONEST_GO}
    return [one for name, table in tables.items() for one in cases(table, name)]
