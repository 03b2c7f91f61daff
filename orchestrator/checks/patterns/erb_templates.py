"""The Ruby of a template in ERB: what stands in its tags, on the lines where it stands."""

from __future__ import annotations

from orchestrator.checks.check_protocol import Gap

_SIGNS = "=-"  # how a tag's value is shown, and what becomes of the white space around it


def ruby_of(text: str) -> str:
    """A template as a program: its tags' code, one after the other, and nothing between them.

    Raises:
        Gap: a tag has no end.
    """
    program, at = [], 0
    while (start := text.find("<%", at)) >= 0:
        program.append("\n" * text.count("\n", at, start))
        if text.startswith("<%%", start):  # a written-out "<%"
            at = start + 3
            continue
        at = text.find("%>", start)
        if at < 0:
            raise Gap("one of its tags does not end")
        code = text[start + 2 : at]
        if code.startswith("#"):
            program.append("\n" * code.count("\n"))
        else:
            program.append(f"{code.lstrip(_SIGNS).removesuffix('-')};")
    return "".join(program)
