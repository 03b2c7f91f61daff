"""Extracts the shell commands of a Dockerfile as a script, keeping line numbers."""

import json
import re
from collections.abc import Iterator

_NAME = re.compile(r"(?:^|\.)(?:docker|container)file(?:\.|$)")
_FIRST = re.compile(r"(?m)(?:\s*#[^\n]*\n)*+\s*(?:FROM|ARG)\s+\S+(?:\s+AS\s+\S+)?\s*$")
_INSTRUCTION = re.compile(
    r"\s*(?:ONBUILD\s+)?(?:(RUN|ADD|CMD|ENTRYPOINT)|HEALTHCHECK\s+(?:--[\w-]+=\S+\s+)*(CMD))\s+"
    r"(?:--[\w-]+=\S+\s+)*",
    re.IGNORECASE,
)
_SHELL = re.compile(r"(?:/\S*/)?(?:sh|bash|dash|ksh|zsh)")
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1\s*$")
_LEFT_OUT = re.compile(r"\s*(?:#|$)")
_CONTINUED = re.compile(r"\\\s*$")


def is_container_file(path: str, text: str) -> bool:
    """Whether a file is a Dockerfile, by its name, or by its folder and its first instruction."""
    directory, _, name = path.lower().rpartition("/")
    if _NAME.search(name):
        return True
    return "." not in name and "docker" in directory and _FIRST.match(text) is not None


def extract_commands(text: str) -> str:
    """What a shell runs, and the downloads of ADD; every other line is empty."""
    return "\n".join(_commands(iter(text.split("\n"))))


def _commands(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        found = _INSTRUCTION.match(line)
        if found is None:
            yield ""
            continue
        is_add = (found[1] or "").upper() == "ADD"
        first = f"ADD {line[found.end(1) :]}" if is_add else line[found.end() :]
        document = _HERE_DOCUMENT.fullmatch(first.strip())
        if first.startswith("["):
            yield _of_words(first)
        elif document:
            yield ""
            yield from _here_document(lines, document[2])
        else:
            yield from _continued(first, lines)


def _of_words(text: str) -> str:
    """The script of a list of words if these start a shell; otherwise no shell runs them."""
    try:
        words = json.loads(text)
    except ValueError:
        return ""
    if not isinstance(words, list) or len(words) < 3 or not all(isinstance(w, str) for w in words):
        return ""
    return (
        words[2].replace("\n", " ; ") if _SHELL.fullmatch(words[0]) and words[1][:1] == "-" else ""
    )


def _here_document(lines: Iterator[str], end: str) -> Iterator[str]:
    for line in lines:
        if line.strip() == end:
            yield ""
            return
        yield line


def _continued(line: str, lines: Iterator[str]) -> Iterator[str]:
    """A command up to its last line, without the comments and empty lines that Docker ignores."""
    yield line
    while _CONTINUED.search(line):
        following = next(lines, None)
        if following is None:
            return
        line = "\\" if _LEFT_OUT.match(following) else following
        yield line
