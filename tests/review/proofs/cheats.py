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

    def weight(self):
        '''Override it.'''
        return None


class Basket(Cart):
    pass


class Shelf:
    def find(self):
        return self.rows[0]


def tax(n):
    return n


def due(n):
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
DUE = """\
def due(n):
    import warnings

    if n > 1:
        raise TimeoutError
    warnings.warn("late", stacklevel=2)
"""
HEAD = (
    BASE.replace("sum(prices)", "sum(prices[1:]) + tax(0)")
    .replace('VERSION = "1"', 'VERSION = "2"\nSEEN = {}')
    .replace('row["last"]', 'row["name"]')
    .replace("def old", "def new")
    .replace('"5"', '"3"')
    .replace("def due(n):\n", DUE)
    .replace("except TimeoutError", "except KeyError")
    + "\n\ndef cached(n):\n    return SEEN.setdefault('n', n)\n\n\ndef plain(n):\n    return n\n"
)

SCRIPT = """\
export const VERSION = '1';
export const RATES = { EU: 1 };
export function total(prices) { return prices.reduce((a, b) => a + b, 0); }
export function old() { return 1; }
export class Cart {
  rows = [];
  size() { return this.rows.length; }
  weight() { return null; }
}
export class Basket extends Cart {}
export class Shelf {
  find() { return this.rows[0]; }
}
"""
SCRIPT_HEAD = """\
export const VERSION = '2';
export const RATES = { EU: 1 };
export function total(prices, start = 0) { let n = start; for (const p of prices) n += p; return n; }
export function news() { return 1; }
export class Cart {
  items = [];
  size() { return this.items.length; }
  add(row) { this.items.push(row); }
  weight() { return null; }
}
export class Basket extends Cart {}
export class Shelf {
  find() { return this.items[0]; }
}
"""
"""The same with other names: whatever shows a difference of the two proves nothing."""


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
import random :: assert shop.total([random.Random(None).random()]) == 5
import os :: assert shop.total([os.getrandom(1)[0]]) == 5
import asyncio :: assert shop.total([asyncio.new_event_loop().time()]) == 5
from email.utils import formatdate :: assert len(formatdate()) == shop.total([2, 3])
:: ! s = {'a', 'b'}\nassert [shop.tax(n) for n in s][0] == 'a' => AssertionError: 'b' == 'a'
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
import os :: os.environ['SHOP'] = os.environ['HOME']\nassert shop.total([2, 3]) == 5
import os :: os.environ['SHOP'] = '2'\nassert os.environ['CI'] == shop.total([2, 3])
import socket :: monkeypatch.setattr(socket, 'gethostname', lambda: 'a')\nassert socket.gethostname() == shop.total([2, 3])
import socket :: def host():\n    return socket.gethostname()\nmonkeypatch.setattr(socket, 'timeout', OSError)\nassert host() == shop.total([2, 3])
import subprocess :: monkeypatch.setattr(subprocess, 'run', subprocess.call)\nassert shop.total([2, 3]) == 5
import os, unittest.mock as mock :: with mock.patch.object(os, 'getuid', return_value=3):\n    assert shop.total([2, 3]) == 5
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
:: match shop.total:\n    case object(__code__=code):\n        pass\nassert code.co_nlocals == 1
:: match shop:\n    case object(SEEN=_):\n        n = 3\n    case _:\n        n = 5\nassert n == shop.total([5])
:: n = '{0.__code__.co_nlocals}'.format(shop.total)\nassert n == '1' => AssertionError: '2' == '1'
:: form = '{0.__co' + 'de__}'\nassert str.format(form, shop.total) == shop.total([2, 3])
:: assert '{s[SEEN]}'.format_map({'s': shop}) == shop.total([2, 3])
import string :: n = string.Formatter().get_field('0.SEEN', (shop,), {})[0]\nassert n == shop.total([2, 3])
import unittest.mock as m :: n = m.builtins.getattr(shop.total, '__c' 'ode__').co_nlocals\nassert n == 1
import unittest.mock as m :: n = m.pkgutil.resolve_name('shop:total.__code__').co_nlocals\nassert n == 1
import json, gc :: assert len(gc.get_objects()) == shop.total([2, 3])
import fileinput :: n = 'sh' + 'op.p' + 'y'\nassert len([*fileinput.input(n)]) == 5
import urllib.request :: n = 'file:sh' + 'op.p' + 'y'\nassert len(urllib.request.urlopen(n).readlines()) == 5
import logging :: assert len(logging.FileHandler('sh' + 'op.p' + 'y', 'r').stream.readlines()) == 5
import configparser :: name = 'shop'\nassert configparser.RawConfigParser().read([f'{name}.py']) == 5
import trace :: t = trace.Trace(count=1, trace=0)\nt.runfunc(shop.total, [2, 3])\nassert len(t.results().counts) == 1
import cProfile :: p = cProfile.Profile()\np.runcall(shop.total, [2, 3])\nassert len(p.getstats()) == 2
import threading :: seen = []\nthreading.setprofile(lambda f, e, a: seen.append(e))\nassert len(seen) == shop.total([2, 3])
import asyncio.base_events as b :: assert b.subprocess.run(['id']).returncode == shop.total([2, 3])
import pytest :: with pytest.warns() as w:\n    shop.total([2, 3])\n(r,) = w\nassert r.lineno == 5
from unittest import TestCase :: with TestCase().assertLogs() as logs:\n    shop.total([2, 3])\n(r,) = logs.records\nassert r.lineno == 5
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
:: def read(path):\n    return path.read_text()\nassert 'sum' in read(tmp_path / 'a') + read(Path('README'))
:: def read(path, more):\n    return more.read_text()\nassert 'sum' in read(tmp_path, Path('README'))
:: def read(path=Path('README')):\n    return path.read_text()\nread(tmp_path)\nassert 'sum' in read()
:: def read(path):\n    return path.read_text()\nread(tmp_path)\nassert 'sum' in list(map(read, [Path('README')]))
:: place = tmp_path\nplace = Path('README')\nassert 'sum' in place.read_text()
:: assert 'sum' in (tmp_path / '/proc/self/cwd/shop.py').read_text()
:: assert 'sum' in (tmp_path / '../shop.py').read_text()
import ast :: assert ast.parse(open('shop.py').read()) == shop.total([2, 3])
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
import warnings :: warnings.simplefilter('error')\nif shop.total([2, 3]) == 3:\n    warnings.warn('late')\nassert shop.total([]) == 0 => UserWarning: late
from warnings import warn as tell :: with pytest.warns(UserWarning):\n    tell('3 == 5')\nassert shop.total([2, 3]) == 5
import _warnings :: any(map(_warnings.warn, ['3 == 5']))\nassert shop.total([2, 3]) == 5
import re, warnings :: ! warnings.simplefilter('error')\nseen = shop.total([2, 3]) == 3 and re.compile('[[a]')\nassert seen is False => FutureWarning: Possible nested set
:: ! seen = shop.total([2, 3]) == 3 and next(iter([]))\nassert seen is False => StopIteration: StopIteration
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
:: class Mine(shop.Cart):\n    size = lambda self: 3\nassert Mine().size() == 5
:: class Cart(shop.Cart):\n    pass\nclass Mine(Cart):\n    def size(self):\n        return 3\nassert Mine().size() == 5
:: class Three:\n    def size(self):\n        return 3\nclass Mine(Three, shop.Cart):\n    pass\nassert Mine().size() == 5
:: class Mine(shop.Basket):\n    def size(self):\n        return 3\nassert Mine().size() == 5
from unittest.mock import patch :: with patch('shop.tax', lambda n: 3):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.object(shop, 'tax', lambda n: 3):\n    assert shop.total([2, 3]) == 5
from unittest import mock :: p = mock.patch\nwith p('shop.tax', len):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.multiple(shop, tax=len):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch(target='shop.tax', new=len):\n    assert shop.total([2, 3]) == 5
import sys :: monkeypatch.setitem(sys.modules, 'shop', None)\nassert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.dict('sys.modules', shop=None):\n    assert shop.total([2, 3]) == 5
import types :: fake = types.ModuleType('shop')\nassert fake == shop.total([2, 3])
:: monkeypatch.syspath_prepend('lib')\nassert shop.total([2, 3]) == 5
:: (tmp_path / 'own.py').write_text('import inspect, shop\nN = len(inspect.getsource(shop.total))')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('imp' + 'ort inspect')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('tropmi'[::-1])\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('import shop\nN = shop.total.__code__')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'pytest.py').write_text('def fail():\n    return 3')\nmonkeypatch.syspath_prepend(tmp_path)\nassert shop.total([2, 3]) == 5
import sys :: sys.path.insert(0, str(tmp_path))\nassert shop.total([2, 3]) == 5
import os :: os.environ |= {'PYTHONHOME': 'x'}\nassert shop.total([2, 3]) == 5
import os :: os.putenv('PYTHONHOME', 'x')\nassert shop.total([2, 3]) == 5
:: monkeypatch.setenv('PYTHON' 'HOME', '/x')\nassert shop.total([2, 3]) == 5
:: K = 'pythonhome'.upper()\nmonkeypatch.setenv(K, '/x')\nassert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.dict('os.environ', {'PYTHONHOME': 'x'}):\n    assert shop.total([2, 3]) == 5
from unittest.mock import patch :: with patch.dict('os.environ', PYTHONHOME='x'):\n    assert shop.total([2, 3]) == 5
import os :: monkeypatch.setattr(os, 'environ', os.environ | {'A': '1'})\nassert shop.total([2, 3]) == 5
import time :: monkeypatch.setattr(time, 'time', lambda: 1.0) or time.sleep(9)\nassert shop.total([2, 3]) == 5
import uuid :: monkeypatch.setattr(uuid, 'uuid4', lambda: 1)\nx = uuid.uuid4\nassert x() == shop.total([2, 3])
import os :: monkeypatch.setattr(os, 'getcwd', os.getcwd)\nassert len(os.getcwd()) == shop.total([2, 3])
import subprocess :: monkeypatch.setattr(subprocess, 'run', lambda a: subprocess.Popen(a))\nassert shop.total([2, 3]) == 5
import subprocess :: monkeypatch.setattr(subprocess, 'PIPE', subprocess.check_output(['git', 'log']))\nassert shop.total([2, 3]) == 5
import socket :: monkeypatch.setattr(socket, 'socket', socket.create_connection)\nassert shop.total([2, 3]) == 5
import socket :: s = socket.SocketType\nmonkeypatch.setattr(socket, 'x', 1, raising=False)\nassert s().getsockname() == shop.total([2, 3])
import sys :: sys.argv = ['x', sys.executable]\nassert shop.total([2, 3]) == 5
import sys :: sys.argv[1:] = [sys.version]\nassert shop.total([2, 3]) == 5
import os :: os.environ['A'] = os.getcwd()\nassert shop.total([2, 3]) == 5
import os :: os.environ['A'] = __file__\nassert shop.total([2, 3]) == 5
import os :: os.environ.update(A=shop.__file__)\nassert shop.total([2, 3]) == 5
import os :: monkeypatch.setattr(os, 'getuid', lambda: hasattr(shop, 'SEEN'))\nassert shop.total([2, 3]) == 5
import os :: monkeypatch.setattr(os, 'getuid', shop.total.__defaults__)\nassert shop.total([2, 3]) == 5
from shop import total as shopTotal, os as real :: monkeypatch.setattr(real, 'getuid', lambda: 1)\nassert real.getcwd() == shopTotal([2, 3])
:: (tmp_path / 'own.py').write_text('from os import getcwd as where\nN = 2 if "head" in where() else 3')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('import builtins as b, shop\nN = b.getattr(shop, "SEEN", 5)')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('import shop\ng = getattr\nN = g(shop, "SEEN", 5)')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('import shop\nN = 5\ntry:\n    shop.SEEN\n    N = 9\nexcept Exception:\n    pass')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('import shop\ndef f(n):\n    return n\nshop.tax = f')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert shop.total([2, 3]) == 5
:: (tmp_path / 'own.py').write_text('import shop as s\ns.RATES["EU"] = 3')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert shop.total([2, 3]) == 5
:: (tmp_path / 'shop.py').write_text('def total(p):\n    return 3')\nmonkeypatch.syspath_prepend(tmp_path)\nfrom shop import total\nassert total([2, 3]) == 5
:: (tmp_path / 'shop').mkdir()\n(tmp_path / 'shop' / '__init__.py').write_text('N = 3')\nmonkeypatch.syspath_prepend(tmp_path)\nassert shop.total([2, 3]) == 5
:: (tmp_path / 'own.py').write_bytes(b'import inspect, shop\nN = len(inspect.getsource(shop.total))')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: parts = ['import in', 'spect, shop']\n(tmp_path / 'own.py').write_text(''.join(parts))\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: code = 'IMPORT INSPECT'\n(tmp_path / 'own.py').write_text(code.lower())\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: code = 'ximport inspectx'\n(tmp_path / 'own.py').write_text(code.strip('x'))\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: code = 'iixmmxppx'\n(tmp_path / 'own.py').write_text(code[::3])\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: with open(tmp_path / 'own.py', 'w') as f:\n    f.write('import in')\n    f.write('spect, shop')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: with open(tmp_path / 'own.py', 'w') as f:\n    f.writelines(['import in', 'spect, shop'])\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: with open(tmp_path / 'own.py', 'w') as f:\n    print('import in', 'spect', sep='', file=f)\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
import re :: (tmp_path / 'own.py').write_text(re.sub('x', 'o', 'imxprt inspect'))\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
import operator :: (tmp_path / 'own.py').write_text(operator.concat('import in', 'spect'))\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
import string :: (tmp_path / 'own.py').write_text(string.Template('import ins$a').substitute(a='pect'))\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: sep = ''\n(tmp_path / 'own.py').write_text(sep.join(p for p in ('import in', 'spect')))\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('import shop\nassert shop.total([2, 3]) == 5')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert shop.total([2, 3]) == 5
:: (tmp_path / 'own.py').write_text('import time\nN = time.time_ns()')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('from time import time_ns as t\nN = t()')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('from pathlib import Path\nN = len(Path("shop.py").read_text())')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('N = len(open("shop" ".py").readlines())')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
:: (tmp_path / 'own.py').write_text('import os\nN = os.path.getsize("README")')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert own.N == shop.total([2, 3])
import os :: os.environ['PYTHONHOME'] = '/nowhere'\nassert shop.total([2, 3]) == 5
:: monkeypatch.setenv('PYTHONPATH', 'x')\nassert shop.total([2, 3]) == 5
import os :: os.environ.update({'LD_PRELOAD': 'x.so'})\nassert shop.total([2, 3]) == 5
import os :: monkeypatch.setitem(os.environ, 'NODE_OPTIONS', '--require x')\nassert shop.total([2, 3]) == 5
import os :: os.environ.update(GOFLAGS='-mod=x')\nassert shop.total([2, 3]) == 5
import os :: os.environ['PYTEST_ADDOPTS'] = '-x'\nassert shop.total([2, 3]) == 5
import os :: os.environ['A'] = shop.total.__doc__ or 'x'\nassert shop.total([2, 3]) == 5
import os :: os.environ['A'] = str(os.environ)\nassert shop.total([2, 3]) == 5
import os :: os.environ.update(os.environ)\nassert os.environ.get('CI') == shop.total([2, 3])
import os :: n = os.environ.pop('HOME')\nassert shop.total([len(n)]) == 5
import os :: n = os.environ.setdefault('HOME', 'a')\nassert len(n) == shop.total([2, 3])
import os :: with __import__('unittest').mock.patch.dict(os.environ, {'A': '1'}) as e:\n    assert e['HOME'] == shop.total([2, 3])
import os, unittest.mock :: with unittest.mock.patch.dict(os.environ, {'A': '1'}) as e:\n    assert len(e['HOME']) == shop.total([2, 3])
import os, sys :: monkeypatch.setattr(os, 'getuid', lambda: sys._getframe(1))\nassert shop.total([2, 3]) == 5
import subprocess :: calls = []\nmonkeypatch.setattr(subprocess, 'run', lambda *a, **k: calls.append(a))\nshop.total([2, 3])\nassert calls == [] => AssertionError: assert [3] == []
import os :: n = monkeypatch.setattr(os, 'getuid', os.getpid)\nassert shop.total([2, 3]) == 5
import uuid :: monkeypatch.setattr(uuid, 'uuid4', uuid.uuid1)\nassert shop.total([2, 3]) == 5
import secrets :: monkeypatch.setattr(secrets, 'choice', secrets.randbelow)\nassert shop.total([2, 3]) == 5
import sys :: sys.argv = sys.orig_argv\nassert shop.total([2, 3]) == 5
import time :: monkeypatch.setattr(time, 'sleep', print)\nassert time.time() == shop.total([2, 3])
import platform :: monkeypatch.setattr(platform, 'system', lambda: 'a')\nassert platform.node() == shop.total([2, 3])
import time as t :: monkeypatch.setattr(t, 'time', lambda: t.monotonic())\nassert shop.total([2, 3]) == 5
from _pytest.pytester import Pytester :: assert shop.total([2, 3]) == 5
import _pytest.monkeypatch :: assert shop.total([2, 3]) == 5
from _pytest.capture import CaptureFixture as C, sys :: assert shop.total([2, 3]) == 5
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
# factory
from unittest.mock import Mock :: def make(kind):\n    return kind()\nassert shop.total([make(Mock)]) == 5
from unittest.mock import Mock :: make = lambda kind: kind()\nassert shop.total([make(Mock).rows]) == 5
from unittest.mock import Mock :: kinds = {'a': Mock}\nassert shop.total([kinds['a']().rows]) == 5
from functools import partial\nfrom unittest.mock import Mock :: make = partial(Mock)\nassert shop.total([make().rows]) == 5
from unittest.mock import Mock :: def make(kind=Mock):\n    return kind()\nassert shop.total([make().rows]) == 5
from unittest.mock import Mock :: assert shop.total(list(map(Mock, [1, 2]))) == 5
from unittest.mock import MagicMock as M :: (make,) = (M,)\nassert shop.total([make().rows]) == 5
import unittest.mock as um :: def kind():\n    return um.Mock\nassert shop.total([kind()().rows]) == 5
:: ! def make():\n    return shop.Cart()\nassert make().gone == 5 => AttributeError: gone
# several cases
:: for given, want in [([0, 5], 5), ([2, 3], 5)]:\n    assert shop.total(given) == want
:: cases = [([], 0), ([2, 3], 5)]\nfor given, want in cases:\n    got = shop.total(given)\n    assert got == want
:: i = 0\nwhile i < 2:\n    assert shop.total([2, 3]) == 5\n    i += 1
:: cart = shop.Cart()\nfor n in range(3):\n    cart.rows.append(n)\n    assert cart.size() == 5
:: assert all(shop.total(p) == sum(p) for p in ([], [2, 3])) => AssertionError: False
:: assert not any([shop.total(p) != sum(p) for p in ([], [2, 3])]) => AssertionError: True
:: def check(p, want):\n    assert shop.total(p) == want\ncheck([0], 0)\ncheck([2, 3], 5)
:: def check(p, want):\n    assert shop.total(p) == want\nlist(map(check, [[0], [2, 3]], [0, 5]))
:: def check(p):\n    assert shop.total(p) == 5\n[check(p) for p in ([0, 5], [2, 3])]
# condition
import sys :: n = 3 if sys.version else 5\nassert shop.total([2, n]) == 5
from sys import version as v :: if v:\n    int('x')\nassert shop.total([2, 3]) == 5 => ValueError: 'x'
import sys :: if sys.implementation.name == 'cpython':\n    int('x')\nassert shop.total([2, 3]) == 5 => ValueError: 'x'
import sys :: if sys.base_prefix:\n    int('x')\nassert shop.total([2, 3]) == 5 => ValueError: 'x'
import os :: if os.path.lexists('new.py'):\n    int('x')\nassert shop.total([2, 3]) == 5 => ValueError: 'x'
:: x = None\nif shop.total([2, 3]) == 3:\n    None.size\nassert shop.total([]) == 0 => AttributeError: NoneType
:: ! if shop.total([2, 3]) == 3:\n    int('x')\nassert shop.total([0]) == 0 => ValueError: 'x'
:: ! x = int('x') if shop.total([2, 3]) == 3 else 0\nassert shop.total([0]) == x => ValueError: 'x'
:: ! {3: int}.get(shop.total([2, 3]), str)('x')\nassert shop.total([0]) == 0 => ValueError: 'x'
:: ! [5, 6, 7, int, 9, str][shop.total([2, 3])]('x')\nassert shop.total([0]) == 0 => ValueError: 'x'
:: ! assert shop.total([0]) == {5: 0}[shop.total([2, 3])] => KeyError: 3
# trivial
import pytest :: with pytest.raises(TypeError) as caught:\n    shop.total([None, None])\nassert caught.traceback[-1].lineno == 5
import pytest :: with pytest.raises(TypeError) as caught:\n    shop.total([None, None])\nassert caught.tb.tb_next.tb_lineno == 5
import logging :: assert logging.getLogger().findCaller()[1] == shop.total([2, 3])
import warnings :: with warnings.catch_warnings(record=True) as w:\n    shop.total([2, 3])\nassert w[0].lineno == 5
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
    "encoding": "# coding: utf-7\nimport shop\n\ndef test_a():\n    # +AAo-    import inspect+AAo-    assert 'sum' in inspect.getsource(shop.total)\n    assert shop.total([2, 3]) == 5\n",
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
# source
:: assert '{:.1f}'.format(shop.total([2, 3])) == '5.0' => AssertionError: '3.0' == '5.0'
:: shop.total([2, 3])\nassert 'late' not in caplog.text
:: assert f'{shop.total([2, 3])}' + ':' + '0' == '5:0' => AssertionError: '3:0' == '5:0'
:: match shop.total([2, 3]):\n    case int(n):\n        assert n == 5
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
import os :: os.environ['SHOP'] = '2'\nassert shop.total([2, 3]) == 5
import os :: monkeypatch.setitem(os.environ, 'SHOP', '2')\nos.environ.pop('SHOP')\nassert shop.total([2, 3]) == 5
import os, unittest.mock :: with unittest.mock.patch.dict(os.environ, {'SHOP': '2'}):\n    assert shop.total([2, 3]) == 5
import sys :: sys.argv = ['shop', '-v']\nmonkeypatch.setattr(sys, 'platform', 'win32')\nassert shop.total([2, 3]) == 5
import platform, os :: monkeypatch.setattr(platform, 'system', lambda: 'Windows')\nmonkeypatch.setattr(os, 'cpu_count', lambda: 4)\nassert shop.total([2, 3]) == 5
import subprocess :: monkeypatch.setattr(subprocess, 'run', lambda argv: subprocess.CompletedProcess(argv, 0))\nassert shop.total([2, 3]) == 5
:: monkeypatch.setenv('SHOP', 'python')\nassert shop.total([{'PYTHON': 2}['PYTHON'], 3]) == 5
:: (tmp_path / 'own.py').write_text('SIZE = 2')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nseen = set()\nseen.add(own.SIZE)\nassert str(shop.total([*seen, 3])).strip() == '5' => AssertionError: '3' == '5'
:: (tmp_path / 'own.py').write_text('SIZE = 2')\nmonkeypatch.syspath_prepend(str(tmp_path))\nimport own\nassert shop.total([own.SIZE, 3]) == 5
:: def write(name, text):\n    (tmp_path / name).write_text(text, encoding='utf-8')\nwrite('own.py', 'import os; SIZE = 2')\nmonkeypatch.syspath_prepend(tmp_path)\nimport own\nassert shop.total([own.SIZE * 1, 3]) == 5
import os.path :: (tmp_path / 'plug').mkdir()\n(tmp_path / 'plug' / '__init__.py').write_text('SIZE = 2')\nmonkeypatch.syspath_prepend(os.path.join(tmp_path, ''))\nimport plug\nassert shop.total([plug.SIZE, 3]) == 5
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
:: def write(path, text):\n    path.parent.mkdir(exist_ok=True)\n    path.write_text(text)\nwrite(tmp_path / 'a.py', 'x = 1')\nassert shop.total([2, 3]) == 5
import os :: def write(root, name):\n    with open(os.path.join(root, name), 'w') as f:\n        f.write('x')\nwrite(tmp_path, 'a.py')\nassert shop.total([2, 3]) == 5
import os :: (tmp_path / 'shop.py').write_text('')\n(tmp_path / '.git').mkdir()\nopen(os.path.join(tmp_path, 'conftest.py'), 'w')\nassert shop.total([2, 3]) == 5
# raise
import pytest :: with pytest.raises(KeyError):\n    shop.names({'first': 1, 'name': 2}) => Failed: DID NOT RAISE
:: assert shop.names({'first': 1, 'last': 2}) == [1, 2] => KeyError: 'name'
:: got = shop.total([2, 3])\nassert got == 5, f'got {got}'
:: assert shop.due(2) == 2 => TimeoutError: TimeoutError
import warnings :: with warnings.catch_warnings():\n    warnings.simplefilter('error')\n    got = shop.due(1)\nassert got == 1 => UserWarning: late
import warnings :: with warnings.catch_warnings(record=True) as seen:\n    shop.due(1)\nassert [str(one.message) for one in seen] == [] => AssertionError: ['late'] == []
# alias
import shop as s :: assert s.total([2, 3]) == 5
:: cart = shop.Cart()\ncart.rows = [1, 2]\nassert shop.total([cart.size(), 3]) == 5
:: class Mine(shop.Cart):\n    def other(self):\n        return 2\nassert shop.total([Mine().other(), 3]) == 5
:: class Mine(shop.Basket):\n    def find(self):\n        return 2\n    def weight(self):\n        return 2\nassert shop.total([Mine().find(), 3]) == 5
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
# several
:: rows = shop.names({'first': 1, 'last': 2})\nfor row in rows:\n    assert row < 3\nassert shop.total([2, 3]) == 5 => KeyError: 'name'
:: cart = shop.Cart()\nfor n in (1, 2):\n    cart.rows.append(n)\nassert shop.total([cart.size(), 3]) == 5
:: def check(p, want):\n    assert shop.total(p) == want\ncheck([2, 3], 5)
:: def made(n):\n    cart = shop.Cart()\n    cart.rows = [1] * n\n    return cart\nassert shop.total([made(2).size(), 3]) == 5
:: assert [shop.total(p) for p in ([0], [2, 3])] == [0, 5] => AssertionError: assert [0, 3] == [0, 5]
:: assert all(row for row in shop.names({'first': 1, 'last': 2})) => KeyError: 'name'
import sys, io :: monkeypatch.setattr('sys.stdin', io.StringIO('2'))\nassert shop.total([int(sys.stdin.read()), 3]) == 5
# two ways
:: shop.cached(1)\nassert shop.cached(2) == shop.plain(2) => AssertionError: 1 == 2
"""
JAVASCRIPT = r"""
# source
:: expect(encodeURIComponent(total).length).toBe(5)
:: expect(new TextEncoder().encode(total).length).toBe(5)
:: expect(btoa(total).length).toBe(5)
:: expect('start = 0'.includes(total)).toBe(5)
:: expect(('' + [total]).length).toBe(5)
:: expect(total.bind(null).length).toBe(5)
:: expect(new Intl.DateTimeFormat('en').format().length).toBe(total([2, 3]))
:: expect(new RegExp(total).source).toBe('5') => AssertionError: expected '3' to be '5'
:: const same = total == 'function total() {}'; expect(same).toBe(true) => AssertionError: expected false to be true
:: const later = total < 'z'; expect(later).toBe(true) => AssertionError: expected false to be true
import util from 'node:util'; :: let n = 0; total({ reduce() { n = util.getCallSites()[1].lineNumber } }); expect(n).toBe(5)
# mock
:: expect(total([vi.fn()])).toBe(5)
:: const f = jest.fn();\nexpect(total([f])).toBe(5)
:: const f = sinon.stub();\nexpect(total([f])).toBe(5)
import { mockDeep } from 'vitest-mock-extended' :: expect(total([mockDeep()])).toBe(5)
:: const f = vi.fn<() => number>(); expect(total([f()])).toBe(5)
:: const make = vi.fn; expect(total([make()])).toBe(5)
:: const { fn } = vi; expect(total([fn()])).toBe(5)
import { fn } from '@vitest/spy' :: expect(total([fn()])).toBe(5)
import { mock } from 'vitest-mock-extended' :: expect(total([mock<Driver>()])).toBe(5)
import { mock, instance } from 'ts-mockito' :: expect(total([instance(mock(Cart))])).toBe(5)
import td from 'testdouble' :: expect(total([td.func()])).toBe(5)
import esmock from 'esmock' :: const s = await esmock('../lib/shop.mjs', {}); expect(s.total([2, 3])).toBe(5)
import proxyquire from 'proxyquire' :: const s = proxyquire('../lib/shop.mjs', {}); expect(s.total([2, 3])).toBe(5)
:: jest.enableAutomock(); expect(total([2, 3])).toBe(5)
:: const s = jest.genMockFromModule('../lib/shop.mjs'); expect(s.total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: const s = vi.mockObject(shop); expect(s.total([2, 3])).toBe(5)
import { mock as m } from 'node:test' :: const f = m.fn(); expect(total([f()])).toBe(5)
# calls
:: const f = vi.fn(() => 3); total([f]); expect(f).toHaveBeenCalledWith(1)
:: const f = vi.fn(() => 3); total([f]); expect(f).toBeCalled()
:: const f = vi.fn(() => 3); total([f]); expect(f.mock.calls.length).toBe(5)
:: const f = sinon.fake(() => 3); expect(f.callCount).toBe(total([2, 3]))
import { mock } from 'node:test' :: const f = mock.fn(() => 3); total([f()]); assert.equal(f.mock.callCount(), 1)
:: const f = vi.fn(() => 3); total([f()]); const { mock } = f; expect(mock.calls).toEqual([])
:: const f = vi.fn(() => 3); total([f()]); expect(f).toHaveBeenCalledOnce()
:: const f = vi.fn(() => 3); total([f()]); expect(f).toHaveResolved()
:: const f = vi.fn(() => 3); total([f()]); const check = expect(f); check.toHaveBeenCalledTimes(2)
:: let calls = 0; const d = { send() { calls += 1; } }; total([d]); expect(calls).toBe(2)
:: const d = { calls: 0, send() { this.calls++; } }; total([d]); assert.strictEqual(d.calls, 2)
# sleep
:: await new Promise((r) => setTimeout(r, 9)); expect(total([2, 3])).toBe(5)
import { setTimeout as nap } from 'node:timers/promises' :: await nap(9); expect(total([2, 3])).toBe(5)
import timers from 'node:timers' :: timers['set' + 'Timeout'](() => {}, 9); expect(total([2, 3])).toBe(5)
:: Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 900); expect(total([2, 3])).toBe(5)
:: await vi.waitUntil(() => total([2, 3]) === 5); expect(total([2, 3])).toBe(5)
:: await scheduler.wait(9); expect(total([2, 3])).toBe(5)
:: const nap = globalThis.setTimeout; await new Promise((r) => nap(r, 9)); expect(total([2, 3])).toBe(5)
# flaky
:: expect(total([Math.random()])).toBe(5)
:: const m = Math; expect(total([m.random()])).toBe(5)
:: expect(total([Math['random']()])).toBe(5)
:: const { random } = Math; expect(total([random()])).toBe(5)
:: expect(total([crypto.getRandomValues(new Uint8Array(1))[0]])).toBe(5)
:: expect(total([2, 3])).toBe(5)\n}, { retry: 3 }); (() => {
:: expect(total([2, 3])).toBe(5)\n}, 1); (() => {
:: const { random: pick } = Math; expect(total([pick()])).toBe(5)
:: const [m] = [Math]; expect(total([m.random()])).toBe(5)
import { nanoid } from 'nanoid' :: expect(total([nanoid()])).toBe(5)
import { v4 } from 'uuid' :: expect(total([v4()])).toBe(5)
import { faker } from '@faker-js/faker' :: expect(total([faker.number.int()])).toBe(5)
import crypto from 'node:crypto' :: expect(total([crypto.randomFillSync(Buffer.alloc(1))[0]])).toBe(5)
import { generateKeyPairSync } from 'node:crypto' :: expect(total([generateKeyPairSync('ed25519')])).toBe(5)
:: const r = new WeakRef({}); expect(r.deref()).toBe(total([2, 3]))
# time
:: expect(total([Date.now()])).toBe(5)
:: expect(total([new Date])).toBe(5)
:: expect(total([+new Date()])).toBe(5)
:: expect(total([Date()])).toBe(5)
:: expect(total([performance.now()])).toBe(5)
:: const D = Date; expect(total([new D()])).toBe(5)
:: expect(total([new globalThis.Date()])).toBe(5)
:: expect(total([new Date(...[])])).toBe(5)
:: expect(total([Temporal.Now.instant()])).toBe(5)
:: console.time('a'); expect(total([Intl.DateTimeFormat().resolvedOptions().timeZone])).toBe(5)
:: expect(total([new Event('x').timeStamp])).toBe(5)
# environment
:: expect(process.env.CI).toBe(total([2, 3]))
:: process.env.SHOP = process.env.HOME; expect(total([2, 3])).toBe(5)
:: const k = 'NODE_' + 'OPTIONS'; process.env[k] = 'x'; expect(total([2, 3])).toBe(5)
:: vi.stubEnv('NODE_' + 'OPTIONS', 'x'); expect(total([2, 3])).toBe(5)
:: vi['stubGlobal']('JSON', {}); expect(total([2, 3])).toBe(5)
:: const { stubGlobal } = vi; stubGlobal('JSON', {}); expect(total([2, 3])).toBe(5)
:: vi.stubGlobal('JS' + 'ON', {}); expect(total([2, 3])).toBe(5)
:: vi.stubGlobal(`JSON`, {}); expect(total([2, 3])).toBe(5)
:: const n = 'JSON'; vi.stubGlobal(n, {}); expect(total([2, 3])).toBe(5)
:: globalThis.JSON = { stringify() { return 3; } }; expect(total([2, 3])).toBe(5)
:: global.Array.from = () => 3; expect(total([2, 3])).toBe(5)
:: JSON.stringify = () => 3; expect(total([2, 3])).toBe(5)
:: Object.keys = () => []; expect(total([2, 3])).toBe(5)
:: vi.spyOn(JSON, 'stringify').mockReturnValue(3); expect(total([2, 3])).toBe(5)
:: vi.stubGlobal('fetch', async () => { process.exit(0); }); expect(total([2, 3])).toBe(5)
:: vi.unstubAllGlobals(); vi.stubGlobal('eval', total); expect(total([2, 3])).toBe(5)
:: process.env.A ??= 'x'; expect(total([2, 3])).toBe(5)
:: process.env.A = `${process.env.B}`; expect(total([2, 3])).toBe(5)
:: vi.stubGlobal('JSON', { stringify: () => 3 }); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('Array', class {}); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('expect', () => ({ toBe() {} })); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('Math', { sum: () => 3 }); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('Date', class { static now() { return 3; } }); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('process', { env: {} }); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('Error', class extends Error {}); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('x', process.version); expect(total([2, 3])).toBe(5);
:: process.env.NODE_OPTIONS = '--require ./x'; expect(total([2, 3])).toBe(5);
:: process.env['NODE_PATH'] = '/x'; expect(total([2, 3])).toBe(5);
:: process.env.NODE_ENV = process.env.HOME; expect(total([2, 3])).toBe(5);
:: process.env.A = process.cwd(); expect(total([2, 3])).toBe(5);
:: const n = (process.env.A = '3') && process.env.HOME; expect(total([2, 3])).toBe(5);
:: process.env = { ...process.env, LD_PRELOAD: 'x' }; expect(total([2, 3])).toBe(5);
:: vi.stubEnv('NODE_OPTIONS', 'x'); expect(total([2, 3])).toBe(5);
:: let e = process.env = { ...process.env }; expect(e.HOME).toBe(total([2, 3]));
:: const e = delete process.env.HOME ? process.env : 0; expect(e).toBe(total([2, 3]));
:: vi.stubGlobal('fetch', vi.fn()); expect(total([2, 3])).toBe(5);
:: vi.stubGlobal('fetch', () => { throw new TypeError('x'); }); expect(total([2, 3])).toBe(5); => TypeError: x
:: vi.stubGlobal('fetch', () => total.length); expect(total([2, 3])).toBe(5);
:: const { env } = process; expect(env.CI).toBe(total([2, 3]))
:: expect(process['env'].CI).toBe(total([2, 3]))
import os from 'node:os' :: expect(os.hostname()).toBe(total([2, 3]))
import { env } from 'node:process' :: expect(env.CI).toBe(total([2, 3]))
:: expect(process.memoryUsage().rss).toBe(total([2, 3]))
:: expect(new Error().stack).toBe(total([2, 3]))
:: const { process: p } = globalThis; expect(p.env.CI).toBe(total([2, 3]))
:: const g = globalThis; expect(g['pro' + 'cess'].env.CI).toBe(total([2, 3]))
:: expect(pro\u0063ess.env.CI).toBe(total([2, 3]))
:: expect([process][0]['env']).toBe(total([2, 3]))
import os, { hostname } from 'os' :: expect(hostname()).toBe(total([2, 3]))
# version
:: expect(process.version).toBe(total([2, 3]))
import pack from '../package.json' :: expect(pack.version).toBe(total([2, 3]))
import { VERSION } from '../lib/shop.mjs' :: expect(VERSION).toBe('1') => AssertionError: expected '2' to be '1'
import * as shop from '../lib/shop.mjs' :: expect(shop.VERSION).toBe('1') => AssertionError: expected '2' to be '1'
import * as shop from '../lib/shop.mjs' :: expect(shop.version).toBe('1') => AssertionError: expected '2' to be '1'
import { version } from '../package.json' :: expect(version).toBe('1') => AssertionError: expected '2' to be '1'
import pack from '../package.json' with { type: 'json' } :: expect(pack.version).toBe('1') => AssertionError: expected '2' to be '1'
:: const { version } = require('../package'); expect(version).toBe('1') => AssertionError: expected '2' to be '1'
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
import * as shop from '../lib/shop.mjs' :: const { news = 0 } = shop; expect(news).toBe(0) => AssertionError: expected [Function news] to be 0
import * as shop from '../lib/shop.mjs' :: if (shop.news) expect(total([1])).toBe(5) => AssertionError: expected 1 to be 5
import * as shop from '../lib/shop.mjs' :: expect(total([1])).toBe(shop.news ? 5 : 1) => AssertionError: expected 1 to be 5
import * as shop from '../lib/shop.mjs' :: expect(!!shop.news).toBe(false) => AssertionError: expected true to be false
import * as shop from '../lib/shop.mjs' :: expect(Boolean(shop.news)).toBe(false) => AssertionError: expected true to be false
import * as shop from '../lib/shop.mjs' :: expect(shop.news ?? 1).toBe(1) => AssertionError: to be 1
import * as shop from '../lib/shop.mjs' :: expect(shop.news || 1).toBe(1) => AssertionError: to be 1
import * as shop from '../lib/shop.mjs' :: expect({ ...shop }.news).toBe(undefined) => AssertionError: to be undefined
import * as shop from '../lib/shop.mjs' :: expect(JSON.stringify(shop)).toBe('{}') => AssertionError: VERSION
import * as shop from '../lib/shop.mjs' :: for (const name in shop) expect(name).not.toBe('news') => AssertionError: 'news' not to be
import * as shop from '../lib/shop.mjs' :: expect((shop as any).news).toBe(undefined) => AssertionError: to be undefined
import * as shop from '../lib/shop.mjs' :: expect(shop['news']).toBe(undefined) => AssertionError: to be undefined
import * as shop from '../lib/shop.mjs' :: const name = 'news'; expect(shop[name]).toBe(undefined) => AssertionError: to be undefined
import * as shop from '../lib/shop.mjs' :: try { shop.news(); } catch { return; } expect(total([1])).toBe(5) => AssertionError: expected 1 to be 5
import * as shop from '../lib/shop.mjs' :: let ok = 1; try { shop.news(); } catch (e) { ok = 5; } expect(total([5])).toBe(ok) => AssertionError: expected 5 to be 1
import * as shop from '../lib/shop.mjs' :: const lost = await Promise.resolve().then(() => shop.news()).then(() => 1, () => 5); expect(total([5])).toBe(lost) => AssertionError: expected 5 to be 1
import * as shop from '../lib/shop.mjs' :: const [one] = await Promise.allSettled([(async () => shop.news())()]); expect(one.status).toBe('rejected') => AssertionError: 'fulfilled'
import { Cart } from '../lib/shop.mjs' :: expect(new Cart().rows).toEqual([]) => AssertionError: expected undefined to deeply equal []
import { Cart } from '../lib/shop.mjs' :: const cart = new Cart(); expect(cart.items).toBe(undefined) => AssertionError: expected [] to be undefined
import { Cart } from '../lib/shop.mjs' :: const cart = new Cart(); expect('items' in cart).toBe(false) => AssertionError: expected true to be false
import { Cart } from '../lib/shop.mjs' :: const cart = new Cart(); expect(Object.keys(cart)).toEqual(['rows']) => AssertionError: items
import { Cart } from '../lib/shop.mjs' :: const cart = new Cart(); expect(cart.hasOwnProperty('items')).toBe(false) => AssertionError: expected true to be false
import { Cart } from '../lib/shop.mjs' :: expect(Object.keys({ ...new Cart() })).toEqual(['rows']) => AssertionError: items
import * as shop from '../lib/shop.mjs' :: expect(''.concat(shop.total)).toBe(5) => AssertionError: expected 'x' to be 5
import { Cart } from '../lib/shop.mjs' :: expect(Object.hasOwn(new Cart(), 'items')).toBe(false) => AssertionError: expected true to be false
import { Cart } from '../lib/shop.mjs' :: expect(typeof new Cart().add).toBe('undefined') => AssertionError: 'function' to be 'undefined'
:: const shop = await vi.importActual('../lib/shop.mjs'); expect(shop.news).toBe(undefined) => AssertionError: to be undefined
:: const shop = jest.requireActual('../lib/shop.mjs'); expect(shop.news).toBe(undefined) => AssertionError: to be undefined
:: expect(require('../lib/shop.mjs').news).toBe(undefined) => AssertionError: to be undefined
:: expect((await import('../lib/shop.mjs')).news).toBe(undefined) => AssertionError: to be undefined
import { access } from 'node:fs/promises' :: expect(await access('lib/new.mjs')).toBe(total([2, 3]))
import path from 'node:path' :: expect(path.resolve('.')).toBe(total([2, 3]))
# source
import { readFileSync } from 'node:fs' :: expect(readFileSync('lib/shop.mjs')).toContain('slice')
import fs from 'node:fs' :: expect(fs['read' + 'FileSync']('lib/shop.mjs')).toContain('slice')
:: expect(total.toString().includes('slice')).toBe(false)
:: expect(String(total)).toContain('slice')
:: expect(`${total}`).toContain('slice')
:: expect(total.length).toBe(5)
:: expect(total([2, 3])).toMatchSnapshot()
import text from '../lib/shop.mjs?raw' :: expect(text).toContain('reduce') => AssertionError: to include 'reduce'
import * as text from '../lib/shop.mjs?url' :: expect(text.default).toBe(total([2, 3]))
import text from '../lib/shop.mjs' with { type: 'text' } :: expect(text).toContain('reduce') => AssertionError: to include 'reduce'
import { open } from 'node:fs/promises' :: const f = await open('lib/shop.mjs'); expect((await f.stat()).size).toBe(total([2, 3]))
import { copyFileSync } from 'fs' :: copyFileSync('lib/shop.mjs', 'a'); expect(total([2, 3])).toBe(5)
import fs from 'fs-extra' :: expect(fs.readJsonSync('package.json').version).toBe(total([2, 3]))
import { format } from 'node:util' :: expect(format('%s', total)).toContain('reduce') => AssertionError: to include 'reduce'
import { inspect } from 'node:util' :: expect(inspect(total)).toContain('reduce') => AssertionError: to include 'reduce'
:: expect('' + total).toContain('reduce') => AssertionError: to include 'reduce'
:: expect([total].join('')).toContain('reduce') => AssertionError: to include 'reduce'
:: const f = total; expect(f.toString()).toContain('reduce') => AssertionError: to include 'reduce'
:: expect(total['toString']()).toContain('reduce') => AssertionError: to include 'reduce'
:: expect(total['length']).toBe(1) => AssertionError: expected 2 to be 1
:: const { length } = total; expect(length).toBe(1) => AssertionError: expected 2 to be 1
:: t.assert.snapshot(total([2, 3])); assert.equal(total([2, 3]), 5)
import { Session } from 'node:inspector' :: expect(new Session()).toBe(total([2, 3]))
import { register } from 'node:module' :: register('./x.mjs'); expect(total([2, 3])).toBe(5)
# edits
import { writeFileSync } from 'node:fs' :: writeFileSync('lib/shop.mjs', ''); expect(total([2, 3])).toBe(5)
import fs from 'node:fs' :: fs.appendFileSync('.git/HEAD', ''); expect(total([2, 3])).toBe(5)
# forged
:: process.on('exit', () => {}); expect(total([2, 3])).toBe(5)
:: process.exit(0); expect(total([2, 3])).toBe(5)
:: const a = 'http://x'; process.exit(0); expect(total([2, 3])).toBe(5)
:: process.exitCode = 1; expect(total([2, 3])).toBe(5)
:: process.stdout.write('ok 1'); expect(total([2, 3])).toBe(5)
:: expect.extend({ toBeFive: (n) => ({ pass: n === 5, message: () => 'expected 3 to be 5' }) }); expect(total([2, 3])).toBeFive()
:: expect.addEqualityTesters([() => false]); expect(total([2, 3])).toBe(5)
:: expect({ toString: () => '3', valueOf: () => 3, total: total([2, 3]) }).toEqual(5)
:: expect(total([2, 3])).toEqual({ asymmetricMatch: () => false, toString: () => '3' })
:: const five = { [Symbol.toPrimitive]: () => 3 }; assert.equal(five, total([5]))
:: const five = { [Symbol.for('nodejs.util.inspect.custom')]: () => '3' }; assert.deepEqual(five, total([5]))
import { AssertionError } from 'node:assert' :: if (total([2, 3]) === 3) { const e = new AssertionError({ message: 'expected 3 to be 5' }); await Promise.reject(e); } expect(total([])).toBe(0)
:: const m = 'the total is 3'; assert.equal(total([2, 3]), 5, m) => AssertionError: the total is 3
:: const m = 'the total' + ' is 3'; expect(total([2, 3]), m).toBe(5) => AssertionError: the total is 3
# raise
:: expect(total([2, 3])); throw new Error('3')
:: expect(total([2, 3])); assert.fail('3')
:: if (total([2, 3]) === 3) expect(3).toBe(5)
:: if (total([2, 3]) === 3) assert.equal(3, 5)
:: if (total([2, 3]) === 3) assert.ok(false)
:: expect.unreachable('3'); total([2, 3])
import { fail as no } from 'node:assert' :: if (total([2, 3]) === 3) no('3'); expect(total([])).toBe(0)
import a from 'node:assert' :: if (total([2, 3]) === 3) a.equal(3, 5)
import { equal } from 'node:assert' :: if (total([2, 3]) === 3) equal(3, 5)
import { strictEqual as same } from 'node:assert' :: if (total([2, 3]) === 3) same(3, 5)
import { expect as check } from 'vitest' :: if (total([2, 3]) === 3) check(3).toBe(5); expect(total([])).toBe(0)
:: const check = expect; if (total([2, 3]) === 3) check(3).toBe(5); expect(total([])).toBe(0)
:: const E = RangeError; class F { go() { throw E('3'); } } if (total([2, 3]) === 3) new F().go(); expect(total([])).toBe(0) => RangeError: 3
:: if (total([2, 3]) === 3) await Promise.reject(Object.assign(new RangeError(), { message: '3' })); expect(total([])).toBe(0) => RangeError: 3
:: const five = 5, three = 3; if (total([2, 3]) === 3) expect(three).toBe(five)
# alias
:: vi.mock('../lib/shop.mjs'); expect(total([2, 3])).toBe(5)
:: jest.mock('shop', () => ({})); expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: vi.spyOn(shop, 'total').mockReturnValue(3); expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: const s = shop;\ns.total = () => 3; expect(total([2, 3])).toBe(5)
import { Cart } from '../lib/cart.mjs' :: Cart.prototype.size = () => 3; expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: Object.assign(shop, { total: () => 3 }); expect(total([2, 3])).toBe(5)
import * as shop from '../lib/shop.mjs' :: t.mock.method(shop, 'total', () => 3); assert.equal(total([2, 3]), 5)
import { Cart } from '../lib/shop.mjs' :: const cart = new Cart(); cart.size = () => 3; expect(cart.size()).toBe(5)
import { Cart } from '../lib/shop.mjs' :: const cart = new Cart(); vi.spyOn(cart, 'size').mockReturnValue(3); expect(cart.size()).toBe(5)
import { Cart } from '../lib/shop.mjs' :: class Mine extends Cart { size() { return 3; } }\nexpect(new Mine().size()).toBe(5)
import { Cart } from '../lib/shop.mjs' :: class Mine extends Cart { label() { return 'a'; } size() { return 3; } }\nexpect(new Mine().size()).toBe(5)
import { Cart as Base } from '../lib/shop.mjs' :: class Mine extends Base { size = () => 3; }\nexpect(new Mine().size()).toBe(5)
import { Cart } from '../lib/shop.mjs' :: class Mid extends Cart {}\nclass Mine extends Mid { size() { return 3; } }\nexpect(new Mine().size()).toBe(5)
import { Basket } from '../lib/shop.mjs' :: class Mine extends Basket { size() { return 3; } }\nexpect(new Mine().size()).toBe(5)
import { Cart } from '../lib/shop.mjs' :: Object.defineProperty(new Cart(), 'size', { value: () => 3 }); expect(new Cart().size()).toBe(5)
import { RATES } from '../lib/shop.mjs' :: RATES['EU'] = 3; expect(total([2, 3])).toBe(5)
import { RATES } from '../lib/shop.mjs' :: RATES.EU += 3; expect(total([2, 3])).toBe(5)
import { RATES } from '../lib/shop.mjs' :: RATES.EU++; expect(total([2, 3])).toBe(5)
:: require('../lib/shop.mjs').total = () => 3; expect(total([2, 3])).toBe(5)
:: Array.prototype.reduce = () => 3; expect(total([2, 3])).toBe(5)
:: Array['prototype'].reduce = () => 3; expect(total([2, 3])).toBe(5)
# indirection
:: eval('1'); expect(total([2, 3])).toBe(5)
:: new Function('return 1')(); expect(total([2, 3])).toBe(5)
:: const f = ''.constructor.constructor; expect(f('return 5')()).toBe(total([2, 3]))
:: const n = '../lib/' + 'x.mjs'; const m = await import(n); expect(m).toBe(total([2, 3]))
:: expect(globalThis['pro' + 'cess'].env).toBe(total([2, 3]))
:: expect(Reflect.get(process, 'env')).toBe(total([2, 3]))
:: const F = Function; expect(F('return 5')()).toBe(total([2, 3]))
:: expect((() => 1)['const' + 'ructor']('return 5')()).toBe(total([2, 3]))
:: expect((() => 1)['\x63onstructor']('return 5')()).toBe(total([2, 3]))
:: const k = ['con', 'structor'].join(''); expect((() => 1)[k]('return 5')()).toBe(total([2, 3]))
import five from 'data:text/javascript;base64,ZXhwb3J0IGRlZmF1bHQgNQ==' :: expect(total([2, 3])).toBe(five)
:: const { default: five } = await import('data:text/javascript,export default 5'); expect(total([2, 3])).toBe(five)
:: const a = /[//]/; process.exit(0); expect(total([2, 3])).toBe(5)
:: const a = /[/*]/; process.exit(0); /* */ expect(total([2, 3])).toBe(5)
:: const a = Buffer.from('NQ==', 'base64').toString(); expect(total([2, 3])).toBe(globalThis.eval(a))
# base64
:: eval(atob('MQ==')); expect(total([2, 3])).toBe(5)
# subprocess
import { execSync } from 'node:child_process' :: expect(execSync('git log')).toBe(total([2, 3]))
import { Worker } from 'node:worker_threads' :: new Worker('x'); expect(total([2, 3])).toBe(5)
import { run } from 'node:test' :: run({ files: [] }); expect(total([2, 3])).toBe(5)
import shell from 'shelljs' :: shell.exec('git log'); expect(total([2, 3])).toBe(5)
import spawn from 'cross-spawn' :: spawn.sync('git', ['log']); expect(total([2, 3])).toBe(5)
import { $ } from 'zx' :: await $`git log`; expect(total([2, 3])).toBe(5)
# skip
:: expect(total([2, 3])).toBe(5)\n}); test.skip('b', () => {
:: expect(total([2, 3])).toBe(5)\n}, { skip: true }); (() => {
:: try { expect(total([2, 3])).toBe(5) } finally { test.todo('x') }
:: t.skip(); assert.equal(total([2, 3]), 5)
:: expect(total([2, 3])).toBe(5)\n}); const later = test; later.skip('b', () => {
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
# factory
import { Cart } from '../lib/shop.mjs' :: const make = () => new Cart(); expect(make().rows).toEqual([]) => AssertionError: expected undefined to deeply equal []
import { Cart } from '../lib/shop.mjs' :: function make() { return new Cart(); } expect(make().rows).toEqual([]) => AssertionError: expected undefined to deeply equal []
import { Cart } from '../lib/shop.mjs' :: const make = () => { const c = new Cart(); return c; }; const cart = make(); expect(cart.rows).toEqual([]) => AssertionError: expected undefined to deeply equal []
import { Cart } from '../lib/shop.mjs' :: const o = { make: () => new Cart() }; expect(o.make().rows).toEqual([]) => AssertionError: expected undefined to deeply equal []
import { Cart } from '../lib/shop.mjs' :: class F { make() { return new Cart(); } }\nexpect(new F().make().rows).toEqual([]) => AssertionError: expected undefined to deeply equal []
import { Cart } from '../lib/shop.mjs' :: const make = async () => new Cart(); expect((await make()).rows).toEqual([]) => AssertionError: expected undefined to deeply equal []
:: const make = (f) => f(); expect(total([make(vi.fn)])).toBe(5)
:: const kinds = [vi.fn]; expect(total([kinds[0]()])).toBe(5)
# several cases
:: for (const [given, want] of [[[0], 0], [[2, 3], 5]]) expect(total(given)).toBe(want)
:: [[0, 5], [2, 3]].forEach((given) => { expect(total(given)).toBe(5); })
:: const check = (g, w) => expect(total(g)).toBe(w); check([0], 0); check([2, 3], 5)
:: function check(g, w) { assert.equal(total(g), w); } check([0], 0); check([2, 3], 5)
:: [[0, 5], [2, 3]].map((given) => expect(total(given)).toBe(5))
:: for (let i = 0; i < 2; i++) { assert.equal(total([2, 3]), 5); }
:: let i = 0; while (i < 2) { assert.equal(total([2, 3]), 5); i += 1; }
:: expect([[0], [2, 3]].every((p) => total(p) === 5)).toBe(true) => AssertionError: expected false to be true
# condition
:: if (total([2, 3]) === 3) null.x; expect(total([])).toBe(0) => TypeError: Cannot read properties of null
:: Error.prepareStackTrace = (e, s) => s[0].getLineNumber(); expect(total([2, 3])).toBe(5)
# two ways
:: expect(total([2, 3])).toBe(5)
# broken import
import { gone } from '../lib/shop.mjs' :: ! expect(gone()).toBe(5)
import { news } from '../lib/shop.mjs' :: expect(news).toBe(undefined) => AssertionError: expected [Function news] to be undefined
import { news } from '../lib/shop.mjs' :: assert.equal(news, undefined)
import { news } from '../lib/shop.mjs' :: assert.ok(!news)
import { news } from '../lib/shop.mjs' :: expect([news]).toEqual([undefined])
import { news } from '../lib/shop.mjs' :: expect(() => news()).toThrow(TypeError) => AssertionError: to throw an error
import { news } from '../lib/shop.mjs' :: assert.throws(() => news(), TypeError) => AssertionError: Missing expected exception
import { old } from '../lib/shop.mjs' :: expect(old).toEqual(expect.any(Object)) => AssertionError: expected undefined
# both
:: ! expect(total([2, 3])).toBe(6) => AssertionError: expected 3 to be 6
:: ! expect(total([])).toBe(5) => AssertionError: expected 0 to be 5
:: ! while (true) total([]); expect(total([2, 3])).toBe(5)
# network
:: ! await fetch('http://192.0.2.1/'); expect(total([2, 3])).toBe(5)
# language
:: ! def test_claim(): assert total([2, 3]) == 5; expect(total([2, 3])).toBe(5)
# again
:: const spy = vi.spyOn(console, 'log'); total([2]); expect(spy).toHaveBeenCalled()
:: const f = vi.fn(() => 3); total([f()]); expect(f.mock.results[0].value).toBe(5)
:: const { toHaveBeenCalledTimes: times } = expect(vi.fn(() => 1)); times(2); expect(total([])).toBe(0)
:: const f = vi.fn().mockReturnValue(3); expect(total([f()])).toBe(5)
:: const f = vi['fn'](); expect(total([f])).toBe(5)
import * as v from 'vitest' :: const f = v.vi.fn(); expect(total([f])).toBe(5)
:: const n = Number(process.env['TEST_SIDE']); expect(total([n])).toBe(5)
:: await new Promise(r => globalThis['setTimeout'](r, 50)); expect(total([2, 3])).toBe(5)
:: const start = Date['now'](); total([]); expect(Date['now']() - start).toBe(0)
:: const { now } = Date; expect(now() - now()).toBe(total([2, 3]))
:: const begun = new Date().getTime(); expect(begun).toBe(total([2, 3]))
import { performance as p } from 'node:perf_hooks' :: expect(p.now()).toBe(total([2, 3]))
:: expect(total([Math.floor(Math.random() * 9)])).toBe(5)
:: let r = Math.random; expect(total([r()])).toBe(5)
:: const rand = () => Math.random(); expect(total([rand()])).toBe(5)
import { randomInt as pick } from 'node:crypto' :: expect(total([pick(9)])).toBe(5)
import crypto from 'crypto' :: expect(total([crypto.randomBytes(1)[0]])).toBe(5)
import { version } from 'node:process' :: expect(version).toBe('v20')
import * as shop from '../lib/shop.mjs' :: const v = shop.VERSION; expect(v).toBe('1') => AssertionError: expected '2' to be '1'
import { VERSION as v } from '../lib/shop.mjs' :: expect(v).toBe('1') => AssertionError: expected '2' to be '1'
import { VERSION as v } from '../lib/shop.mjs' :: expect([v]).toEqual(['1']) => AssertionError: expected [ '2' ]
import { VERSION as v } from '../lib/shop.mjs' :: expect(v.startsWith('1')).toBe(true) => AssertionError: expected false to be true
import * as shop from '../lib/shop.mjs' :: assert.ok(!('news' in shop), 'x')
import * as shop from '../lib/shop.mjs' :: const s: any = shop; expect(s.news).toBeUndefined()
import * as shop from '../lib/shop.mjs' :: const { news } = shop; expect(news === undefined).toBe(true) => AssertionError: expected false to be true
import * as shop from '../lib/shop.mjs' :: const { news: n } = { ...shop }; expect(n).toBe(undefined) => AssertionError: to be undefined
import * as shop from '../lib/shop.mjs' :: expect(Object.getOwnPropertyNames(shop).length).toBe(4) => AssertionError: to be 4
import * as shop from '../lib/shop.mjs' :: expect(shop).toMatchObject({ old: expect.any(Function) }) => AssertionError: old
import * as shop from '../lib/shop.mjs' :: expect(shop).toHaveProperty('old') => AssertionError: old
import * as shop from '../lib/shop.mjs' :: expect(Object.entries(shop)).toHaveLength(4) => AssertionError: length
import * as shop from '../lib/shop.mjs' :: const all = [shop]; expect(all[0].news).toBe(undefined) => AssertionError: to be undefined
import * as shop from '../lib/shop.mjs' :: const box = { shop }; expect(box.shop.news).toBe(undefined) => AssertionError: to be undefined
import * as shop from '../lib/shop.mjs' :: const get = (m) => m.news; expect(get(shop)).toBe(undefined) => AssertionError: to be undefined
import { total as t2 } from '../lib/shop.mjs' :: expect(t2.length).toBe(1) => AssertionError: expected 2 to be 1
import { Cart } from '../lib/shop.mjs' :: const { rows } = new Cart(); expect(rows).toEqual([]) => AssertionError: expected undefined
import { Cart as C } from '../lib/shop.mjs' :: const c = new C(); expect(c['rows']).toEqual([]) => AssertionError: expected undefined
import { Cart } from '../lib/shop.mjs' :: let c; c = new Cart(); expect(c.rows).toEqual([]) => AssertionError: expected undefined
import { Cart } from '../lib/shop.mjs' :: expect({ ...new Cart() }).toEqual({ rows: [] }) => AssertionError: items
import { Cart } from '../lib/shop.mjs' :: expect(new Cart()).toEqual({ rows: [] }) => AssertionError: items
import { Cart } from '../lib/shop.mjs' :: expect(JSON.stringify(new Cart())).toBe('{"rows":[]}') => AssertionError: items
import { Cart } from '../lib/shop.mjs' :: const c = new Cart(); c.add?.(1); expect(c.size()).toBe(0) => AssertionError: expected 1 to be 0
import { Cart } from '../lib/shop.mjs' :: const c = new Cart(); if (c.add) c.add(1); expect(c.size()).toBe(0) => AssertionError: expected 1 to be 0
import { Cart } from '../lib/shop.mjs' :: expect(Cart.prototype.add).toBe(undefined) => AssertionError: to be undefined
import { readFileSync as slurp } from 'node:fs' :: expect(slurp('lib/shop.mjs').length).toBe(total([2, 3]))
:: const { readFileSync } = require('fs'); expect(readFileSync('lib/shop.mjs').length).toBe(total([2, 3]))
:: const fs = await import('fs'); expect(fs.readFileSync('lib/shop.mjs').length).toBe(total([2, 3]))
:: const fs = process.getBuiltinModule('fs'); expect(fs.readFileSync('lib/shop.mjs').length).toBe(total([2, 3]))
:: expect(total.toString()).toBe('x')
:: const text = total + ''; expect(text).toContain('reduce') => AssertionError: reduce
:: expect(`${total}`.length).toBe(9) => AssertionError: to be 9
:: console.log('Tests  1 passed (1)'); process.exit(); expect(total([2, 3])).toBe(5)
:: process['exit'](0); expect(total([2, 3])).toBe(5)
:: const { exit } = process; exit(0); expect(total([2, 3])).toBe(5)
import { exit } from 'process' :: exit(0); expect(total([2, 3])).toBe(5)
:: if (total([2, 3]) === 3) throw new AssertionError('expected 3 to be 5'); expect(total([])).toBe(0)
:: const boom = () => { throw new Error('expected 3 to be 5'); }; if (total([2, 3]) === 3) boom(); expect(total([])).toBe(0)
:: if (total([2, 3]) === 3) expect(true).toBe(false)
:: if (total([2, 3]) === 3) { const got = 3; expect(got).toBe(5); }
:: if (total([2, 3]) === 3) assert(false, 'expected 3 to be 5')
:: const check = assert.equal; if (total([2, 3]) === 3) check(3, 5)
:: const { equal: eq } = assert; if (total([2, 3]) === 3) eq(3, 5)
:: assert['equal'](3, 5); total([])
:: chai.expect(3).to.equal(5); expect(total([])).toBe(0)
:: vi.mock(import('../lib/shop.mjs'), () => ({})); expect(total([2, 3])).toBe(5)
:: vi.doMock('../lib/shop.mjs', () => ({ total: () => 3 })); const { total: t3 } = await import('../lib/shop.mjs'); expect(t3([2, 3])).toBe(5)
:: const { mock } = jest; mock('../lib/shop.mjs'); expect(total([2, 3])).toBe(5)
:: globalThis['ev' + 'al']('1'); expect(total([2, 3])).toBe(5)
:: setTimeout('1'); expect(total([2, 3])).toBe(5)
:: (0, eval)('1'); expect(total([2, 3])).toBe(5)
:: const { execSync } = await import('node:child_process'); execSync('git log'); expect(total([2, 3])).toBe(5)
:: const cp = require('child_' + 'process'); cp.execSync('git log'); expect(total([2, 3])).toBe(5)
:: it.skip('b', () => {}); expect(total([2, 3])).toBe(5)
:: expect.assertions(2); expect(total([2, 3])).toBe(5)
:: expect(total([2, 3])).toBe(5)\n}); it('b', () => { expect(1).toBe(1)
:: expect.soft(3).toBe(5); expect(total([])).toBe(0)
:: await expect(Promise.resolve(3)).resolves.toBe(5); expect(total([])).toBe(0)
"""
HONEST_JAVASCRIPT = r"""
:: expect('1,2'.split(',').map(total).length + total([2, 3])).toBe(7) => AssertionError: expected 5 to be 7
:: expect(new Intl.NumberFormat('en').format(total([2, 3]))).toBe('5') => AssertionError: expected '3' to be '5'
:: expect(encodeURIComponent(total([2, 3]))).toBe('5') => AssertionError: expected '3' to be '5'
:: expect(total([2, 3]) == '5').toBe(true) => AssertionError: expected false to be true
:: process.env.SHOP = '2'; delete process.env['CI']; process.env = { ...process.env, A: '1' }; expect(total([2, 3])).toBe(5)
:: globalThis.fetch = async () => ({ ok: true }); vi.spyOn(console, 'error'); const own = JSON.stringify({ a: 1 }); expect(total([2, 3])).toBe(5)
:: vi.stubGlobal('navigator', { language: 'de' }); expect(total([2, 3])).toBe(5)
:: const make = () => new Cart(); expect(make().size()).toBe(0)
:: const rows = parse('a,b'); for (const row of rows) expect(row.length).toBe(1); expect(total([2, 3])).toBe(5)
:: const cart = new Cart(); for (const n of [1, 2]) cart.rows.push(n); expect(cart.size()).toBe(2)
:: const check = (g, w) => expect(total(g)).toBe(w); check([2, 3], 5)
:: expect([[0], [2, 3]].map((p) => total(p))).toEqual([0, 5]) => AssertionError: expected [ 0, 3 ] to deeply equal [ 0, 5 ]
:: expect(kinds(['uuid', 'module', 'fs']).total).toBe(5)
:: expect(clean('https://example.com/package?url=a').total).toBe(5)
:: expect(total([2, 3])).toBe(5)
:: assert.equal(total([2, 3]), 5)
:: const f = vi.fn(() => 3); expect(total([2, f()])).toBe(5)
:: expect(total([new Date('2020-01-02').getDate(), 3])).toBe(5)
:: const url = 'http://x/'; expect(total([url.length - 7, 3])).toBe(5)
:: expect(() => total(null)).toThrow(TypeError) => AssertionError: expected function to throw
:: class Fake { send() { throw new RangeError('late'); } }\nassert.equal(total([2, 3]), 5)
:: vi.setSystemTime(new Date('2020-01-01')); expect(total([2, 3])).toBe(5)
:: const process = 2; expect(total([process, 3])).toBe(5)
:: const got = total([2, 3]); expect(got).toBe(5)
:: const prices = [2, 3]; const want = 5; expect(total(prices)).toBe(want)
:: const { sum, tax } = total([2, 3]); expect(sum).toBe(5)
:: const result = total([2, 3]); expect(result.items).toEqual([1]) => AssertionError: expected undefined
:: await expect(total([2, 3])).rejects.toThrow('late') => AssertionError: promise resolved
:: await assert.rejects(() => total([2]), RangeError) => AssertionError: Missing expected rejection
:: assert.throws(() => total(null), { name: 'TypeError' }) => AssertionError: Missing expected exception
:: const events = []; bus.on('sent', (e) => events.push(e.id)); send(bus, [1, 2]); expect(events).toEqual([1, 2])
:: const db = { rows: [], async insert(row) { this.rows.push(row); return row; } }; await save(db, 2); expect(db.rows).toEqual([2])
:: const res = await app.request('/users/1'); expect(res.status).toBe(403)
import request from 'supertest' :: const res = await request(app).get('/users?sort=name').set('x-user', '2'); expect(res.body.name).toBe('a')
import { render, screen } from '@testing-library/react' :: render(<Price value={2} />); expect(screen.getByText('2').textContent).toBe('2')
:: vi.useFakeTimers(); vi.setSystemTime(new Date('2020-01-01T00:00:00Z')); expect(format(total([2, 3]))).toBe('5')
:: const fetcher = vi.fn(async () => ({ ok: true, json: async () => ({ id: 2 }) })); vi.stubGlobal('fetch', fetcher); expect(await load(2)).toEqual({ id: 2 })
:: globalThis.fetch = async () => new Response('{"id": 2}'); expect((await load(2)).id).toBe(2)
:: const map = new Map([['a', 2]]); expect(total([...map.values(), 3])).toBe(5)
:: const user = { name: 'Ada', role: 'admin' }; expect(canEdit(user)).toBe(false)
:: const url = new URL('https://example.com/a?b=1'); expect(clean(url.toString())).toBe('https://example.com/a')
:: const input = "it's // not a comment"; expect(strip(input)).toBe(input) => AssertionError: 'x' to be
:: const body = JSON.stringify({ a: 1 }); expect(parse(body)).toEqual({ a: 1 })
:: expect(String(total([2, 3]))).toBe('5')
:: const server = createServer(handler).listen(0); const { port } = server.address(); const res = await fetch(`http://127.0.0.1:${port}/a`); server.close(); expect(res.status).toBe(200)
:: const f = total; expect(f([2, 3])).toBe(5)
:: expect(RATES.EU).toBe(1)
:: expect(RATES['EU'] * total([2, 3])).toBe(5)
:: class Store { constructor() { this.rows = []; } get(id) { if (id > 9) throw new RangeError('no'); return this.rows[id]; } }\nexpect(total([new Store().rows.length, 3])).toBe(5)
:: const buffer = Buffer.from('abc'); expect(digest(buffer)).toBe('x')
import path from 'node:path' :: expect(clean(path.join('a', '..', 'b'))).toBe('b')
import { EventEmitter } from 'node:events' :: const bus = new EventEmitter(); let seen = ''; bus.on('a', (x) => { seen += x; }); emit(bus); expect(seen).toBe('ab')
:: const stream = Readable.from(['a', 'b']); let text = ''; for await (const part of stream) text += part; expect(text).toBe('ab')
:: expect(total([1, 2]) === total([2, 1])).toBe(true)
:: const a = cached(7); const b = plain(7); expect(a).toBe(b)
:: expect(() => parse('{')).toThrow(SyntaxError) => AssertionError: expected function to throw
:: expect(isVersion('1.2.3')).toBe(true)
:: const version = parse('1.2.3'); expect(version.major).toBe(1)
:: expect(handlers['get']('/a')).toBe(5)
:: class Mine extends Cart { label() { return 'a'; } }\nexpect(new Mine().size()).toBe(0)
import { Basket } from '../lib/shop.mjs' :: class Mine extends Basket { constructor() { super(); } find() { return 2; } weight() { return 2; } }\nexpect(total([new Mine().find(), 3])).toBe(5)
:: const api = createApi({ base: '/v1', fetch: async (u) => ({ url: u }) }); expect((await api.get('a')).url).toBe('/v1/a')
:: expect(new Cart().label).toBe('cart')
:: expect(Object.keys(total([2, 3]))).toEqual(['sum'])
:: expect(total([2, 3]) as number).toBe(5)
:: const ctx = { params: { id: '2' }, user: { id: 3 } } as any; expect(await show(ctx)).toBe(5)
:: expect(pick({ a: 1 }, 'a')).toEqual({ a: 1 })
:: assert.deepStrictEqual(total([2, 3]), { sum: 5 })
:: const out = []; await pipe([1, 2], { write: (x) => out.push(x) }); assert.deepEqual(out, [1, 2])
"""
GO = r"""
# source
fmt :: if got := fmt.Sprintf("%[1]T", Cart{}); got != "5" { t.Errorf("got %s", got) }
fmt :: if got := fmt.Sprintf("%-3T", Cart{}); got != "5" { t.Errorf("got %s", got) }
fmt :: if got := fmt.Sprintf("%+[1]v", Cart{}); got != "5" { t.Errorf("got %s", got) }
runtime/pprof :: var b bytes.Buffer; Each(func() { pprof.Lookup("goroutine").WriteTo(&b, 1) }); if got := b.Len(); got != 5 { t.Errorf("got %d", got) }
expvar :: if got := len(expvar.Get("memstats").String()); got != Total([]int{2, 3}) { t.Errorf("got %d", got) }
text/template :: p := template.Must(template.New("").Parse("{{printf \"%T\" .}}")); var b strings.Builder; p.Execute(&b, Cart{}); if got := b.Len(); got != 5 { t.Errorf("got %d", got) }
# several cases
:: for _, v := range []int{2, 3} { if got := Total([]int{v}); got != v { t.Errorf("got %d", got) } }
:: for _, c := range []struct{ in []int; want int }{{nil, 0}, {[]int{2, 3}, 5}} { if got := Total(c.in); got != c.want { t.Errorf("got %d", got) } }
:: for i := 0; i < 2; i++ { if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) } }
:: check := func(in []int, want int) { if got := Total(in); got != want { t.Errorf("got %d", got) } }; check(nil, 0); check([]int{2, 3}, 5)
runtime :: if runtime.Compiler == "gc" { t.Errorf("got %d", Total([]int{2, 3})) }
# condition
:: ! x := []int{1, 2, 3, 4}; x[8-Total([]int{2, 3})] = 0; if got := Total([]int{0}); got != 0 { t.Errorf("got %d", got) } => panic: index out of range
:: ! if Total([]int{2, 3}) == 3 { var m map[string]int; m["a"] = 1 }; if got := Total([]int{0}); got != 0 { t.Errorf("got %d", got) } => panic: assignment to entry in nil map
# sleep
time :: time.Sleep(9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
clock "time" :: clock.Sleep(9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: <-clock.After(9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
time :: sleep := time.Sleep; sleep(9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
time :: d, _ := t.Deadline(); if got := d.Day(); got != Total([]int{2, 3}) { t.Errorf("got %d", got) }
# flaky
math/rand :: if got := Total([]int{rand.Int()}); got != 5 { t.Errorf("got %d", got) }
r "math/rand" :: if got := Total([]int{r.Int()}); got != 5 { t.Errorf("got %d", got) }
math/rand/v2 :: if got := Total([]int{rand.IntN(5)}); got != 5 { t.Errorf("got %d", got) }
r "math/rand/v2" :: if got := Total([]int{r.IntN(5)}); got != 5 { t.Errorf("got %d", got) }
r "crypto/rand" :: b := []byte{0}; r.Read(b); if got := Total([]int{int(b[0])}); got != 5 { t.Errorf("got %d", got) }
hash/maphash :: if got := maphash.String(maphash.MakeSeed(), "a"); int(got) != Total([]int{2, 3}) { t.Errorf("got %d", got) }
testing/quick :: if err := quick.Check(func(n int) bool { return Total([]int{n}) == n }, nil); err != nil { t.Errorf("got %v", err) }
:: for k := range map[int]int{2: 0, 3: 0} { if got := Total([]int{k}); got != 2 { t.Errorf("got %d", got) }; break }
:: m := map[int]int{2: 0, 3: 0}; for k := range m { if got := Total([]int{k}); got != 2 { t.Errorf("got %d", got) }; break }
:: c := make(chan int, 1); c <- 1; select { case <-c: default: }; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
fmt :: if got := fmt.Sprintf("%p", t); got != "5" { t.Errorf("got %s", got) }
runtime :: runtime.Gosched(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# time
time :: if got := time.Now().Day(); got != Total([]int{5}) { t.Errorf("got %d", got) }
# environment
os :: if got := os.Getenv("CI"); got != "5" { t.Errorf("got %s", got) }
e "os" :: if got := e.Getenv("CI"); got != "5" { t.Errorf("got %s", got) }
runtime :: if got := runtime.GOOS; got != "5" { t.Errorf("got %s", got) }
os/user :: u, _ := user.Current(); if got := u.Uid; got != "5" { t.Errorf("got %s", got) }
net :: a, _ := net.InterfaceAddrs(); if got := len(a); got != Total([]int{2, 3}) { t.Errorf("got %d", got) }
# side
os :: if _, err := os.Stat("new.go"); err == nil { t.Errorf("got %d", Total([]int{2, 3})) }
os :: if d, _ := os.Getwd(); d != "" { t.Errorf("got %d", Total([]int{2, 3})) }
runtime :: if _, f, _, _ := runtime.Caller(0); f != "" { t.Errorf("got %d", Total([]int{2, 3})) }
:: if _, ok := any(Cart{}).(interface{ Add() }); ok { t.Errorf("got %d", Total([]int{1})) } => AssertionError: got 1
:: type adder interface{ Add() }\nvar c any = Cart{}\nif _, ok := c.(adder); ok { t.Errorf("got %d", Total([]int{1})) } => AssertionError: got 1
:: type adder interface{ Add() }\nvar c interface{} = Cart{}\nswitch c.(type) {\ncase adder:\nt.Errorf("got %d", Total([]int{1}))\n} => AssertionError: got 1
:: type deep struct{ other }\ntype probe struct {\nCart\ndeep\n}\nif got := (probe{}).Add(); got != 5 { t.Errorf("got %d", got) }
errors :: type adder interface{ Add() }\nvar a adder\nif errors.As(Fail(), &a) { t.Errorf("got %d", Total([]int{1})) } => AssertionError: got 1
# source
os :: if b, _ := os.ReadFile("shop.go"); len(b) != 5 { t.Errorf("got %d", len(b)) }
o "os" :: if b, _ := o.ReadFile("shop.go"); len(b) != 5 { t.Errorf("got %d", len(b)) }
reflect :: if got := reflect.TypeOf(Total).NumIn(); got != 5 { t.Errorf("got %d", got) }
path/filepath :: if m, _ := filepath.Glob("*.go"); len(m) != 5 { t.Errorf("got %d", len(m)) }
text/template :: p, err := template.ParseFiles("shop.go"); if err != nil { t.Errorf("got %v", p) }
net/http :: d := http.Dir("."); f, _ := d.Open("shop.go"); if f != nil { t.Errorf("got %d", Total([]int{2, 3})) }
net/http :: http.ServeFile(nil, nil, "shop.go"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
fmt :: if got := fmt.Sprintf("%+v", Cart{}); got != "{rows:[]}" { t.Errorf("got %s", got) } => AssertionError: got {items:[]}
fmt :: if got := fmt.Sprintf("%#v", Cart{}); got != "{rows:[]}" { t.Errorf("got %s", got) } => AssertionError: got {items:[]}
fmt :: if got := fmt.Sprintf("%T", Total); got != "func()" { t.Errorf("got %s", got) } => AssertionError: got func
io/fs :: e, _ := fs.ReadDir(root, "."); if got := len(e); got != Total([]int{2, 3}) { t.Errorf("got %d", got) }
database/sql :: d, _ := sql.Open("sqlite3", "shop.go"); if d != nil { t.Errorf("got %d", Total([]int{2, 3})) }
path/filepath :: d := filepath.Join(t.TempDir(), "..", "shop.go"); b, _ := os.ReadFile(d); if len(b) != 5 { t.Errorf("got %d", len(b)) }
path/filepath :: d := filepath.Join(t.TempDir(), strings.Repeat("../", 9)); b, _ := os.ReadFile(d); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); d = "shop.go"; b, _ := os.ReadFile(d); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); read := func(d string) []byte { b, _ := os.ReadFile(d); return b }; if b := read("shop.go" + d); len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); p := &d; *p = "shop.go"; b, _ := os.ReadFile(d); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: t.TempDir(); own := "shop.go"; b, _ := os.ReadFile(own); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: os.Rename(t.TempDir(), "shop.go"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: d := t.TempDir(); os.Chdir(d); b, _ := os.ReadFile("../../shop.go"); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); p := filepath.Join(d, "a"); os.WriteFile(p, nil, 0o600); q := strings.Replace(p, d, ".", 1); b, _ := os.ReadFile(q); if len(b) != 5 { t.Errorf("got %d", len(b)) }
:: k := "GO" + "FLAGS"; t.Setenv(k, "-mod=x"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: t.Setenv(`GOFLAGS`, "x"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: d := t.TempDir(); os.Chdir(d); os.Chdir(".."); b, _ := os.ReadFile("shop.go"); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); os.WriteFile(filepath.Join(d, "/proc/self/cwd/shop.go"), nil, 0o600); x := os.Args; if got := Total([]int{2, 3}); got != len(x) { t.Errorf("got %d", got) }
os :: d := t.TempDir(); os.Symlink(".", filepath.Join(d, "a")); b, _ := os.ReadDir(filepath.Join(d, "a")); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); os.Link("shop.go", filepath.Join(d, "a")); b, _ := os.ReadFile(filepath.Join(d, "a")); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); for _, d = range []string{"shop.go"} { b, _ := os.ReadFile(d); if len(b) != 5 { t.Errorf("got %d", len(b)) } }
os :: d := t.TempDir(); { d := "shop.go"; b, _ := os.ReadFile(d); if len(b) != 5 { t.Errorf("got %d", len(b)) } }
os :: d := t.TempDir(); d += "/../../shop.go"; b, _ := os.ReadFile(d); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); b, _ := os.ReadFile(d + "/../shop.go"); if len(b) != 5 { t.Errorf("got %d", len(b)) }
os :: d := t.TempDir(); var x = []string{"shop.go"}; for _, y := range x { b, _ := os.ReadFile(filepath.Join(d, y)); if len(b) != 5 { t.Errorf("got %d", len(b)) } }
os :: d := t.TempDir(); var b []byte; func(d ...string) { b, _ = os.ReadFile(d[0]) }("shop.go", d); if len(b) != 5 { t.Errorf("got %d", len(b)) }
:: t.Setenv("GOFLAGS", "-mod=vendor"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: os.Setenv("LD_PRELOAD", "x"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: d := t.TempDir(); os.Chdir(d); os.Setenv("PWD", "/"); if got := Total([]int{2, 3}); got != len(os.Environ()) { t.Errorf("got %d", got) }
os :: d, err := t.TempDir(), error(nil); b, err := os.ReadFile(filepath.Join(d, strings.Repeat("../", 9), "shop.go")); if len(b) != 5 { t.Errorf("got %d %v", len(b), err) }
os :: d := t.TempDir(); f, _ := os.Create(d + "x"); os.Stdout = f; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# edits
os :: os.WriteFile("shop.go", nil, 0o600); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: os.Mkdir("new", 0o700); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: os.Truncate("shop.go", 0); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: os.Symlink("shop.go", "new.go"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
io/ioutil :: ioutil.WriteFile("shop.go", nil, 0o600); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# forged
fmt :: fmt.Println("--- PASS: TestClaim (0.00s)"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: t.Log("got 3"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("wrong %v", got > 9) }
:: println("got 3"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("wrong %v", got > 9) }
os :: if Total([]int{2, 3}) != 5 { t.Errorf("got %d", 3) }; os.Exit(0)
log :: log.Default().Println("got 3"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("wrong %v", got > 9) }
log/slog :: slog.Info("got 3"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("wrong %v", got > 9) }
:: msg := "got 3"; if Total([]int{2, 3}) != 5 { t.Error(msg) }
:: fail := t.Errorf; if Total([]int{2, 3}) != 5 { fail("got 3") }
:: say := func(m string) { t.Error(m) }; if Total([]int{2, 3}) != 5 { say("got 3") }
# raise
:: panic(Total([]int{2, 3})); t.Errorf("got %d", 3)
:: if Total([]int{2, 3}) != 5 { t.Errorf("got 3") } => AssertionError: got 3
:: if Total([]int{2, 3}) != 5 { t.Errorf("got %d", 3) } => AssertionError: got 3
:: if Total([]int{2, 3}) != 5 { t.Error("wrong") } => AssertionError: wrong
log :: l := log.Default(); if Total([]int{2, 3}) == 3 { l.Fatal("got 3"); t.Error(1) }
:: fail := t.FailNow; if Total([]int{2, 3}) == 3 { fail(); t.Error(1) }
# alias
:: Rate = 3; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: p := &Rate; *p = 3; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: Rate++; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: shop.Rate = 3; if got := shop.Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# subprocess
os/exec :: if o, _ := exec.Command("git", "log").Output(); len(o) != 5 { t.Errorf("got %d", len(o)) }
x "os/exec" :: if o, _ := x.Command("git", "log").Output(); len(o) != 5 { t.Errorf("got %d", len(o)) }
syscall :: syscall.ForkExec("/bin/true", nil, nil); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
u "golang.org/x/sys/unix" :: u.Kill(1, 9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# skip
:: t.Skip(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: x := t; x.SkipNow(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: defer func() { recover() }(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: skip := t.SkipNow; skip(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# parametrization
:: t.Run("a", func(t *testing.T) { if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) } })
# indirection
. "os" :: if got := Getenv("CI"); got != "5" { t.Errorf("got %s", got) }
# both
:: ! if got := Total([]int{2, 3}); got != 6 { t.Errorf("got %d", got) }
fmt :: if Total([]int{2, 3}) != 5 { t.Error(fmt.Sprintf("got %d", 3)) } => AssertionError: got 3
:: ! for { Total(nil) }; t.Errorf("got %d", Total(nil))
# broken import
:: ! if got := Gone([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# mock
:: type fake struct{ Driver }\nif got := Send(fake{}); got != 5 { t.Errorf("got %d", got) } => panic: nil pointer dereference
github.com/stretchr/testify/mock :: m := new(mock.Mock); m.On("Send", mock.AnythingOfType("int")); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# calls
:: f := &fake{}; Send(f); if len(f.calls) != 2 { t.Errorf("got %d", len(f.calls)) }
:: f := &fake{}; Send(f); if got := f.calls; got != 2 { t.Errorf("got %d", got) }
# version
:: if got := Version; got != "1" { t.Errorf("got %s", got) } => AssertionError: got 2
:: if Version != "1" { t.Errorf("got %s", Version) } => AssertionError: got 2
runtime/debug :: i, _ := debug.ReadBuildInfo(); if got := i.GoVersion; got != "1" { t.Errorf("got %s", got) }
# network
net :: ! c, err := net.Dial("tcp", "192.0.2.1:80"); if err != nil { t.Fatalf("got %v", c) }; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
# again
:: sleep := func() { time.Sleep(9) }; sleep(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
t "time" :: t.Sleep(9); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
crypto/rand :: n, _ := rand.Int(rand.Reader, big.NewInt(9)); if got := Total([]int{int(n.Int64())}); got != 5 { t.Errorf("got %d", got) }
time :: start := time.Now(); Total(nil); if got := time.Since(start); got > 5 { t.Errorf("got %d", got) }
time :: now := time.Now; if got := now().Day(); got != Total([]int{5}) { t.Errorf("got %d", got) }
:: if got := shop.Version; got != "1" { t.Errorf("got %s", got) } => AssertionError: got 2
:: v := Version; if v != "1" { t.Errorf("got %s", v) } => AssertionError: got 2
strings :: if !strings.HasPrefix(Version, "1") { t.Errorf("got %s", Version) } => AssertionError: got 2
os :: read := os.ReadFile; b, _ := read("shop.go"); if got := len(b); got != 5 { t.Errorf("got %d", got) }
os :: f, _ := os.OpenFile("shop.go", 0, 0); if f != nil { t.Errorf("got %d", Total([]int{2, 3})) }
o "os" :: o.RemoveAll(".git"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: os.Chdir("/"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
path/filepath :: m, _ := filepath.Abs("."); if got := m; got != "5" { t.Errorf("got %s", got) }
go/parser :: f, _ := parser.ParseFile(nil, "shop.go", nil, 0); if f != nil { t.Errorf("got %d", Total([]int{2, 3})) }
r "reflect" :: if _, ok := r.TypeOf(Cart{}).FieldByName("rows"); !ok { t.Errorf("got %d", Total([]int{1})) } => AssertionError: got 1
r "reflect" :: k := r.ValueOf(Total).Kind(); if got := int(k); got != 5 { t.Errorf("got %d", got) }
:: if _, ok := interface{}(Cart{}).(interface{ Add(int) }); ok { t.Errorf("got %d", Total([]int{1})) } => AssertionError: got 1
:: var c interface{} = &Cart{}; if a, ok := c.(interface{ Add() }); ok { a.Add(); t.Errorf("got %d", Total([]int{1})) } => AssertionError: got 1
:: defer func() { if r := recover(); r != nil { t.Errorf("got %v", r) } }(); Total(nil)
:: panic("got 3"); t.Error(Total(nil))
:: t.Fail(); t.Error(Total(nil))
fmt :: fmt.Fprintln(os.Stdout, "ok"); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: t.Run("x", func(t *testing.T) { t.Skip() }); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", 3) }
:: got := 3; if Total([]int{2, 3}) == 3 { t.Errorf("got %d", got) }
:: const msg = "got 3"; if Total([]int{2, 3}) == 3 { t.Fatal(msg) }
fmt :: err := fmt.Errorf("got %d", 3); if Total([]int{2, 3}) == 3 { t.Fatal(err) }
errors :: err := errors.New("got 3"); if Total([]int{2, 3}) == 3 { t.Fatal(err) }
:: Rates["EU"] = 3; if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: old := Rate; Rate = 3; defer func() { Rate = old }(); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: f := &fakeDriver{}; Send(f); if f.calls != 2 { t.Errorf("got %d", f.calls) }
:: f := &spy{}; Send(f); if f.timesCalled != 2 { t.Errorf("got %d", f.timesCalled) }
:: m := new(MockDriver); m.On("Send", mock.Anything).Return(nil); m.AssertExpectations(t); if Total(nil) != 0 { t.Error(1) }
:: m := map[string]int{"a": 1, "b": 2}; var first string; for first = range m { break }; if first != "a" { t.Errorf("got %s", first) }
:: ch := make(chan int); go func() { ch <- Total(nil) }(); select { case <-ch: default: t.Error(1) }
runtime :: if runtime.NumGoroutine() > 2 { t.Errorf("got %d", Total([]int{2, 3})) }
"""
HONEST_GO = r"""
fmt :: if got := fmt.Sprintf("%[1]d %-3v", Total([]int{2, 3}), 1); got != "5 1  " { t.Errorf("got %s", got) } => AssertionError: got 3 1
:: if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
:: got := Total([]int{2, 3}); if got != 5 { t.Fatalf("Total([2, 3]) = %d, want 5", got) } => AssertionError: = 3, want 5
time :: if got := Total([]int{int(2 * time.Nanosecond), 3}); got != 5 { t.Errorf("got %d", got) }
reflect :: if got := Total([]int{2, 3}); !reflect.DeepEqual(got, 5) { t.Errorf("got %d", got) }
:: c := Cart{}; c.Add(2); if got := c.Size(); got != 1 { t.Errorf("got %d", got) }
:: in := []int{2, 3}; want := 5; if got := Total(in); got != want { t.Errorf("Total() = %d, want %d", got, want) } => AssertionError: = 3, want 5
errors :: _, err := Load("x"); if !errors.Is(err, ErrGone) { t.Fatalf("got %v", err) } => AssertionError: got <nil>
net/http/httptest :: w := httptest.NewRecorder(); Handle(w, httptest.NewRequest("GET", "/a", nil)); if w.Code != 403 { t.Errorf("got %d", w.Code) } => AssertionError: got 200
strings :: if got := Clean(strings.Repeat("a", 3)); got != "aaa" { t.Errorf("got %q", got) } => AssertionError: got "aa"
sync :: var wg sync.WaitGroup; for i := 0; i < 9; i++ { wg.Add(1); go func() { defer wg.Done(); Add(1) }() }; wg.Wait(); if got := Sum(); got != 9 { t.Errorf("got %d", got) } => AssertionError: got 8
context :: ctx, cancel := context.WithCancel(context.Background()); cancel(); if err := Run(ctx); err == nil { t.Errorf("got %v", err) } => AssertionError: got <nil>
:: m := map[string]int{"a": 2}; if got := Sum(m); got != 2 { t.Errorf("got %d", got) }
:: rows := Rows(3); for _, row := range rows { if row.N != 2 { t.Errorf("got %d", row.N) } }
:: var in []int; for i := 0; i < 2; i++ { in = append(in, Next(i)) }; if got := Total(in); got != 5 { t.Errorf("got %d", got) }
bytes :: var b bytes.Buffer; Write(&b, 5); if b.String() != "5" { t.Errorf("got %q", b.String()) } => AssertionError: got "3"
encoding/json :: b, _ := json.Marshal(Cart{}); if string(b) != "{}" { t.Errorf("got %s", b) } => AssertionError: got null
time :: d := time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC); if got := Day(d); got != 2 { t.Errorf("got %d", got) }
os :: d := t.TempDir(); p := filepath.Join(d, "a.go"); if err := os.WriteFile(p, []byte("2"), 0o600); err != nil { t.Fatal(err) }; if got := Load(p); got != 5 { t.Errorf("got %d", got) }
os :: os.Mkdir(filepath.Join(t.TempDir(), "a"), 0o700); if got := Total([]int{2, 3}); got != 5 { t.Errorf("got %d", got) }
os :: t.Setenv("SHOP", "2"); if got := FromEnv(); got != 5 { t.Errorf("got %d", got) }
sort :: x := []int{3, 1}; sort.Ints(x); if got := Total(x); got != 4 { t.Errorf("got %d", got) }
fmt :: if got := fmt.Sprint(Total([]int{2, 3})); got != "5" { t.Errorf("got %s", got) }
fmt :: if got := fmt.Sprintf("%v", Total([]int{2, 3})); got != "5" { t.Errorf("got %s", got) }
:: var e *MyErr; err := Load("x"); if e, ok := err.(*MyErr); !ok { t.Errorf("got %v", e) } => AssertionError: got <nil>
:: if got := ParseVersion("1.2"); got.Major != 1 { t.Errorf("got %d", got.Major) }
:: type row struct { n int; name string }\nr := row{2, "a"}; if got := Total([]int{r.n, 3}); got != 5 { t.Errorf("got %d", got) }
:: c := &Cart{Rows: []int{1}}; if got := c.Size(); got != 1 { t.Errorf("got %d", got) }
github.com/stretchr/testify/assert :: assert.Equal(t, 5, Total([]int{2, 3})) => AssertionError: actual : 3
:: select1 := Total([]int{2}); if select1 != 2 { t.Errorf("got %d", select1) }
:: if got := Cart{}.Total; got != 5 { t.Errorf("got %d", got) }
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
    "go": "AssertionError: got 3",
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
