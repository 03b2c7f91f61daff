"""Calls that a worker of Celery or Dramatiq makes later: ``task.delay(value)``."""

import ast
import re
from collections.abc import Hashable
from typing import Final

from diffchecks.taint.abstract_values import UNKNOWN, Value
from diffchecks.taint.call_frames import Activation, EvaluatedCall
from diffchecks.taint.module_index import Bound, Function

_TASK: Final = re.compile(r"(?:\w+\.)*(?:shared_task|task|actor)(?:\(.*\))?", re.DOTALL)


def as_direct_call(frame: Activation, call: EvaluatedCall, name: str) -> EvaluatedCall | None:
    """The call of a task itself, where a call puts it into a queue; None for any other call."""
    task = call.receiver.target if call.receiver is not None else None
    if not isinstance(task, Function) or task.cls is not None:
        return None
    if name in {"delay", "send"}:
        args, keywords = call.args, call.keywords
    elif name in {"apply_async", "send_with_options"}:
        args = list(_held(frame, call.select_argument("0|args")).values())
        named = _held(frame, call.select_argument("1|kwargs")).items()
        keywords = {key: value for key, value in named if isinstance(key, str)}
    else:
        return None
    decorators = [ast.unparse(decorator) for decorator, _ in task.decorators]
    if len(decorators) != 1 or not _TASK.fullmatch(decorators[0]):
        return None  # another decorator may give it other arguments
    target = Bound(task, UNKNOWN) if "bind=True" in decorators[0] else task
    return EvaluatedCall(call.node, Value(target=target), None, args, keywords, call.rest)


def _held(frame: Activation, value: Value | None) -> dict[Hashable, Value]:
    """What a list or a mapping of ours holds."""
    objects = frame.state.of(value or UNKNOWN)
    return dict(objects[0].items) if objects else {}
