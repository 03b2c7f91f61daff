"""Programs put together from a source, a carrier and a sink: what flows must not depend on the mix."""

import textwrap

SOURCES = {
    "args": "param = request.args.get('v', '')",
    "args-item": "param = request.args['v']",
    "form": "param = request.form.get('v')\nif not param:\n    param = ''",
    "form-list": "values = request.form.getlist('v')\nparam = ''\nif values:\n    param = values[0]",
    "cookie": "import urllib.parse\nparam = urllib.parse.unquote_plus(request.cookies.get('v', 'x'))",
    "header": "import urllib.parse\nparam = ''\nif 'v' in request.headers:\n"
    "    param = request.headers.get('v')\nparam = urllib.parse.unquote_plus(param)",
    "header-list": "param = ''\nfound = request.headers.getlist('v')\nif found:\n    param = found[0]",
    "header-names": "param = ''\nfor name in request.headers.keys():\n"
    "    if name.lower() in ['host', 'accept', 'cookie']:\n        continue\n    param = name\n    break",
    "form-names": "param = ''\nfor name in request.form.keys():\n"
    "    if 'v' in request.form.getlist(name):\n        param = name\n        break",
    "query-string": "text = request.query_string.decode('utf-8')\nplace = text.find('v=')\n"
    "if place == -1:\n    return 'missing'\nparam = text[place + 2:]\nend = param.find('&')\n"
    "if end != -1:\n    param = param[:end]",
    "path": "import urllib.parse\nparts = request.path.split('/')\nparam = parts[1]\n"
    "if not param:\n    param = ''\nparam = urllib.parse.unquote(param)",
    "body": "param = request.get_data(as_text=True)",
    "json": "body = request.get_json()\nparam = body['v']",
    "helper-class": "import wrap\nscr = wrap.Wrapped(request)\nparam = scr.get_form('v')",
    "values": "param = request.values.to_dict()['v']",
    "walrus": "if (param := request.args.get('v')) is None:\n    param = ''",
}
HELPERS = {
    "wrap.py": "class Wrapped:\n    def __init__(self, request):\n        self.request = request\n"
    "    def get_form(self, name):\n        return self.request.form.get(name)\n"
    "    def get_fixed(self, name):\n        return 'bar'\n",
    "things.py": "import abc\nclass Thing(abc.ABC):\n    @abc.abstractmethod\n"
    "    def do(self, text): ...\n"
    "class Same(Thing):\n    def do(self, text):\n        return text\n"
    "class Fixed(Thing):\n    def do(self, text):\n        return 'fixed'\n"
    "def create(kind='same'):\n    if kind == 'fixed':\n        return Fixed()\n    return Same()\n",
}
# Each carrier as (what lets it through, what does not).
CARRIERS = {
    "plain": ("bar = param", "bar = 'fixed'"),
    "if-constant": (
        "num = 106\nbar = ''\nif 7 * 42 - num > 200:\n    bar = 'fixed'\nelse:\n    bar = param",
        "num = 86\nbar = ''\nif 7 * 42 - num > 200:\n    bar = 'fixed'\nelse:\n    bar = param",
    ),
    "conditional": (
        "num = 106\nbar = 'fixed' if 7 * 18 + num < 200 else param",
        "num = 106\nbar = 'fixed' if 7 * 18 + num > 200 else param",
    ),
    "match": (
        "guess = 'ABC'[0]\nmatch guess:\n    case 'A':\n        bar = param\n"
        "    case 'B':\n        bar = 'fixed'\n    case _:\n        bar = 'other'",
        "guess = 'ABC'[1]\nmatch guess:\n    case 'A':\n        bar = param\n"
        "    case 'B':\n        bar = 'fixed'\n    case 'C' | 'D':\n        bar = param\n"
        "    case _:\n        bar = 'other'",
    ),
    "dict": (
        "m = {}\nm['a'] = 'x'\nm['b'] = param\nm['c'] = 'y'\nbar = m['a']\nbar = m['b']",
        "m = {}\nm['a'] = 'x'\nm['b'] = param\nm['c'] = 'y'\nbar = m['b']\nbar = m['a']",
    ),
    "dict-get": (
        "m = {'a': 'x', 'b': param}\nbar = m.get('b', 'none')",
        "m = {'a': 'x', 'b': param}\nbar = m.get('a', 'none')",
    ),
    "list-pop": (
        "lst = []\nlst.append('safe')\nlst.append(param)\nlst.append('more')\nlst.pop(0)\nbar = lst[0]",
        "lst = []\nlst.append('safe')\nlst.append(param)\nlst.append('more')\nlst.pop(0)\nbar = lst[1]",
    ),
    "list-insert": (
        "lst = ['a', 'b']\nlst.insert(1, param)\nbar = lst[1]",
        "lst = ['a', 'b']\nlst.insert(1, param)\nbar = lst[2]",
    ),
    "list-slice": (
        "lst = ['a', param, 'c']\nbar = lst[1:][0]",
        "lst = ['a', param, 'c']\nbar = lst[1:][1]",
    ),
    "unpack": ("bar, other = param, 'x'", "other, bar = param, 'x'"),
    "swap": (
        "bar, other = 'x', param\nbar, other = other, bar",
        "bar = param\nbar, other = 'x', bar",
    ),
    "overwritten": ("bar = 'x'\nbar = param", "bar = param\nbar = 'x'"),
    "configparser": (
        "import configparser\nconf = configparser.ConfigParser()\nconf.add_section('s')\n"
        "conf.set('s', 'a', 'x')\nconf.set('s', 'b', param)\nbar = conf.get('s', 'b')",
        "import configparser\nconf = configparser.ConfigParser()\nconf.add_section('s')\n"
        "conf.set('s', 'a', 'x')\nconf.set('s', 'b', param)\nbar = conf.get('s', 'a')",
    ),
    "base64": (
        "import base64\ntmp = base64.b64encode(param.encode('utf-8'))\n"
        "bar = base64.b64decode(tmp).decode('utf-8')",
        "import base64\ntmp = base64.b64encode(b'x')\nbar = base64.b64decode(tmp).decode('utf-8')",
    ),
    "things": (
        "import things\nthing = things.create()\nbar = thing.do(param)",
        "import things\nthing = things.create('fixed')\nbar = thing.do(param)",
    ),
    "helper-function": (
        "def pick(a, b):\n    c = a\n    return c\nbar = pick(param, 'x')",
        "def pick(a, b):\n    c = a\n    return b\nbar = pick(param, 'x')",
    ),
    "keyword-argument": (
        "def pick(*, a='', b=''):\n    return a\nbar = pick(a=param)",
        "def pick(*, a='', b=''):\n    return a\nbar = pick(b=param)",
    ),
    "star-argument": (
        "def pick(*all):\n    return all[0]\nbar = pick(param, 'x')",
        "def pick(*all):\n    return all[1]\nbar = pick(param, 'x')",
    ),
    "fstring": ("bar = f'a{param}b'", "bar = f'a{len(param)}b'"),
    "format": ("bar = 'a {0} {1}'.format(param, 'x')", "bar = 'a {1}'.format(param, 'x')"),
    "percent": ("bar = '%s %s' % ('x', param)", "bar = '%s %d' % ('x', len(param))"),
    "join": ("bar = ''.join(['a', param])", "bar = ''.join(['a', 'b'])"),
    "comprehension": (
        "bar = ''.join([c for c in param])",
        "bar = ''.join([str(ord(c)) for c in param])",
    ),
    "replace": ("bar = param.replace('q', 'z')", "bar = 'abc'.replace('q', 'z')"),
    "strip-and-case": ("bar = param.strip().lower()[:40]", "bar = 'ABC'.strip().lower()[:40]"),
    "loop": (
        "bar = ''\nfor c in param:\n    bar += c",
        "bar = ''\nfor c in param:\n    bar += 'c'",
    ),
    "while": (
        "bar = ''\ncount = 0\nwhile count < 3:\n    bar = bar + param\n    count += 1",
        "bar = ''\ncount = 0\nwhile count < 3:\n    bar = bar + 'x'\n    count += 1",
    ),
    "try": (
        "try:\n    bar = param\nexcept ValueError:\n    bar = 'x'",
        "try:\n    bar = str(int(param))\nexcept ValueError:\n    bar = 'x'",
    ),
    "allow-list": (
        "bar = param\nif bar in ('a', 'b'):\n    pass",
        "bar = param\nif bar not in ('a', 'b'):\n    return 'no'",
    ),
    "default-when-unknown": (
        "bar = param\nif bar not in ('a', 'b'):\n    bar = bar.strip()",
        "bar = param\nif bar not in ('a', 'b'):\n    bar = 'a'",
    ),
    "equality": (
        "bar = param\nif bar != 'a':\n    bar = bar + '!'",
        "bar = 'b'\nif param == 'a':\n    bar = param",
    ),
    "attribute": (
        "class Box:\n    pass\nbox = Box()\nbox.a = param\nbox.b = 'x'\nbar = box.a",
        "class Box:\n    pass\nbox = Box()\nbox.a = param\nbox.b = 'x'\nbar = box.b",
    ),
    "alias": (
        "a = []\nb = a\nb.append(param)\nbar = a[0]",
        "a = ['x']\nb = list(a)\nb[0] = param\nbar = a[0]",
    ),
    "lambda": ("f = lambda v: v + '!'\nbar = f(param)", "f = lambda v: 'x'\nbar = f(param)"),
    "stringio": (
        "import io\nbuf = io.StringIO()\nbuf.write(param)\nbar = buf.getvalue()",
        "import io\nbuf = io.StringIO()\nbuf.write('x')\nbar = buf.getvalue()",
    ),
    "deque": (
        "import collections\nq = collections.deque()\nq.append('x')\nq.append(param)\nq.popleft()\nbar = q.popleft()",
        "import collections\nq = collections.deque()\nq.append('x')\nq.append(param)\nbar = q.popleft()",
    ),
    "with": (
        "import contextlib\nwith contextlib.suppress(ValueError):\n    bar = param",
        "import contextlib\nwith contextlib.suppress(ValueError):\n    bar = 'x'",
    ),
    "json": (
        "import json\nbar = json.loads(json.dumps({'a': param, 'b': 'x'}))['a']",
        "import json\nbar = json.loads(json.dumps({'b': 'x'}))['b']",
    ),
    "or": ("bar = param or 'x'", "bar = '' or 'x'"),
    "boolean-flag": (
        "known = param in ('a', 'b')\nbar = param\nif known:\n    bar = bar.lower()",
        "known = param in ('a', 'b')\nif not known:\n    return 'no'\nbar = param",
    ),
    "nested-function": (
        "def outer(v):\n    def inner(w):\n        return v\n    return inner('x')\nbar = outer(param)",
        "def outer(v):\n    def inner(w):\n        return w\n    return inner('x')\nbar = outer(param)",
    ),
    "generator": (
        "def each(v):\n    yield v\nbar = next(each(param))",
        "def each(v):\n    yield 'x'\nbar = next(each(param))",
    ),
    "property": (
        "class Box:\n    def __init__(self, v):\n        self._v = v\n    @property\n"
        "    def v(self):\n        return self._v\nbar = Box(param).v",
        "class Box:\n    def __init__(self, v):\n        self._v = v\n    @property\n"
        "    def v(self):\n        return 'x'\nbar = Box(param).v",
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Box:\n    a: str\n    b: str\n"
        "bar = Box(param, 'x').a",
        "from dataclasses import dataclass\n@dataclass\nclass Box:\n    a: str\n    b: str\n"
        "bar = Box(param, 'x').b",
    ),
    "inherited": (
        "class A:\n    def get(self, v):\n        return v\nclass B(A):\n    pass\nbar = B().get(param)",
        "class A:\n    def get(self, v):\n        return v\nclass B(A):\n"
        "    def get(self, v):\n        return 'x'\nbar = B().get(param)",
    ),
    "recursion": (
        "def down(v, n):\n    if n == 0:\n        return v\n    return down(v, n - 1)\nbar = down(param, 3)",
        "def down(v, n):\n    if n == 0:\n        return 'x'\n    return down('y', n - 1)\nbar = down('z', 3)",
    ),
    "copy": (
        "import copy\nbar = copy.deepcopy({'a': param, 'b': 'x'})['a']",
        "import copy\nbar = copy.deepcopy({'a': 'x', 'b': 'x'})['a']",
    ),
    "items": (
        "bar = ''\nfor k, v in {'a': param}.items():\n    bar = v",
        "bar = ''\nfor k, v in {'a': param}.items():\n    bar = k",
    ),
    "dict-of-list": (
        "d = {'a': [], 'b': []}\nd['a'].append(param)\nd['b'].append('x')\nbar = d['a'][0]",
        "d = {'a': [], 'b': []}\nd['a'].append(param)\nd['b'].append('x')\nbar = d['b'][0]",
    ),
}
SINKS = {
    "sql": "cur = sqlite3.connect('a').cursor()\ncur.execute(f\"SELECT * FROM t WHERE a = '{bar}'\")",
    "command": "subprocess.run('echo ' + bar, shell=True)",
    "code": "exec(bar)",
    "path": "name = f'/srv/{bar}'\nfd = open(name)",
    "xss": "RESPONSE = 'x'\nRESPONSE += bar\nreturn RESPONSE",
    "ldap": "ldap3.Connection('x').search('ou=a', f'(&(objectclass=person)(|(uid={bar})(s={bar})))')",
    "xpath": "lxml.etree.parse('a.xml').xpath(f\"/a[@b='{bar}']\")",
    "xxe": "p = xml.sax.make_parser()\np.setFeature(xml.sax.handler.feature_external_ges, True)\n"
    "xml.dom.minidom.parseString(bar, p)",
    "deserialization": "pickle.loads(base64.urlsafe_b64decode(bar))",
    "redirect": "return flask.redirect(bar)",
    "trust-boundary": "flask.session['userid'] = bar",
}
_HEAD = """import base64, pickle, sqlite3, subprocess
import flask
import ldap3
import lxml.etree
import xml.dom.minidom
import xml.sax
import xml.sax.handler
from flask import Flask, request, redirect, url_for

def init(app):
    @app.route('/case', methods=['GET', 'POST'])
    def handler():
"""


def program(source: str, carrier: str, sink: str, *, flows: bool) -> dict[str, str]:
    """The files of one program; ``flows``: whether the carrier lets the value through."""
    body = (
        f"{SOURCES[source]}\n{CARRIERS[carrier][0 if flows else 1]}\n{SINKS[sink]}\nreturn 'ok'\n"
    )
    return {"case.py": _HEAD + textwrap.indent(body, " " * 8), **HELPERS}
