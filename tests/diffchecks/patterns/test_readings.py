"""How often a program is parsed, and as what."""

from pathlib import Path

import ast_grep_py
import pytest

from diffchecks import DATA
from diffchecks.check_io import Source
from diffchecks.patterns.pattern_loading import load_language
from diffchecks.patterns.readings import read_program, unread_lines
from diffchecks.template_marks import describe_template

FILES = tuple(map(str, sorted(Path(DATA, "patterns").glob("*.yaml"))))
HEADER = """\
#include <string>
namespace web {{
template <class T, class = void> struct part{0} {{ T value; }};
inline bool send{0}(const std::string &text) {{
#ifdef WITH_TLS
  if (text.size() > {0}) {{
#else
  if (!text.empty()) {{
#endif
    return write(text.data(), static_cast<size_t>(text.size()));
  }}
  return false;
}}
}}
"""


def test_a_header_of_cpp_is_parsed_as_c_once_and_read_by_branch_before_anything_is_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed, parse = list[str](), ast_grep_py.SgRoot

    def count(text: str, grammar: str) -> ast_grep_py.SgRoot:
        parsed.append(grammar)
        return parse(text, grammar)

    monkeypatch.setattr(ast_grep_py, "SgRoot", count)
    source = Source("web.h", "".join(map(HEADER.format, range(100))).encode())
    language = load_language(FILES, ".h")
    assert language is not None
    readings = read_program(source, language)
    assert not unread_lines(readings)
    assert {reading.grammar for reading in readings} == {"cpp"}
    assert parsed == ["c", "cpp", "cpp", "cpp"]


def test_a_class_of_csharp_that_depends_on_a_platform_is_read_by_branch() -> None:
    text = "#if NET\n[Skip]\n#endif\nclass A {\n  void F() {\n#if NET\n    if (a) {\n#else\n"
    text += "    if (b) {\n#endif\n      g();\n    }\n  }\n}\n"
    language = load_language(FILES, ".cs")
    assert language is not None
    assert not unread_lines(read_program(Source("a.cs", text.encode()), language))


@pytest.mark.parametrize(
    ("path", "text", "mark"),
    [
        ("a.h", "int a[2][2] = {{1, 2}, {3, 4}};", ""),
        ("a.cpp", "auto a = std::array<int, 2>{{b}};", ""),
        ("a.go", "var a = [][]int{{1}}", ""),
        ("a.h", "#define NAME {{ cookiecutter.name }}", "{{ }}"),
        ("a.js", "var a = {{b}};", "{{ }}"),
        (".github/workflows/a.yml", "run: ${{ env.A }}", ""),
    ],
)
def test_lists_in_lists_are_no_mark_of_a_template(path: str, text: str, mark: str) -> None:
    assert describe_template(path, text).partition(",")[0] == mark
