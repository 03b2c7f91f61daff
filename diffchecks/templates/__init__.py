"""Values that templates print without escaping, or where escaping for HTML does not help.

The dialects are data, one file each under ``data/templates``; ``dialects.py`` has their schema.
Only HTML templates are read: configuration files and messages are unescaped on purpose.
"""

import re
from collections.abc import Iterator

from diffchecks.check_io import CheckReply, NotApplicable, RawFinding, Source, check_files
from diffchecks.data_files import read_names, vocabulary
from diffchecks.jobs import SideJob
from diffchecks.patterns.template_code_extraction import is_component
from diffchecks.templates.dialects import Dialect, find_dialect, load_dialect
from diffchecks.templates.judging import find_in_page
from diffchecks.templates.page_scanner import TemplatePage, read_page

_HTML = vocabulary("html_element")
_FEED = re.compile(r"<(?:rss|feed|urlset|sitemapindex|opml)\b")
_HEAD = 1000  # characters of a file that are read to recognize it
_PAGES = frozenset({"blade", "html", "htm", "xhtml", "phtml", "mobile", "phone", "tablet"})
# File names of pages, some of which have no HTML element but components, directives or includes.
_ALWAYS_PAGES = read_names("always_pages")


def run(job: SideJob) -> CheckReply:
    """Check templates (see ``check_io`` for the format of jobs and replies)."""
    return check_files(job, _look)


def _look(source: Source) -> Iterator[RawFinding]:
    found = read_template(source)
    if found is None:
        raise NotApplicable
    page, dialect, name = found
    is_markup = is_shown_as_markup(source.text, dialect)
    for one in find_in_page(page, dialect, name, source.path):
        if is_markup or one.code.endswith("-request"):  # a part of a page may have no element
            yield one


def read_template(source: Source) -> tuple[TemplatePage, Dialect, str] | None:
    """Read an HTML template with its dialect and the dialect's name; None for any other file."""
    name = find_dialect(source.name, source.text)
    if name is None or not _is_page(source):
        return None
    dialect = load_dialect(name)
    return read_page(source.text, dialect), dialect, name


def is_shown_as_markup(text: str, dialect: Dialect) -> bool:
    """Whether it is a page, and not a message or feed, where escaping for HTML would be wrong."""
    holds_elements = not dialect.substitutes or _HTML.search(text) is not None
    return holds_elements and _FEED.search(text, 0, _HEAD) is None


def _is_page(source: Source) -> bool:
    """Whether a template produces HTML: its name does not contradict that, and it has elements."""
    _, *endings = source.name.split(".")
    if is_component(source.name) or not _PAGES.isdisjoint(endings):
        return True
    if len(endings) > 1:
        return False
    return not _ALWAYS_PAGES.isdisjoint(endings) or _HTML.search(source.text) is not None
