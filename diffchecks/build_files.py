"""Dangerous builds, scripts and settings in files without a grammar: ``tables/build_files.yaml``.

A language has these fields:

    files     patterns of names
    settings  true: no program runs such a file as a script of its language
    comment   expression for comments, which are not searched
    checked   expression for a check of what was downloaded: no download before it counts
    also      another language whose patterns hold here too
    patterns  ``code`` in the rule table, ``message``, ``find``, and a program that is ``bad`` and
              one that is ``good`` and differs in one thing; ``unless``: an expression for the file

``find`` is an expression, in any case, in which ``{NAME}`` stands for one of ``names``. The code
``script`` becomes one for the server that the match names, ``download`` one for http.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from diffchecks.check_io import CheckReply, NotApplicable, RawFinding, Source, check_files
from diffchecks.data_files import read_yaml
from diffchecks.file_patterns import matches
from diffchecks.jobs import SideJob
from diffchecks.patterns.downloaded_scripts import origin_of_download
from diffchecks.script_languages import path_by_language

TABLE = "build_files.yaml"
_SHOWN = 3  # lines of a match


def languages() -> dict[str, Any]:
    """The languages of the table by name."""
    return {name: fields for name, fields in read_yaml(TABLE).items() if name != "names"}


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, find_dangerous_builds)


def find_dangerous_builds(source: Source) -> Iterator[RawFinding]:
    """All findings in one file."""
    known = languages()
    path = path_by_language(source.path, source.data)
    found = [each for each in known.values() if matches(path, each["files"])]
    if not found:
        raise NotApplicable
    language = found[0]  # names of folders can be those of two
    comment = _compiled(language["comment"])
    text = comment.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), source.text)
    checked = _compiled(language.get("checked", "(?!)"))
    also = known[language["also"]]["patterns"] if "also" in language else []
    for pattern in [*language["patterns"], *also]:
        for match in _compiled(pattern["find"]).finditer(text):
            code, unless = pattern["code"], pattern.get("unless")
            if unless and re.search(
                unless.replace("(?P=name)", match["name"]), text, re.IGNORECASE
            ):
                continue
            if code == "download" and checked.search(text, match.start()):
                continue
            if code == "script":
                code = f"{origin_of_download(match[0])}-script"
            elif code == "download" and "http://" in match[0]:
                code = "download-plain-http"
            line = text.count("\n", 0, match.start()) + 1
            end = min(text.count("\n", 0, match.end()) + 1, line + _SHOWN - 1)
            yield RawFinding(code, source.path, line, pattern["message"], end)


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    for name, text in read_yaml(TABLE)["names"].items():
        expression = expression.replace(f"{{{name}}}", text)
    return re.compile(expression, re.IGNORECASE | re.MULTILINE)
