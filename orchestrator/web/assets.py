"""Templates, styles and scripts of the pages, which the wheel carries."""

import hashlib
import mimetypes
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from msgspec import Struct

from orchestrator.report.page_templates import asset, new_environment, shared_style

STYLE = "style.css"
FINDINGS_SCRIPT = "findings.js"


class StaticFile(Struct, frozen=True):
    """A file that is sent as it is."""

    content: str
    media_type: str
    digest: str


@cache
def load_static() -> dict[str, StaticFile]:
    """The files of ``web/static`` by name, with style and script of the page of a verdict."""
    found = {}
    contents = {FINDINGS_SCRIPT: asset("verdict.js")}
    for path in sorted((Path(__file__).parent / "static").iterdir()):
        contents[path.name] = path.read_text(encoding="utf-8")
    contents[STYLE] = shared_style() + contents[STYLE]
    for name, content in contents.items():
        kind = mimetypes.guess_type(name, strict=True)[0] or "text/plain"
        digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        found[name] = StaticFile(content, kind, digest)
    return found


def new_templates(**known: Any) -> Environment:
    """The templates of ``web/templates``."""
    return new_environment("orchestrator.web", **known, csrf=_csrf_field)


@pass_context
def _csrf_field(context: Context) -> Markup:
    """What each form sends back."""
    field = Markup('<input type="hidden" name="csrf" value="{}">')
    return field.format(context["visit"].session.csrf)
