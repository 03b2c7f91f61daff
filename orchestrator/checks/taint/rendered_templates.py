"""Values from outside that are given to a template which prints them without escaping."""

from collections.abc import Iterator
from typing import Final

from orchestrator.checks.taint.abstract_values import Step, Taint, Value
from orchestrator.checks.taint.call_frames import Call, Frame, TaintFinding
from orchestrator.checks.taint.library_models import Renderer

_SURE: Final = 0.9
_DOUBTFUL: Final = 0.5


def check_call(frame: Frame, call: Call) -> None:
    """Report values of a request that reach such a template."""
    if frame.quiet or not call.ref:
        return
    for renderer in frame.run.models.renderers.find(call.ref):
        template = call.select_argument(renderer.template)
        name = template.const if template is not None else None
        if isinstance(name, str):
            _check(frame, call, renderer, name)


def _check(frame: Frame, call: Call, renderer: Renderer, template: str) -> None:
    printed = frame.run.templates.printed(template, frame.module.path)
    for name, value in _values(frame, call, renderer) if printed else ():
        place = printed.get(name)
        for taint in value.taints if place else ():
            cleared = frame.run.models.cleared_classes(frame.state.facts_of(taint))
            if taint.kind != "request" or taint.sure < _DOUBTFUL or {"xss", "all"} & cleared:
                continue
            assert place is not None
            line = getattr(call.node, "lineno", 1)
            given = Step(frame.module.path, line, f"is given to {template} as {name}", taint.trace)
            trace = Step(place.path, place.line, "is printed without escaping", given)
            message = f"request data reaches {place.path}, which prints {name} without escaping"
            frame.run.report(
                TaintFinding(
                    "rendered",
                    frame.module.path,
                    line,
                    getattr(call.node, "end_lineno", None) or line,
                    frame.scope,
                    message,
                    round(_SURE * taint.sure, 2),
                    Taint(taint.origin, taint.kind, trace=trace),
                )
            )


def _values(frame: Frame, call: Call, renderer: Renderer) -> Iterator[tuple[str, Value]]:
    """The values of a template by their names."""
    if not renderer.values:
        yield from call.keywords.items()
        return
    context = call.select_argument(renderer.values)
    for obj in frame.state.of(context) if context is not None else ():
        for key, value in obj.items.items():
            name = key[-1] if isinstance(key, tuple) and key else key
            if isinstance(name, str):
                yield name, value
