"""Code that can end a test runner or change what it says: only what a change adds is named."""

import pytest

from diffchecks.test_quality.failed_tests import find_added_tampering

NOTHING = "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("path", "added", "named"),
    [
        ("a.py", "import os\nos._exit(0)\n", "os._exit"),
        ("a.py", "from os import _exit as leave\nleave(0)\n", "os._exit"),
        ("a.py", "import os as o\no._exit(0)\n", "_exit"),
        ("a.py", "import os\ngetattr(os, '_exit')(0)\n", "_exit"),
        ("a.py", "import os\nos.execv('/bin/true', ['true'])\n", "os.execv"),
        ("a.py", "import atexit\n", "atexit"),
        ("a.py", "import unittest\n", "unittest"),
        ("a.py", "from _pytest.runner import runtestprotocol\n", "_pytest"),
        ("a.py", "__import__('_pytest')\n", "_pytest"),
        ("a.py", "f.__code__ = (lambda: 1).__code__\n", "__code__"),
        ("a.py", "import sys\nsys.modules['json'] = None\n", "sys.modules"),
        ("a.py", "import sys\nsys.exit(0)\n", "sys.exit at import"),
        ("a.py", "try:\n    raise SystemExit(0)\nfinally:\n    pass\n", "SystemExit at import"),
        ("tests/test_a.py", "import os\nif os.fork() == 0:\n    pass\n", "os.fork"),
        (
            "tests/test_a.py",
            "import unittest\nunittest.TestCase.assertEqual = print\n",
            "unittest.TestCase",
        ),
        (
            "tests/test_a.py",
            "from unittest import TestCase\nsetattr(TestCase, 'fail', print)\n",
            "TestCase",
        ),
        ("cli.js", "process.exit(0)\n", "process.exit"),
        ("a.go", "func init() { os.Exit(0) }\n", "os.Exit"),
        ("tests/test_a.py", "import pytest\nimport unittest\n", ""),
        ("a.py", "import sys\nif __name__ == '__main__':\n    sys.exit(f())\n", ""),
        ("a.py", "import sys\ndef main():\n    sys.exit(f())\n", ""),
        ("a.py", "repository.fork()\nf.code = 1\n", ""),
        ("notes.md", "os._exit(0)\n", ""),
        ("a.py", "def broken(:\n", ""),
    ],
)
def test_which_added_code_is_named(path: str, added: str, named: str) -> None:
    assert find_added_tampering(path, NOTHING, NOTHING + added) == named
    assert find_added_tampering(path, NOTHING + added, added + NOTHING) == ""
