"""Typos: known misspellings in prose and in comments, but not in names of code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diffchecks.check_io import Edit, RawFinding
from diffchecks.data_files import read_patterns
from diffchecks.file_patterns import file_names, matches
from diffchecks.programs import TABLES, FileCopies, Linter

_TABLE = TABLES["typos"]
_PROSE = file_names("prose")
_HASH_COMMENTS = file_names("hash_comments")
_PATTERNS = read_patterns("typos")
_NOT_WORDS = re.compile("|".join(_TABLE["not_words"]))
_MAX_LINE = 2000  # characters; a longer line is no sentence, and takes quadratic time
_MIN_WORD = 5  # letters; shorter ones are abbreviations as often as misspellings
_ENGLISH = re.compile(_TABLE["english"], re.IGNORECASE)
_MIN_WORDS = 60  # to recognize the language by
_ENGLISH_SHARE = 0.03  # in English, every tenth word or more is one of these


class Typos(Linter):
    """Typos with its own dictionary only; British and American spelling are both accepted."""

    def prepare(self, path: str, data: bytes) -> bytes | None:
        """Keep the sentences and blank out the rest; None when the text is not English."""
        lines = data.decode("utf-8", "replace").split("\n")
        kept = _sentences(lines) if matches(path, _PROSE) else _comments(lines, path)
        text = "\n".join(
            ""
            if not s or len(s) > _MAX_LINE
            else _NOT_WORDS.sub(lambda found: " " * len(found[0]), s)
            for s in kept
        )
        words = len(_PATTERNS["word"].findall(text))
        if words > _MIN_WORDS and len(_ENGLISH.findall(text)) < _ENGLISH_SHARE * words:
            return None
        return text.encode()

    def finding(self, result: Any, copies: FileCopies) -> RawFinding | None:
        """A misspelling of a word that is long enough, and no name."""
        place = result["locations"][0]["physicalLocation"]
        name = copies.name_of(place["artifactLocation"]["uri"])
        message = result["message"]["markdown"]
        word = message.split("`")[1]
        if len(word) < _MIN_WORD or not (word.isascii() and word.islower()):
            return None  # with a capital it is a name as often as a misspelling
        if word.replace("eing", "ing") in message.split("`")[3::2]:
            return None  # requeueing, cueing, ageing: both spellings are in use
        return RawFinding(
            code="misspelling",
            path=copies.paths[name],
            line=place["region"]["startLine"],
            column=place["region"].get("startColumn", 0),
            message=message,
            key=word,
            confidence=0.9,
            edits=_edits(result.get("fixes", ()), copies, name),
        )


def _edits(fixes: Sequence[Mapping[str, Any]], copies: FileCopies, name: str) -> tuple[Edit, ...]:
    """The correction, where there is one only."""
    changed = [
        each
        for fix in fixes
        for change in fix["artifactChanges"]
        for each in change["replacements"]
    ]
    if len(changed) != 1:
        return ()
    region, text = changed[0]["deletedRegion"], changed[0]["insertedContent"]["text"]
    line = region["startLine"]
    return copies.edits(name, [(line, region["startColumn"], line, region["endColumn"], text)])


def _sentences(lines: list[str]) -> Iterator[str]:
    """Prose without its code blocks, line by line."""
    fenced = False
    for line in lines:
        fenced ^= (fence := _PATTERNS["fence"].match(line)) is not None
        code = fenced or fence or line.startswith(("    ", "\t", ".. ", ">>>"))
        # A line that links to a commit quotes the message of that commit.
        yield "" if code or _PATTERNS["commit"].search(line) else line


def _comments(lines: list[str], path: str) -> Iterator[str]:
    """Lines that are comments as a whole, and strings in triple quotes; other lines are empty.

    Columns stay: what opens a comment or a string becomes white space.
    """
    comment, quote = _PATTERNS["hash" if matches(path, _HASH_COMMENTS) else "slash"], ""
    is_python = path.endswith((".py", ".pyi"))
    for line in lines:
        opened = _PATTERNS["triple"].match(line) if is_python and not quote else None
        if quote:
            text = line
            quote = "" if quote in line else quote
        elif opened is not None:
            text = " " * opened.end() + line[opened.end() :]
            quote = "" if opened[1] in text else opened[1]
        else:
            plain = comment.fullmatch(line)
            text = " " * plain.start(1) + plain[1] if plain else ""
        yield text


LINTER = Typos("typos")
