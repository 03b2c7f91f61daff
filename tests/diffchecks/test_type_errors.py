"""What type checkers print is read as errors, and an error that only moved is not new."""

import pytest

from diffchecks.type_errors import (
    Error,
    NotPrintedByCheckerError,
    PrintedError,
    find_new,
    read_errors,
)

VALUE = 'Incompatible return value type (got "int", expected "str")'
MYPY_JSON = (
    '{"file": "a.py", "line": 2, "column": 11, "message": "No", "hint": null, "code": "misc", '
    '"severity": "error"}\n'
    '{"file": "a.py", "line": 3, "column": 0, "message": "So", "hint": null, "code": null, '
    '"severity": "note"}\n'
)
PYRIGHT = """\
/work/a.py
  /work/a.py:2:12 - error: Type "int" is not assignable to return type "str"
  \xa0\xa0"int" is not assignable to "str" (reportReturnType)
  /work/a.py:9:1 - error: "b" is not defined (reportUndefinedVariable)
  /work/a.py:11:13 - warning: Import "c" could not be resolved (reportMissingModuleSource)
/work/b.py
  /work/b.py:1:1 - error: Expected expression
3 errors, 1 warning
"""
PYRIGHT_JSON = """\
{"version": "1.1", "generalDiagnostics": [
 {"file": "/work/a.py", "severity": "error", "message": "Type\\n  no", "rule": "reportReturnType",
  "range": {"start": {"line": 1, "character": 11}, "end": {"line": 1, "character": 12}}},
 {"file": "/work/a.py", "severity": "information", "message": "It is an int",
  "range": {"start": {"line": 1, "character": 11}, "end": {"line": 1, "character": 12}}},
 {"file": "/work/b.py", "severity": "error", "message": "Cycle"}
], "summary": {"errorCount": 2}}
"""
TSC_PRETTY = (
    "\x1b[96msrc/a.ts\x1b[0m:\x1b[93m2\x1b[0m:\x1b[93m3\x1b[0m - \x1b[91merror\x1b[0m"
    "\x1b[90m TS2322: \x1b[0mType 'number' is not assignable.\n\n\x1b[7m2\x1b[0m   return n;\n"
)


@pytest.mark.parametrize(
    ("checker", "text", "expected"),
    [
        ("mypy", f"a.py:2: error: {VALUE}  [return-value]\na.py:2: note: See\nFound 1 error\n",
         [("a.py", 2, 0, "return-value", VALUE)]),
        ("mypy", f"src/a b.py:2:12: error: {VALUE}", [("src/a b.py", 2, 12, "", VALUE)]),
        ("mypy", "a.py:2:12:2:14: error: No  [misc]", [("a.py", 2, 12, "misc", "No")]),
        ("mypy", MYPY_JSON, [("a.py", 2, 12, "misc", "No")]),
        ("mypy", "Success: no issues found in 1 source file\n", []),
        ("pyright", PYRIGHT, [
            ("/work/a.py", 2, 12, "reportReturnType",
             'Type "int" is not assignable to return type "str" "int" is not assignable to "str"'),
            ("/work/a.py", 9, 1, "reportUndefinedVariable", '"b" is not defined'),
            ("/work/b.py", 1, 1, "", "Expected expression"),
        ]),
        ("pyright", PYRIGHT_JSON, [
            ("/work/a.py", 2, 12, "reportReturnType", "Type\n  no"),
            ("/work/b.py", 0, 0, "", "Cycle"),
        ]),
        ("tsc", "src/a.ts(2,3): error TS2322: Type 'number'.\n  Types differ.\nerror TS18003: None.\n",
         [("src/a.ts", 2, 3, "TS2322", "Type 'number'."), ("", 0, 0, "TS18003", "None.")]),
        ("tsc", TSC_PRETTY, [("src/a.ts", 2, 3, "TS2322", "Type 'number' is not assignable.")]),
        ("tsc", "{ no JSON\n", []),
    ],
)  # fmt: skip
def test_the_output_of_type_checkers_is_parsed(
    checker: str, text: str, expected: list[tuple[str, int, int, str, str]]
) -> None:
    assert read_errors(checker, text.encode()) == [PrintedError(*one) for one in expected]


@pytest.mark.parametrize("text", ["{", '{"file": 1}', '{"file": "a"}', '{"a": ' * 100_000])
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_json_of_another_tool_is_an_error(checker: str, text: str) -> None:
    with pytest.raises(NotPrintedByCheckerError, match=f"printed JSON that is not {checker}'s"):
        read_errors(checker, text.encode())


def one(path: str, line: int, text: str, code: str = "misc", message: str = "No") -> Error:
    return Error(path, line, 0, code, message, text)


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ([one("a", 1, "x()")], [one("a", 9, "x()")], []),  # moved in its file
        ([one("a", 1, "x()")], [one("b", 9, "x()")], []),  # moved to another file
        ([one("a", 1, "x()")], [one("a", 1, "x(1)")], []),  # its line was rewritten
        ([one("a", 1, "x()")], [one("a", 1, "x(1)", message="Else")], ["a:1"]),
        ([one("a", 1, "x()")], [one("b", 1, "x(1)")], ["b:1"]),
        ([one("a", 1, "x()")], [one("a", 1, "x()", "arg", "Else")], ["a:1"]),  # of another kind
        ([one("a", 1, "x()")], [one("a", 2, "x()"), one("a", 7, "x()")], ["a:7"]),  # 7 is added
        ([one("b", 1, "x()")], [one("a", 1, "x()"), one("b", 1, "x()")], ["a:1"]),
        ([one("a", 1, "x()"), one("a", 2, "x()")], [one("a", 1, "x()")], []),
        ([], [one("b", 2, "y"), one("a", 3, "z")], ["a:3", "b:2"]),
    ],
)
def test_an_error_that_only_moved_is_not_new(
    base: list[Error], head: list[Error], expected: list[str]
) -> None:
    found = find_new(base, head, lambda path: frozenset({7}))
    assert [f"{error.path}:{error.line}" for error in found] == expected
