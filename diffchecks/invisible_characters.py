"""Reports invisible and look-alike characters in code, and text that instructs an AI reviewer."""

import re
import unicodedata
from collections.abc import Iterator

from diffchecks.check_io import CheckReply, RawFinding, Source, check_files
from diffchecks.data_files import read_names, read_patterns, vocabulary
from diffchecks.jobs import SideJob
from diffchecks.path_kinds import is_test
from diffchecks.python.source_encoding import HiddenTextError, decode_python

_PATTERNS = read_patterns("invisible")
_UNREADABLE = 500  # characters; nobody reads what such a line of a minified file displays
_NEAR, _MANY = 40, 50  # characters around one, and how many of them a finding compares
_PROSE = 4  # words of another script in a line of a test, above which they are a text
_DECODED_FIRST = frozenset({".java", ".groovy", ".gradle", ".scala"})
_LOOKALIKE = ("CYRILLIC", "GREEK", "ARMENIAN")


def _shown(found: re.Match[str]) -> str:
    return f"U+{ord(found.group()[0]):04X} {unicodedata.name(found.group()[0], 'unnamed')}"


def looks(source: Source) -> Iterator[RawFinding]:
    """All findings in one file."""
    is_data = is_test(source.path) and vocabulary("given_to_tests").search(source.path)
    code = not is_data and _PATTERNS["code"].search(source.name)
    is_about_agents = source.is_illustrative and not vocabulary("guidance").search(source.path)
    if source.suffix in {".py", ".pyi", ".pyw"}:
        yield from _hidden(source)
    for number, line in enumerate(source.lines, 1):
        if not line.isascii():
            in_code = bool(code and not _PATTERNS["said"].match(line))
            yield from _unseen(source.path, number, line, in_code)
        if source.suffix in _DECODED_FIRST and _PATTERNS["syntax"].search(line):
            what = "An escape ends this line, comment or text for the compiler"
            yield RawFinding("hidden-code", source.path, number, what)
        if found := vocabulary("talks_to_model").search(line):
            yield RawFinding(
                "model-instruction",
                source.path,
                number,
                f"Text that gives instructions to a reviewing model: {found.group()[:80]!r}",
                confidence=0.4 if is_about_agents else 0.7,
            )


def _hidden(source: Source) -> Iterator[RawFinding]:
    try:
        decode_python(source.data)
    except HiddenTextError as error:
        line = 1 + (b"coding" not in source.data.partition(b"\n")[0])
        what = f"Python runs code other than what is shown here: {error}"
        yield RawFinding("hidden-code", source.path, line, what)
    except (SyntaxError, ValueError):
        return  # it does not run


def _unseen(path: str, number: int, line: str, code: bool) -> Iterator[RawFinding]:
    minified = len(line) >= _UNREADABLE and _PATTERNS["minified"].search(path)
    bidi = [] if minified else list(_PATTERNS["bidi"].finditer(line))
    if bidi:
        what = f"{_shown(bidi[0])} reorders the displayed text"
        # A bundle is one line, of which another part may have changed.
        near = [line[max(0, each.start() - _NEAR) : each.end() + _NEAR] for each in bidi[:_MANY]]
        key = " ".join(near) if len(line) >= _UNREADABLE and len(bidi) <= _MANY else None
        yield RawFinding("bidi-control", path, number, what, key=key)
    if found := _PATTERNS["tags"].search(line):
        what = "Tag characters hide text in this line"
        yield RawFinding("tag-characters", path, number, what)
    # In what tests expect, one at the end of a word hides no name.
    hides = _PATTERNS["inside_word" if is_test(path) else "invisible"]
    if code and (found := hides.search(line)):
        word = next(part for part in re.split("[ \t]+", line) if found[0] in part)
        yield RawFinding("invisible", path, number, f"{_shown(found)} is invisible", key=word)
    if code:
        words = _PATTERNS["word"].findall(_PATTERNS["escape"].sub(" ", line))
        words = [word for word in words if not word.isascii()]
        mixed = [(word, other) for word in words if (other := _mixed(word))]
        prose = is_test(path) and len(words) - len(mixed) > _PROSE
        if mixed and not prose:
            word, other = mixed[0]
            what = f"{word!r} mixes Latin with {other.title()} look-alike letters"
            yield RawFinding("mixed-script", path, number, what, confidence=0.8)


def _mixed(word: str) -> str:
    """The second script of a word that also has Latin letters; empty: none."""
    if not any(letter.isascii() and letter.isalpha() for letter in word):
        return ""
    cyrillic = (letter for letter in word if "\u0400" <= letter <= "\u052f")
    if not read_names("cyrillic_lookalikes").issuperset(cyrillic):
        return ""  # it deceives nobody
    names = (unicodedata.name(letter, "") for letter in word if not letter.isascii())
    # Greek letters beside Latin ones are mathematics: only those that look Latin count.
    return next(
        (
            script
            for name in names
            for script in _LOOKALIKE
            if name.startswith(script) and (script != "GREEK" or name.endswith(("OMICRON", "NU")))
        ),
        "",
    )


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, looks)
