"""Makes tools from typed Python functions: the signature gives JSON Schema and validation."""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, Unpack, get_type_hints, overload

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_jsonable_python

from orchestrator.engine.ports import CallContext
from orchestrator.engine.types import Json, Level, LogHook, Observation, ToolSpec

LevelName = Literal["read", "write", "admin", "irreversible"]
Function = Callable[..., Awaitable[Any]]
Handler = Callable[[Mapping[str, Json]], Awaitable[Json]]
Output = type[BaseModel] | Mapping[str, Json]


class FunctionTool:
    """An async function that agents may call. Made by :func:`tool`.

    Calling it calls the function itself, without the harness.

    Attributes:
        spec: what the harness knows of it: name, description, JSON Schema, level and limits.
    """

    def __init__(self, function: Function, spec: ToolSpec, arguments: type[BaseModel]) -> None:
        self.spec = spec
        self._function, self._arguments = function, arguments
        self._takes_model = not issubclass(arguments, _Arguments)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call the function directly."""
        return self._function(*args, **kwargs)

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Convert the arguments to instances and call the function.

        Returns:
            The function's result as JSON, with pydantic models, dataclasses and dates converted.

        Raises:
            ValueError: the arguments do not validate; names the first one and why.
        """
        try:
            given = self._arguments.model_validate(arguments)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None
        if self._takes_model:
            value = await self._function(given)
        else:
            names = type(given).model_fields
            value = await self._function(**{name: getattr(given, name) for name in names})
        return _observation(to_jsonable_python(value))


class HandlerTool(Struct):
    """A handler of plain JSON as a tool of the engine."""

    spec: ToolSpec
    handler: Handler

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Run the handler and return its result."""
        return _observation(await self.handler(arguments))


def _observation(value: Json) -> Observation:
    return Observation(value if isinstance(value, str) else json.dumps(value), value)


class _Arguments(BaseModel):
    """The parameters of a function as arguments."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)


class ToolOptions(TypedDict, total=False):
    """What a tool may declare besides its name, function and schemas.

    Attributes:
        level: what it can do to the world: ``read``, ``write``, ``admin`` or ``irreversible``. The
            last two wait for a person's approval.
        description: for models; a function's docstring by default.
        usd: the maximum cost of one call, in US dollars.
        timeout: seconds; 60 by default.
        tags: topics to choose tools by.
        before, after: log a call when it begins and when it has ended.
    """

    level: LevelName | Level
    description: str
    usd: float
    timeout: float
    tags: Iterable[str]
    before: LogHook | None
    after: LogHook | None


def make_spec(
    name: str,
    schema: Mapping[str, Json],
    output_schema: Mapping[str, Json] | None,
    *,
    level: LevelName | Level = Level.READ,
    description: str = "",
    tags: Iterable[str] = (),
    timeout: float = 60.0,
    **more: Any,
) -> ToolSpec:
    """A tool's declaration, from ``ToolOptions``.

    Raises:
        ValueError: there is no such level.
    """
    granted = level if isinstance(level, Level) else _level(level)
    return ToolSpec(
        name, description, schema, granted, frozenset(tags),
        output_schema=output_schema, timeout=timeout, **more,
    )  # fmt: skip


@overload
def tool(function: Function, /) -> FunctionTool: ...


@overload
def tool(
    *, name: str = ..., output: Output | None = ..., **options: Unpack[ToolOptions]
) -> Callable[[Function], FunctionTool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    output: Output | None = None,
    **options: Unpack[ToolOptions],
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Make a tool of an async function with annotated parameters.

    A function with exactly one parameter, annotated with a pydantic model, takes the model's fields
    as its arguments and gets an instance. Otherwise each parameter is an argument of its own, and
    unknown arguments are refused.

    >>> @tool(level="irreversible", usd=0.5)
    ... async def refund(ticket: int, usd: float) -> str:
    ...     "Pay money back."
    ...     return f"{usd} for ticket {ticket}"
    >>> refund.spec.name, refund.spec.level.name, refund.spec.schema["required"]
    ('refund', 'IRREVERSIBLE', ['ticket', 'usd'])

    Args:
        name: the function's name by default.
        output: the type of its result, a pydantic model or a JSON Schema; a result that does not
            fit is a failure.
        options: see ``ToolOptions``.

    Raises:
        TypeError: the function is not async, or a parameter has no annotation or no name.
        ValueError: there is no such level.
    """
    make_spec("", {}, None, **options)  # an error names the line of the decorator

    def make(function: Function) -> FunctionTool:
        arguments = _arguments_of(function)
        given: ToolOptions = {"description": inspect.getdoc(function) or "", **options}
        schema = arguments.model_json_schema()
        model = (
            output.model_json_schema(mode="serialization") if isinstance(output, type) else output
        )
        spec = make_spec(name or function.__name__, schema, model, **given)
        return FunctionTool(function, spec, arguments)

    return make if function is None else make(function)


def _level(name: str) -> Level:
    try:
        return Level[name.upper()]
    except KeyError:
        known = ", ".join(level.name.lower() for level in Level)
        raise ValueError(f"there is no level {name!r}; there is {known}") from None


def _arguments_of(function: Function) -> type[BaseModel]:
    """The pydantic model of a function's arguments."""
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} must be an async function (async def) to become a tool")
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{name}: {error}; define the annotated type at module level") from None
    parameters = inspect.signature(function).parameters.values()
    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise TypeError(f"{name}: parameter {parameter.name} cannot be passed by name")
        if parameter.name not in hints:
            raise TypeError(f"{name}: parameter {parameter.name} needs a type annotation")
        required = parameter.default is parameter.empty
        fields[parameter.name] = (hints[parameter.name], ... if required else parameter.default)
    if len(fields) == 1:
        annotation = hints[next(iter(fields))]
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
    return create_model(f"{name}_arguments", __base__=_Arguments, **fields)
