"""Programs with a flow from a request to a dangerous call, and those that do the same without it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diffchecks.data_files import parse_yaml

LANGUAGES: Mapping[str, Mapping[str, Any]] = parse_yaml(
    (Path(__file__).parent / "samples.yaml").read_bytes()
)
KINDS = ("direct", "alias", "wrapper")


class Program(NamedTuple):
    """A program: how request data gets to a call of a class, or ``safe``, if it does not."""

    language: str
    code: str
    kind: str
    suffix: str
    text: str


def programs() -> Iterator[Program]:
    """Each frame's flow with every sink, and the rest of a sink's programs in one frame each.

    A sink, a check and a frame are known by rules of their own, so the frames take turns.
    """
    for language, data in LANGUAGES.items():
        sinks = [(code, sink) for code, sinks in data["sinks"].items() for sink in sinks]
        for turn, (code, sink) in enumerate(sinks):
            first = sink == data["sinks"][code][0]
            of_frames = [_of_sink(data, it, sink, code, first=first) for it in data["frames"]]
            for number, same in enumerate(zip(*of_frames, strict=True), turn):
                able = [(kind, text) for kind, text in same if text]
                if able and able[0][0] != "alias":
                    able = [able[number % len(able)]]
                for kind, text in able:
                    yield Program(language, code, kind, data["suffix"], text)


def _of_sink(
    data: Mapping[str, Any], frame: Mapping[str, str], sink: str, code: str, *, first: bool
) -> Iterator[tuple[str, str]]:
    sigil = "$" if data["suffix"] == ".php" else ""

    def do(value: str) -> str:
        return sink.replace("@", value).replace("$W", value)

    def bare(value: str) -> bool:
        """Whether a text of PHP, which holds names alone, can hold the value."""
        return "$W" not in sink or re.fullmatch(r"\$\w+", value) is not None

    def made(body: str, wrapper: str = "") -> str:
        text = frame["frame"].replace("BODY", body)
        if "WRAPPER" in text:
            text = text.replace("WRAPPER", wrapper)
        elif wrapper:
            text = f"{wrapper}\n{text}"
        text = text.replace("SOURCE", frame["source"])
        return str(data["head"]) + re.sub(r"\$?\bV\b", f"{sigil}v", text) + "\n"

    name = f"{sigil}V"
    yield "direct", made(do("SOURCE")) if bare(frame["source"]) else ""
    yield "alias", made(f"{frame['alias']}{_end(data)}{do(name)}")
    wrapper = data["wrapper"].replace("DO", do(name))
    yield "wrapper", made(data["call"], wrapper)
    bodies = [do(value) if bare(value) else "" for value in data["safe"]]
    end = _end(data)
    bodies += [f"{frame['alias']}{end}{check}{end}{do(name)}" for check in data["allowed"]]
    bodies.append(data["shadow"].replace("DO", do(name)))
    bodies += [twin.replace("@", "SOURCE") for twin in (data["twins"][code] if first else ())]
    for body in bodies:
        yield "safe", made(body) if body else ""


def _end(data: Mapping[str, Any]) -> str:
    return "\n    " if data["suffix"] in {".rb", ".go"} else " "


OTHERS: list[tuple[str, list[str], str]] = [
    (row["suffix"], row["codes"], row["text"])
    for row in parse_yaml((Path(__file__).parent / "traits.yaml").read_bytes())
]
"""Programs of one trait each: suffix, the classes of their flows, and text."""
