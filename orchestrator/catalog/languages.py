"""What files are by their names (``config/languages.yaml``): languages, and kinds of template."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import NonEmptyStr, Strict

LANGUAGES_FILE = "config/languages.yaml"

Globs = Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]


class Language(Strict, frozen=True):
    """One language.

    Attributes:
        kind: ``program`` executes, ``data`` configures or describes, ``settings`` have no more to
            read than their text, ``style`` decides how pages look, ``prose`` is for people.
        files: globs in lower case, of names; of whole paths where they have a slash.
    """

    kind: Literal["program", "data", "settings", "style", "prose"]
    files: Globs


class LanguagesFile(Strict, frozen=True):
    """All languages, the first that matches counts, and the kinds of template."""

    languages: Mapping[NonEmptyStr, Language]
    templates: Mapping[NonEmptyStr, Globs]

    def language_of(self, path: str) -> str:
        """The name of a file's language; empty: not known."""
        entries = ((name, entry.files) for name, entry in self.languages.items())
        return _first_match(path, entries)

    def sample_names(self, language: str) -> list[str]:
        """Names of files of a language for each of its globs, in lower case and capitalized."""
        globs = self.languages[language].files
        names = [re.sub(r"\[(.).*?\]", r"\1", glob).replace("*", "x") for glob in globs]
        return [*names, *(name.capitalize() for name in names)]

    def template_of(self, path: str) -> str:
        """The name of the kind of template that a file is; empty: none."""
        return _first_match(path, self.templates.items())


def _first_match(path: str, entries: Iterable[tuple[str, Globs]]) -> str:
    lower = path.lower()
    name = lower.rpartition("/")[2]
    for entry, globs in entries:
        by_name, by_path = _compiled(globs)
        if by_name.fullmatch(name) or by_path.fullmatch(lower):
            return entry
    return ""


@lru_cache(maxsize=512)
def _compiled(globs: Globs) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Of globs without a slash, and of those with one; no glob matches nothing."""
    by_path = [glob for glob in globs if "/" in glob]
    by_name = [glob for glob in globs if "/" not in glob]
    return _join(by_name), _join(by_path)


def _join(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)) or r"(?!)")
