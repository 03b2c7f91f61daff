"""A language is read under every suffix that its files have."""

from pathlib import Path

import pytest

from diffchecks.file_patterns import file_names, matches
from diffchecks.patterns.pattern_loading import PatternFile, load
from tests.diffchecks.patterns.test_pattern_files import FILES, look

LANGUAGES = {next(iter(each.grammars)): each for each in load(tuple(FILES))}


@pytest.mark.parametrize("first", LANGUAGES)
def test_a_defect_is_found_under_every_suffix_of_a_language(tmp_path: Path, first: str) -> None:
    language: PatternFile = LANGUAGES[first]
    known = (one for one in reversed(language.patterns) if one.grammars is None)
    pattern = next(one for one in known if not one.not_in.search("a.rake"))
    names = {f"a{suffix}" for suffix in language.grammars}
    reply = look(tmp_path, dict.fromkeys(names, pattern.bad))
    assert {finding.path for finding in reply.findings if finding.code == pattern.code} == names
    assert not [name for name in names if not matches(name, file_names("patterns_and_modules"))]
