"""The examples in the docstrings of the public API run; functions and central names have one."""

import doctest
import inspect
from functools import partial
from pathlib import Path

import anyio
import pytest

import orchestrator
from tests.review.review_kit import change
from tests.scripted_model import ScriptedModel, text_reply

CENTRAL = [
    "Agent", "Bounds", "Flow", "Guard", "Harness", "ModelCall", "ToolPolicy",
]  # fmt: skip
SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


@orchestrator.tool
async def pay(usd: float) -> float:
    """Pay."""
    return usd


def given(name: str, folder: Path) -> dict[str, object]:
    """The public names, and what an example cannot make in a line."""
    names = {name: getattr(orchestrator, name) for name in orchestrator.__all__}
    names |= {"anyio": anyio, "partial": partial, "pay": pay}
    if name == "Agent":
        names["model"] = ScriptedModel({"clerk": [text_reply("Fine.")]})
    if name == "review":
        names["repository"] = change(folder, {}, {"app.py": SHELL}).path
    return names


@pytest.mark.parametrize("name", sorted({*orchestrator.__all__} - {"__version__", "Verdict"}))
def test_the_example_of_a_public_name_runs(name: str, tmp_path: Path) -> None:
    documented = getattr(orchestrator, name)
    example = doctest.DocTestParser().get_doctest(
        documented.__doc__ or "", given(name, tmp_path), name, None, None
    )
    assert example.examples or not (name in CENTRAL or inspect.isfunction(documented))
    report: list[str] = []
    doctest.DocTestRunner().run(example, out=report.append)
    assert not report, "".join(report)
