"""Finds code that renders templates that print values without escaping."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import PurePosixPath
from typing import Final

from diffchecks.data_files import read_map, read_patterns
from diffchecks.taint import entry_parameters, rendered_templates
from diffchecks.taint.abstract_values import ROW, UNKNOWN, Value, resolve
from diffchecks.taint.call_frames import Activation, EvaluatedCall, TaintJob
from diffchecks.taint.module_index import Bound, Class, Function, Project
from diffchecks.taint.stored_fields import classes_of, rows
from diffchecks.taint.template_files import TemplateTree

_LITERAL: Final = re.compile(r"""["'](?P<name>[\w./-]+\.(?:x?html?|jinja2?|j2|mako))["']""")
_GENERIC: Final = read_patterns("template_renderers")["generic"]
_SUFFIXES: Final = read_map("maps.yaml", "template_endings")
_VIEWS: Final = re.compile(r"(?:Detail|List|Create|Update|Delete)View\b|\btemplate_name\b")


def rendering_lines(
    project: Project, templates: TemplateTree, path: str, wanted: Set[str] | None = None
) -> list[int]:
    """Find the lines of a module that name such templates.

    Args:
        wanted: the relevant templates; None: all that print values without escaping.
    """
    text = project.text(path) or ""
    found = set()
    for match in _LITERAL.finditer(text):
        page = templates.find(match["name"], path)
        if page is not None and (page in wanted if wanted is not None else templates.prints(page)):
            found.add(text.count("\n", 0, match.start()) + 1)
    return sorted(found)


def renderers_of(
    project: Project, templates: TemplateTree, pages: Iterable[str]
) -> Mapping[str, Set[str]]:
    """Find the modules that name these pages or pages that include them, and those pages."""
    wanted = {user for page in pages for user in templates.users(page)}
    if not wanted:
        return {}
    names = {page.rpartition("/")[2] for page in wanted}
    names_pattern = re.compile("|".join(map(re.escape, sorted(names))))
    stems = {name.rpartition("_")[0] for name in names if "_" in name}
    # A module names one, or may have a generic view with a template named after its model.
    return {
        path: wanted
        for path in sorted(project.paths)
        if names_pattern.search(text := project.text(path) or "")
        or (_VIEWS.search(text) and any(stem in text.lower() for stem in stems))
    }


def views_in(run: TaintJob, path: str) -> Iterator[Class]:
    """The generic views of a module that render such a template."""
    module = run.project.module(path) if _VIEWS.search(run.project.text(path) or "") else None
    for value in list(run.globals_of(module).values()) if module is not None else ():
        cls = resolve(value).target
        if isinstance(cls, Class) and cls.module is module:
            name = template_of(cls)
            page = run.templates.find(name, path) if name else None
            if page is not None and run.templates.prints(page):
                yield cls


def _kind(cls: Class) -> str:
    """``Detail`` for a ``DetailView``; empty if it is not a generic view."""
    found = (_GENERIC.search(base) for base in cls.outer_bases())
    return next((match["kind"] for match in found if match), "")


def template_of(cls: Class) -> str:
    """The name of a generic view's template; empty: none."""
    kind, named = _kind(cls), cls.lookup("template_name")
    if not kind:
        return ""
    if named is not None:
        return named.const if isinstance(named.const, str) else ""
    model = cls.lookup("model")
    target = model.target if model is not None else None
    if not isinstance(target, Class) or kind not in _SUFFIXES:
        return ""
    folder = PurePosixPath(target.module.path).parent
    app = folder.parent.name if folder.name == "models" else folder.name
    return f"{app}/{target.node.name.lower()}_{_SUFFIXES[kind]}.html"


def run_view(frame: Activation, cls: Class) -> None:
    """Render the template of a generic view with its context."""
    own = entry_parameters.instance(frame, cls, entry_parameters.EntryRole(handler=True))
    values: dict[str, Value] = {}
    shown = _shown(frame, cls, own)
    if shown is not None:
        obj = frame.state.object(own.locs[0])
        kind = _kind(cls)
        frame.state.objects[own.locs[0]] = obj.put("object", shown).put("object_list", shown)
        named = cls.lookup("context_object_name")
        name = named.const if named is not None and isinstance(named.const, str) else ""
        classes = classes_of(frame, shown)
        model = classes[0].node.name.lower() if classes else "object"
        default = f"{model}_list" if kind == "List" else model
        values = dict.fromkeys(("object", "object_list", "page_obj", name or default), shown)
    values["view"] = own
    values.update(rendered_templates.items_of(frame, _method(frame, cls, own, "get_context_data")))
    rendered_templates.render(frame, cls.node, template_of(cls), values)


def _shown(frame: Activation, cls: Class, own: Value) -> Value | None:
    """The object or the objects that a view shows."""
    for name in ("get_object", "get_queryset"):
        made = _method(frame, cls, own, name)
        if ROW in made.marks:
            return made
    for name in ("queryset", "model"):
        value = cls.lookup(name) or UNKNOWN
        if ROW in value.marks:
            return value
        if isinstance(value.target, Class):
            return rows(frame.run, value.target, "?.objects")
    return None


def _method(frame: Activation, cls: Class, own: Value, name: str) -> Value:
    found = cls.lookup(name)
    function = found.target if found is not None else None
    if not isinstance(function, Function):
        return UNKNOWN
    place = entry_parameters.place_of(cls.node)
    value = frame.run.invoke(
        frame, EvaluatedCall(place, Value(target=Bound(function, own)), None, [], {})
    )
    frame.state.live = True
    return value
