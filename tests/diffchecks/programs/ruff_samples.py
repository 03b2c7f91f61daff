"""For each of ruff's codes about bugs: text with the defect, and text without."""

from tests.diffchecks.programs.ruff_text import within

# code → (bad, good)
SAMPLES: dict[str, tuple[str, str]] = {
    # Python that does not compile
    "F404": ("x = 1\nfrom __future__ import annotations\n", "from __future__ import annotations\n"),
    "F406": (within("from os import *"), "from os import *\n"),
    "F407": ("from __future__ import braces\n", "from __future__ import annotations\n"),
    "F622": ("*a, *b = [1, 2]\n", "*a, b = [1, 2]\n"),
    "F701": ("break\n", "while True:\n    break\n"),
    "F702": ("continue\n", "while True:\n    continue\n"),
    "F704": ("yield 1\n", within("yield 1")),
    "F706": ("return 1\n", within("return 1")),
    "F707": (
        "try:\n    x = 1\nexcept:\n    x = 2\nexcept ValueError:\n    x = 3\n",
        "try:\n    x = 1\nexcept ValueError:\n    x = 3\nexcept:\n    x = 2\n",
    ),
    "PLE0115": (within("global q\nnonlocal q"), within("global q\nq = 1")),
    "PLE0117": (within("nonlocal q"), within("q = 1\ndef g():\n    nonlocal q\n    q = 2\ng()")),
    "PLE0118": ("q = 0\n" + within("q = 1\nglobal q"), "q = 0\n" + within("global q\nq = 1")),
    "PLE1142": (within("await x"), within("await x", "async def f(x):")),
    "PLE1700": (within("yield from x", "async def f(x):"), within("yield x", "async def f(x):")),
    # names
    "F821": ("print(reslt)\n", "result = 1\nprint(result)\n"),
    "F823": ("q = 0\n" + within("print(q)\nq = 1"), "q = 0\n" + within("print(q)")),
    "F822": ('__all__ = ["gone"]\n', '__all__ = ["here"]\nhere = 1\n'),
    "PLE0604": ("__all__ = [f]\ndef f(): ...\n", '__all__ = ["f"]\ndef f(): ...\n'),
    "F401": ("import array\n", "import array\nprint(array)\n"),
    "F841": (within("q = x"), within("q = x\nreturn q")),
    "F811": (
        within('return app.get("/")(f)') + within("return 2"),
        '@app.get("/")\n@b\n' + within("return 1") + within("return 2"),
    ),
    "F601": ('d = {"a": 1, "a": 2}\n', 'd = {"a": 1, "b": 2}\n'),
    "B035": ('d = {"k": v for v in range(3)}\n', "d = {v: v for v in range(3)}\n"),
    # conditions and assertions
    "F631": ('x = 1\nassert (x == 1, "no")\n', 'x = 1\nassert x == 1, "no"\n'),
    "PLW0129": ('assert "x == 1"\n', "x = 1\nassert x == 1\n"),
    "RUF040": ("x = 1\nassert x, 2\n", 'x = 1\nassert x, "two"\n'),
    "RUF030": ('x = 1\nassert x, print("no")\n', 'x = 1\nassert x, "no"\n'),
    "PGH005": (
        "def test_a(mock):\n    assert mock.called_once\n",
        "def test_a(requests_mock):\n    assert requests_mock.called_once\n",
    ),
    "B015": (within("x == 1"), within("assert x == 1")),
    "F634": ('if (1, "x"):\n    pass\n', "x = 1\nif x:\n    pass\n"),
    "SIM220": (within("if x and not x:\n    return 1"), within("if x and not y:\n    return 1")),
    "SIM221": (within("if x or not x:\n    return 1"), within("if x or not y:\n    return 1")),
    "SIM222": (within("if x or True:\n    return 1"), within("if x:\n    return 1")),
    "SIM223": (within("if x and False:\n    return 1"), within("if x:\n    return 1")),
    "PLW0177": (within('return x == float("nan")'), within("return x != x")),
    "RUF060": (within("return x in []"), within("return x in [y]")),
    "RUF034": (within("return 1 if x else 1"), within("return 1 if x else 2")),
    "F632": (within('return x is "w"'), within('return x == "w"')),
    "PLR0133": (within("if 1 == 2:\n    return 1"), within("if x == 2:\n    return 1")),
    # loops and assignments
    "PLW0128": (within("y, y = x\nreturn y"), within("y, z = x\nreturn y, z")),
    "RUF018": (within("assert (q := x)\nreturn q"), within("q = x\nassert q\nreturn q")),
    "LOG014": (
        "import logging\nlogging.getLogger(__name__).error('a', exc_info=True)\n",
        "import logging\nlogging.getLogger(__name__).error('a')\n",
    ),
    # exceptions
    "F901": (within("raise NotImplemented"), within("raise NotImplementedError")),
    "B016": (within('raise "no"'), within('raise ValueError("no")')),
    "PLW0133": (within('ValueError("no")'), within('raise ValueError("no")')),
    "B025": (
        "try:\n    x = 1\nexcept ValueError:\n    x = 2\nexcept ValueError:\n    x = 3\n",
        "try:\n    x = 1\nexcept ValueError:\n    x = 2\nexcept TypeError:\n    x = 3\n",
    ),
    "B029": (
        "try:\n    x = 1\nexcept ():\n    x = 2\n",
        "try:\n    x = 1\nexcept OSError:\n    x = 2\n",
    ),
    "B030": (
        "try:\n    x = 1\nexcept 1:\n    x = 2\n",
        "try:\n    x = 1\nexcept OSError:\n    x = 2\n",
    ),
    "PLW0711": (
        "try:\n    x = 1\nexcept ValueError or TypeError:\n    x = 2\n",
        "try:\n    x = 1\nexcept (ValueError, TypeError):\n    x = 2\n",
    ),
    "E722": (
        "try:\n    x = 1\nexcept:\n    x = 2\n",
        "try:\n    x = 1\nexcept OSError:\n    x = 2\n",
    ),
    "B012": (
        within("try:\n    x()\nfinally:\n    return 1"),
        within("try:\n    x()\nfinally:\n    y()\nreturn 1"),
    ),
    "SIM107": (
        within("try:\n    return 1\nfinally:\n    return 2"),
        within("try:\n    return 1\nfinally:\n    y()"),
    ),
    "PLR1708": (within("yield 1\nraise StopIteration"), within("yield 1\nreturn")),
    # formats
    "F501": ('"%(a)s %" % {"a": 1}\n', '"%(a)s" % {"a": 1}\n'),
    "F502": ('"%(a)s" % (1,)\n', '"%(a)s" % {"a": 1}\n'),
    "F503": ('"%s %s" % {"a": 1}\n', '"%s %s" % (1, 2)\n'),
    "F504": ('"%(a)s" % {"a": 1, "b": 2}\n', '"%(a)s" % {"a": 1}\n'),
    "F505": ('"%(a)s %(b)s" % {"a": 1}\n', '"%(a)s %(b)s" % {"a": 1, "b": 2}\n'),
    "F506": ('"%s %(a)s" % {"a": 1}\n', '"%(a)s" % {"a": 1}\n'),
    "F507": ('"%s %s" % (1,)\n', '"%s %s" % (1, 2)\n'),
    "F508": ('"%(a)*s" % {"a": 1}\n', '"%*s" % (2, 1)\n'),
    "F509": ('"%y" % 1\n', '"%d" % 1\n'),
    "F521": ('"{".format(1)\n', '"{}".format(1)\n'),
    "F522": ('"{a}".format(a=1, b=2)\n', '"{a}".format(a=1)\n'),
    "F523": ('"{}".format(1, 2)\n', '"{} {}".format(1, 2)\n'),
    "F524": ('"{} {}".format(1)\n', '"{} {}".format(1, 2)\n'),
    "F525": ('"{} {0}".format(1)\n', '"{0} {0}".format(1)\n'),
    "PLE1300": ('"{:z}".format(1)\n', '"{:d}".format(1)\n'),
    "PLE1307": ('"%d" % "a"\n', '"%d" % 1\n'),
    "PLE1205": (
        'from a import b\nlog = logging.log(a)\nlog.info("a {}", 1)\n',
        'from a import (\n    b,\n    logging,\n)\nlog = logging.log(a)\nlog.info("a {}", 1)\n',
    ),
    "PLE1206": (
        'from a import b as d\nlog = logging.log(a)\nlog.info("a %s %s", 1)\n',
        'from a import b as logging\nlog = logging.log(a)\nlog.info("a %s %s", 1)\n',
    ),
    "G101": ('logging.info("a", extra={"name": 1})\n', 'logging.info("a", extra={"who": 1})\n'),
    # values shared and classes
    "B006": ("def f(a=[]): ...\n", "def f(a=None): ...\n"),
    "B039": ('c = contextvars.ContextVar("c", default=[])\n', 'c = contextvars.ContextVar("c")\n'),
    "RUF008": (
        "@dataclasses.dataclass\nclass A:\n    x: list[int] = []\n",
        "@dataclasses.dataclass\nclass A:\n    x: tuple[int, ...] = ()\n",
    ),
    "RUF024": ("d = dict.fromkeys([1, 2], [])\n", "d = dict.fromkeys([1, 2], 0)\n"),
    "PLE0100": (
        "class A:\n    def __init__(self):\n        yield 1\n",
        "class A:\n    def __iter__(self):\n        yield 1\n",
    ),
    "PLE0302": (
        "class A:\n    def __bool__(self, x): ...\n",
        "class A:\n    def __bool__(self): return True\n",
    ),
    "PLE0303": (
        "class A:\n    def __len__(self):\n        return -1\n",
        "class A:\n    def __len__(self):\n        return 1\n",
    ),
    "PLE0304": (
        "class A:\n    def __bool__(self):\n        return 1\n",
        "class A:\n    def __bool__(self):\n        return True\n",
    ),
    "PLE0305": (
        'class A:\n    def __index__(self):\n        return "a"\n',
        "class A:\n    def __index__(self):\n        return 1\n",
    ),
    "PLE0307": (
        "class A:\n    def __str__(self):\n        return 1\n",
        'class A:\n    def __str__(self):\n        return "a"\n',
    ),
    "PLE0308": (
        "class A:\n    def __bytes__(self):\n        return 1\n",
        'class A:\n    def __bytes__(self):\n        return b"a"\n',
    ),
    "PLE0309": (
        'class A:\n    def __hash__(self):\n        return "a"\n',
        "class A:\n    def __hash__(self):\n        return 1\n",
    ),
    "RUF033": (
        "@dataclasses.dataclass\nclass A:\n    def __post_init__(self, x=1): ...\n",
        "@dataclasses.dataclass\nclass A:\n    def __post_init__(self, x): ...\n",
    ),
    "PLE0237": (
        'class A:\n    __slots__ = ("x",)\n    def __init__(self):\n        self.y = 1\n',
        'class A:\n    __slots__ = ("x",)\n    def __init__(self):\n        self.x = 1\n',
    ),
    "PLE0241": ("class B: ...\nclass A(B, B): ...\n", "class B: ...\nclass A(B): ...\n"),
    "RUF049": (
        "@dataclasses.dataclass\nclass A(enum.Enum):\n    x = 1\n",
        "class A(enum.Enum):\n    x = 1\n",
    ),
    "PLE1519": (
        "class A:\n    @functools.singledispatch\n    def f(self, x): ...\n",
        "class A:\n    @functools.singledispatchmethod\n    def f(self, x): ...\n",
    ),
    "PLE1520": (
        "@functools.singledispatchmethod\ndef f(x): ...\n",
        "@functools.singledispatch\ndef f(x): ...\n",
    ),
    "PLW0245": (
        "class B:\n    def f(self): ...\nclass A(B):\n    def f(self):\n        super.f()\n",
        "class B:\n    def f(self): ...\nclass A(B):\n    def f(self):\n        super().f()\n",
    ),
    # arguments
    "PLE0643": ("print([1, 2][5])\n", "print([1, 2][1])\n"),
    "PLE1132": ("f = dict\nf(a=1, **{'a': 2})\n", "f = dict\nf(a=1, **{'b': 2})\n"),
    "PLE1507": ("os.getenv(1)\n", 'os.getenv("A")\n'),
    "PLW1501": ('open("f", "rwx")\n', 'open("f", "r")\n'),
    "RUF016": ('print([1]["a"])\n', "print([1][0])\n"),
    "RUF026": (
        "import collections\ncollections.defaultdict(default_factory=int)\n",
        "import collections\ncollections.defaultdict(int)\n",
    ),
    "RUF064": ('os.chmod("f", 644)\n', 'os.chmod("f", 0o644)\n'),
    "B005": ('"a".strip("http://")\n', '"a".strip("/")\n'),
    "PLE1310": ('"a".strip("aa")\n', '"a".strip("a")\n'),
    "B002": (within("++x"), within("x += 1")),
    "B032": (within("x['a']: 1"), within("x['a'] = 1")),
    "F633": ("print >> sys.stderr, 1\n", "print(1, file=sys.stderr)\n"),
    "B022": ("with suppress():\n    x = 1\n", "with suppress(OSError):\n    x = 1\n"),
    "PLW2101": (
        "with threading.Lock():\n    x = 1\n",
        "lock = threading.Lock()\nwith lock:\n    x = 1\n",
    ),
    "B003": ("os.environ = {}\n", "os.environ.clear()\n"),
    "PLW1507": ("import copy\nc = copy.copy(os.environ)\n", "c = os.environ.copy()\n"),
    "B031": (
        "for k, g in itertools.groupby([1]):\n    for _ in range(2):\n        print(list(g))\n",
        "for k, g in itertools.groupby([1]):\n    print(list(g))\n",
    ),
    "B021": (within('f"""About {x}."""', "def f():"), within('"""About x."""')),
    # async
    "ASYNC210": (
        "import requests\n" + within("requests.get('u', timeout=1)", "async def f():"),
        "import requests\n" + within("requests.get('u', timeout=1)"),
    ),
    "ASYNC212": (
        "import httpx\n" + within("c = httpx.Client()\nc.get('u')", "async def f():"),
        "import httpx\n" + within("c = httpx.AsyncClient()\nawait c.get('u')", "async def f():"),
    ),
    "ASYNC220": (
        within("subprocess.Popen(['a'])", "async def f():"),
        within("subprocess.Popen(['a'])"),
    ),
    "ASYNC221": (
        within("subprocess.run(['a'])", "async def f():"),
        within("subprocess.run(['a'])"),
    ),
    "ASYNC222": (within("os.wait()", "async def f():"), within("os.wait()")),
    "ASYNC250": (within("input()", "async def f():"), within("input()")),
    "ASYNC251": (
        "import time\n" + within("time.sleep(1)", "async def f():"),
        within("await asyncio.sleep(1)", "async def f():"),
    ),
    "ASYNC100": (
        "import trio\n" + within("with trio.fail_after(1):\n    x()", "async def f(x):"),
        "import trio\n" + within("with trio.fail_after(1):\n    await x()", "async def f(x):"),
    ),
    "ASYNC105": (
        "import trio\n" + within("trio.sleep(1)", "async def f():"),
        "import trio\n" + within("await trio.sleep(1)", "async def f():"),
    ),
    "RUF006": (
        within("asyncio.create_task(x)", "async def f(x):"),
        within("t = asyncio.create_task(x)\nawait t", "async def f(x):"),
    ),
    # left over, deprecated or misread
    "S113": (
        "import requests\nrequests.get('u')\n",
        "import requests\nrequests.get('u', timeout=1)\n",
    ),
    "T100": ("breakpoint()\n", "print()\n"),
    "W605": ('re.compile("\\d")\n', 're.compile(r"\\d")\n'),
    "YTT101": ("print(sys.version[:3])\n", "print(sys.version_info[:2])\n"),
    "YTT102": ("print(sys.version[2])\n", "print(sys.version_info[2])\n"),
    "YTT103": ('print(sys.version >= "3.9")\n', "print(sys.version_info >= (3, 9))\n"),
    "YTT301": ("print(sys.version[0])\n", "print(sys.version_info[0])\n"),
    "YTT302": ('print(sys.version < "3")\n', "print(sys.version_info < (3,))\n"),
    "YTT303": ("print(sys.version[:1])\n", "print(sys.version_info[:1])\n"),
    "RUF048": (
        "import m\nprint(tuple(map(int, m.__version__.split('.'))))\n",
        "import m\nprint(m.__version__.split('.'))\n",
    ),
    "RUF032": ("Decimal(0.1)\n", 'Decimal("0.1")\n'),
    "INT001": (within('_(f"Hello {x}")'), within('_("Hello {x}").format(x=x)')),
    "INT002": (within('_("Hello {}".format(x))'), within('_("Hello {}").format(x)')),
    "INT003": (within('_("Hello %s" % x)'), within('_("Hello %s") % x')),
    "DTZ003": ("datetime.datetime.utcnow()\n", "datetime.datetime.now(datetime.UTC)\n"),
    "DTZ004": (
        "datetime.datetime.utcfromtimestamp(1)\n",
        "datetime.datetime.fromtimestamp(1, datetime.UTC)\n",
    ),
}
