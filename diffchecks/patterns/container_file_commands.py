"""Extracts the shell commands of a Dockerfile as a script, keeping line numbers."""

import json
from collections.abc import Iterator

from diffchecks.data_files import read_patterns
from diffchecks.file_patterns import suffix_of

_PATTERNS = read_patterns("container_file_commands")


def is_container_file(path: str, text: str) -> bool:
    """Whether a file is a Dockerfile, by its name, its folder and first instruction, or all."""
    directory, _, name = path.lower().rpartition("/")
    if suffix_of(name) or _PATTERNS["name"].search(name):
        return _PATTERNS["name"].search(name) is not None
    likely = _PATTERNS["first"].match(text) if "docker" in directory else None
    return likely is not None or _PATTERNS["whole"].fullmatch(text) is not None


def extract_commands(text: str) -> str:
    """What a shell runs, and the downloads of ADD; every other line is empty."""
    if _PATTERNS["escape"].match(text):
        text = _PATTERNS["last_backtick"].sub(r"\\", text)
    return "\n".join(_commands(iter(text.split("\n"))))


def _commands(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        found = _PATTERNS["instruction"].match(line)
        if found is None:
            yield ""
            continue
        is_add = (found[1] or "").upper() == "ADD"
        first = f"ADD {line[found.end(1) :]}" if is_add else line[found.end() :]
        document = _PATTERNS["here_document"].fullmatch(first.strip())
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
    runs = _PATTERNS["shell"].fullmatch(words[0]) and words[1][:1] == "-"
    return words[2].replace("\n", " ; ") if runs else ""


def _here_document(lines: Iterator[str], end: str) -> Iterator[str]:
    for line in lines:
        if line.strip() == end:
            yield ""
            return
        yield line


def _continued(line: str, lines: Iterator[str]) -> Iterator[str]:
    """A command up to its last line, without the comments and empty lines that Docker ignores."""
    yield line
    while _PATTERNS["continued"].search(line):
        following = next(lines, None)
        if following is None:
            return
        line = "\\" if _PATTERNS["left_out"].match(following) else following
        yield line
