"""The shapes of the knowledge: what a file under ``config/taint`` may say.

Names are dotted paths as imported, ``flask.request.args``; a call appends ``()``, an item ``[]``, a
store into an item or attribute ends in ``=``; ``?.name`` is an attribute of anything not known.

A *selector* names an argument: ``0|url`` is the first positional or the keyword ``url``, ``self``
what the method was called on, ``*`` all of them.
"""

from typing import Any, Literal

from msgspec import Struct, field

Names = tuple[str, ...]


class Source(Struct, frozen=True, kw_only=True):
    """Values from outside. ``mapping``: each key is an origin of its own."""

    match: Names
    kind: str
    mapping: bool = False


class Sink(Struct, frozen=True, kw_only=True):
    """Arguments that must not come from outside.

    Attributes:
        klass: the class of defect (``class`` in the file).
        args: selectors of the dangerous arguments.
        when, unless: selector → what the argument must be (or must not be) for this to be a sink:
            a constant, a list of constants or dotted names, or a mapping of cells of the object.
        select: ``program``: of an argument vector only the program and what ``-c`` gets.
        prefix: ``host`` or ``host-or-path``: harmless once the text begins with a fixed one.
        kinds: only sources of these kinds; what a user gives to his own program is seldom a threat.
        confidence: factor.
    """

    match: Names
    klass: str
    args: Names
    when: dict[str, Any] = field(default_factory=dict)
    unless: dict[str, Any] = field(default_factory=dict)
    select: Literal["", "program"] = ""
    prefix: Literal["", "host", "host-or-path"] = ""
    kinds: Names = ("request", "socket")
    confidence: float = 1.0


class Sanitizer(Struct, frozen=True, kw_only=True):
    """Functions whose result is safe for some classes.

    Attributes:
        clears: classes, or ``all``.
        of: selector of what the result is made of.
        pattern: selector of a regular expression that must remove all but harmless characters.
        validates: it raises on anything else, so that the argument itself is safe afterwards.
    """

    match: Names
    clears: Names
    of: str = "*"
    pattern: str = ""
    validates: bool = False


class Propagator(Struct, frozen=True, kw_only=True):
    """Functions that let taint through.

    Attributes:
        of: selectors of the arguments that flow into the result.
        mark: a property of the result, ``normalized``.
        part: the result is a part of what it was made of.
        decodes: what was known of the argument does not hold for the result.
    """

    match: Names
    of: Names = ("self", "*")
    mark: str = ""
    part: bool = False
    decodes: bool = False


class Test(Struct, frozen=True, kw_only=True):
    """Functions whose truth says something of an argument.

    Attributes:
        of: selector of the argument.
        when: the truth value that says so.
        fact: what then holds.
        pattern: selector of a regular expression that must allow only harmless characters.
        mark: a property the argument must have, ``normalized``.
    """

    match: Names
    fact: str
    of: str = "self"
    when: bool = True
    pattern: str = ""
    mark: str = ""


class Guard(Struct, frozen=True, kw_only=True):
    """Facts that together make a value safe for some classes."""

    facts: Names
    clears: Names


class Part(Struct, frozen=True, kw_only=True):
    """Attributes that are parts of a whole; comparing the part says ``fact`` of the whole."""

    match: Names
    fact: str


class Store(Struct, frozen=True, kw_only=True):
    """Methods that keep (``value`` given) or give back a value under constant keys."""

    match: Names
    key: Names
    value: str = ""


class Parameter(Struct, frozen=True, kw_only=True):
    """Parameters known by their name in modules that import a library."""

    name: str
    imports: str
    type: str
    position: int = 0


class Route(Struct, frozen=True, kw_only=True):
    """Decorators that make a function a request handler.

    Attributes:
        imports: the library that the module must import, for decorators of unknown objects.
        parameters: ``url``: those in the URL rule; ``text``: all that are not converted.
        returns: class of the sink that the returned value reaches, or empty.
    """

    match: Names
    imports: str
    parameters: Literal["url", "text", "none"] = "none"
    returns: str = ""
    kind: str = "request"


class Handler(Struct, frozen=True, kw_only=True):
    """Base classes whose methods are request handlers; their text parameters come from outside."""

    base: Names
    methods: Names
    returns: str = ""
    kind: str = "request"


class Check(Struct, frozen=True, kw_only=True):
    """Calls that are a defect as they stand, no flow needed.

    Attributes:
        code: the finding's code.
        message: one sentence.
        when, unless: as for sinks.
        words: regular expression; one of the names and texts of the statement must match.
        handlers: in a request handler ``any`` asks for no words, ``function`` for words anywhere
            in the function.
        confidence: 0 to 1.
    """

    match: Names
    code: str
    message: str
    when: dict[str, Any] = field(default_factory=dict)
    unless: dict[str, Any] = field(default_factory=dict)
    words: str = ""
    handlers: Literal["", "any", "function"] = ""
    confidence: float = 0.8


class Klass(Struct, frozen=True, kw_only=True):
    """One class of defect: the words of its message."""

    name: str
    sink: str
