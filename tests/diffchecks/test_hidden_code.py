"""Text that is other code to whatever runs it than to whoever reads it."""

import subprocess
import sys

import pytest

from diffchecks import invisible_characters, syntax_and_duplicates
from diffchecks.check_io import Gap
from diffchecks.python.source_definitions import read
from diffchecks.python.source_encoding import decode_python
from orchestrator.code_review.analyzer_types import Side
from tests.diffchecks.programs.program_tools import Oxlint, Ruff

HIDDEN = {
    "utf-7": "# coding: utf-7\n# +AAo-print('ran')\n",
    "unicode_escape": "#!/bin/x\n# vim: set fileencoding=unicode_escape :\n#\\u000aprint('ran')\n",
    "raw_unicode_escape": "# coding: raw_unicode_escape\n# \\u000aprint('ran')\n",
}


@pytest.mark.parametrize("encoding", HIDDEN)
def test_python_under_an_encoding_that_hides_it(bench, tmp_path, encoding):
    text = HIDDEN[encoding]
    (tmp_path / "run.py").write_text(text)
    ran = subprocess.run([sys.executable, tmp_path / "run.py"], capture_output=True, check=True)
    assert ran.stdout == b"ran\n"
    assert bench.codes(invisible_characters.run, "a.py", text) == ["hidden-code"]
    reply = bench.run(syntax_and_duplicates.run, {"a.py": text})
    assert reply.findings == []
    assert f"its encoding, {encoding}, decodes it to text other" in reply.gaps["a.py"]
    with pytest.raises(Gap, match="decodes it to text other"):
        read(str(tmp_path), "a.py")


def test_encodings_that_take_without_end_are_not_tried():
    with pytest.raises(ValueError, match="punycode"):
        decode_python(b"# coding: punycode\n" + b"a" * 1_000_000)


@pytest.mark.parametrize(
    "data",
    [
        "# coding: latin-1\nname = 'é'\n".encode("latin-1"),
        "# coding: gbk\nname = '上'\n".encode("gbk"),
        "# -*- coding: utf-8 -*-\nname = '上'\n".encode(),
        "# on encoding and decoding\nname = '上'\n".encode(),
        b"name = 'a\\u000ab'\n",
    ],
)
def test_usual_encodings_hide_nothing(bench, data):
    assert bench.codes(invisible_characters.run, "a.py", data) == []
    assert bench.codes(syntax_and_duplicates.run, "a.py", data) == []


def test_a_line_of_javascript_that_ends_unseen_is_told(bench):
    text = "// a\u2028run(x);\n"
    assert bench.codes(invisible_characters.run, "a.mjs", text) == ["invisible"]


def test_java_whose_comment_or_text_ends_before_its_line(bench):
    for line in ("// \\u000aexec(x);", "/* \\u002a/ exec(x); /* */", 'a = "\\u0022; exec(x); //";'):
        assert bench.codes(invisible_characters.run, "A.java", f"{line}\n") == ["hidden-code"]
    assert bench.codes(invisible_characters.run, "A.java", "a('\\u0022');\n") == []
    assert bench.codes(invisible_characters.run, "A.java", 'a("\\\\u000a", "\\u0041");\n') == []


async def test_a_file_that_is_not_utf8_does_not_stop_the_programs(tmp_path):
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\n# \xe9\ndef f(x):\n    eval(x)\n")
    (tmp_path / "none.py").write_bytes(b"# \xe9\ndef f(x):\n    eval(x)\n")
    (tmp_path / "a.js").write_bytes(b"// \xe9\ndebugger;\n")
    side = Side("head", tmp_path)
    said = await Ruff({"S307"}).run(side, ["latin.py", "none.py"])
    assert [(raw.path, raw.line) for raw in said.findings] == [("latin.py", 4)]
    assert set(said.gaps) == {"none.py"}
    said = await Oxlint({"no-debugger"}).run(side, ["a.js"])
    assert [(raw.path, raw.line) for raw in said.findings] == [("a.js", 2)]
