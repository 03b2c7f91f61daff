"""Files that are made to stop the one who reads them: each is a named gap, and soon."""

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from diffchecks import yaml_tree
from diffchecks.check_io import CheckReply
from diffchecks.infrastructure import MAX_OF_A_KIND
from diffchecks.yaml_tree import MAX_ALIASED, MAX_DEPTH
from tests.diffchecks.infrastructure.infrastructure_kit import cases, look

POD = "apiVersion: v1\nkind: Pod\n"
PATH = "deploy/web.yaml"
CASES = cases()
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C they take a tenth of the time
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
SECONDS = 5.0
"""Of processor time: far more than these take, and far less than what they are made to cost."""


def bomb(levels: int) -> str:
    """Nine aliases of nine aliases of nine values."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for level in range(1, levels):
        again = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} [{again}]")
    return POD + "\n".join(lines) + "\n"


def timed(root: Path, text: str | bytes) -> CheckReply:
    start = time.process_time()
    reply = look(root, {PATH: text})
    assert time.process_time() - start < SECONDS
    return reply


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (bomb(12), f"its aliases expand to more than {MAX_ALIASED} values"),
        (POD + "spec: " + "[" * 200_000, f"nested deeper than {MAX_DEPTH} levels"),
        (POD + "spec: " + "{a: " * 200_000, f"nested deeper than {MAX_DEPTH} levels"),
        (POD + "spec: &a\n  b: *a\n", "line 4: an alias refers to its own container"),
        (POD + "spec: *nowhere\n", "line 3: an alias refers to nothing"),
        (POD + "spec: [}\n", "line 3: not YAML, so what it configures was not examined"),
        (POD + "spec: \x07\n", "not YAML, so what it configures was not examined"),
    ],
    ids=["bomb", "lists", "maps", "within itself", "unknown", "broken", "control character"],
)
def test_a_file_that_cannot_be_walked_is_a_gap(tmp_path: Path, text: str, why: str) -> None:
    assert timed(tmp_path, text) == CheckReply(gaps={PATH: why})


def test_depth_counts_through_aliases(tmp_path: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [[[[*a{n - 1}]]]]\n" for n in range(1, 20))
    reply = timed(tmp_path, POD + "a0: &a0 []\n" + levels)
    assert reply.gaps == {PATH: f"nested deeper than {MAX_DEPTH} levels"}


def test_a_file_of_too_many_values_is_a_named_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_tree, "MAX_VALUES", 5_000)
    reply = look(tmp_path, {PATH: POD + "spec: [" + "1," * 4_900 + "]\n"})
    assert reply.gaps == {}
    reply = look(tmp_path, {PATH: POD + "spec: [" + "1," * 5_001 + "]\n"})
    assert reply.gaps == {PATH: "more than 5000 values"}


def test_one_line_of_five_megabytes_is_read(tmp_path: Path) -> None:
    text = f"{{apiVersion: v1, kind: Pod, note: '{'a' * 5_000_000}', spec: {{hostPID: true}}}}\n"
    reply = look(tmp_path, {PATH: text})
    assert [finding.code for finding in reply.findings] == ["k8s-host-namespace"]


def test_invalid_utf8_does_not_hide_findings(tmp_path: Path) -> None:
    reply = timed(tmp_path, (POD + "metadata: {name: 'ma").encode() + b"\xe9'}\nhostPID: true\n")
    assert [(finding.code, finding.line) for finding in reply.findings] == [
        ("k8s-host-namespace", 4)
    ]


def test_a_file_of_another_kind_is_not_examined_however_it_looks(tmp_path: Path) -> None:
    files = {
        "a.yaml": "privileged: true\nhostPID: true\n",
        "b.json": '{"kind": "x", "apiVersion": {"type": "string"}}',
        "c.yaml": "services: [a, b]\n",
        "d.yaml": "broken: [}\n",
        "e.yaml": "apiVersion: 2\nname: chart\n",
    }
    assert look(tmp_path, files) == CheckReply()


def test_many_findings_in_one_file_are_limited(tmp_path: Path) -> None:
    volumes = "".join(f"    - {{name: v{n}, hostPath: {{path: /}}}}\n" for n in range(5000))
    reply = timed(tmp_path, f"{POD}spec:\n  volumes:\n{volumes}")
    assert len(reply.findings) == MAX_OF_A_KIND
    assert reply.findings[-1].detail == "More of this kind in this file are not listed"


def test_a_long_key_is_not_repeated_in_every_finding(tmp_path: Path) -> None:
    contexts = ", ".join(f"c{n}: {{securityContext: {{privileged: true}}}}" for n in range(99))
    reply = timed(tmp_path, f"{POD}? {'k' * 1_000_000}\n: {{{contexts}}}\n")
    assert len(reply.findings) == 99
    assert all(len(finding.message) < 200 for finding in reply.findings)
    assert all(len(finding.key or "") < 300 for finding in reply.findings)


def test_one_long_command_is_searched_once(tmp_path: Path) -> None:
    quoted = "'note " + '"$CI_COMMIT_MESSAGE" ' * 50_000
    text = f"a:\n  script: [{quoted} $CI_COMMIT_TITLE']\n"
    start = time.process_time()
    reply = look(tmp_path, {".gitlab-ci.yml": text})
    assert time.process_time() - start < SECONDS
    assert [finding.code for finding in reply.findings] == ["gitlab-unquoted"]


def shapes(node: Any) -> Iterator[Any]:
    """A document again and again, each time with another kind of value in one place."""
    yield from ("x", [], ["a", ["b"]], {"a": {"b": "c"}}, [{"name": ["q"]}])
    pairs = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in list(pairs):
        for other in shapes(value):
            changed = copy.copy(node)
            changed[key] = other
            yield changed


@pytest.mark.parametrize("code", sorted(CASES))
def test_values_of_another_kind_than_expected_break_nothing(tmp_path: Path, code: str) -> None:
    path, bad, _ = CASES[code]
    if "{{" in bad or "!" in bad:
        return
    for document in yaml.load_all(bad, LOADER):
        for number, shape in enumerate(shapes(document)):
            reply = look(tmp_path / str(number), {path: yaml.dump(shape, Dumper=DUMPER)})
            assert not reply.gaps
