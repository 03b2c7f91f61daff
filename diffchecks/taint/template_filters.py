"""Template filters that the tree defines."""

import keyword
import re
from itertools import islice
from typing import Final

from diffchecks.taint import attribute_access
from diffchecks.taint.abstract_values import Value
from diffchecks.taint.call_frames import Activation, TaintJob

_REGISTERS: Final = re.compile(r"\bfilters\b|\w*filter\(|@[\w.]*filter\b")
_OF: Final = re.compile(r"emplate|jinja")
_MAX_FILES: Final = 40


def find_filter(run: TaintJob, name: str) -> Value:
    """Find the function of a filter; if the tree has none, a name that the models may know."""
    known = run.filters.get(name)
    if known is None:
        known = run.filters[name] = _find(run, name) or Value(ref=f"template.filters.{name}")
    return known


def _find(run: TaintJob, name: str) -> Value | None:
    if run.models.sanitizers.exact(f"template.filters.{name}"):
        return None
    quoted = rf"[\"']{name}[\"']"
    ways = (
        rf"\bfilters\[{quoted}\]\s*=\s*(?P<given>[\w.]+)",
        rf"filter\(\s*(?P<given>\w[\w.]*)\s*,\s*(?:name\s*=\s*)?{quoted}",
        rf"filter\(\s*{quoted}\s*,\s*(?P<given>\w[\w.]*)",
        rf"@[\w.]*filter\(\s*(?:name\s*=\s*)?{quoted}[^\n]*\)\s*(?:@[^\n]*\s+)*def\s+(?P<made>\w+)",
        rf"@[\w.]*filter\b[^\n]*\s+(?:@[^\n]*\s+)*def\s+(?P<own>{name})\(",
        rf"{quoted}\s*:\s*(?P<given>[a-zA-Z_][\w.]*)\s*[,}}\n]",
    )
    for path in _registering(run):
        text = run.project.text(path) or ""
        found = next(filter(None, (re.search(way, text) for way in ways)), None)
        module = run.project.module(path) if found else None
        if found and module is not None:
            run.globals_of(module)
            return _named(Activation(run, module), next(filter(None, found.groups())))
    return None


def _named(frame: Activation, name: str) -> Value | None:
    first, *others = name.split(".")
    if keyword.iskeyword(first):
        return None
    value = frame.lookup(first)
    for other in others:
        value = attribute_access.get_attribute(frame, value, other, frame.module.tree)
    return value


def _registering(run: TaintJob) -> list[str]:
    """The modules that may register filters."""
    if run.filter_modules is None:
        texts = ((path, run.project.text(path) or "") for path in sorted(run.project.paths))
        found = (path for path, text in texts if _REGISTERS.search(text) and _OF.search(text))
        run.filter_modules = list(islice(found, _MAX_FILES))
    return run.filter_modules
