"""Tools from typed functions: what a model is told, what a handler gets, what is refused."""

from datetime import date
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from orchestrator import (
    ActionFailed,
    ApprovalPending,
    Harness,
    InvalidArguments,
    Level,
    LoggedCall,
    tool,
)

pytestmark = pytest.mark.either_loop


class Ticket(BaseModel):
    """A ticket of the help desk."""

    number: int = Field(ge=1, description="its number")
    opened: date


@tool(level="read")
async def lookup(ticket: Ticket) -> str:
    """Look a ticket up."""
    assert isinstance(ticket, Ticket)
    return f"{ticket.number} of {ticket.opened.year}"


@tool
async def search(text: str, *, limit: int = 10, since: date | None = None) -> list[Ticket]:
    """Search tickets."""
    return [Ticket(number=limit, opened=since or date(2026, 1, 2))]


@tool(level="irreversible", name="remove_ticket", description="Remove a ticket.", usd=0.5)
async def remove(number: int) -> None:
    raise AssertionError("nobody approved this")


async def test_a_model_is_told_name_docstring_and_schema() -> None:
    assert (lookup.spec.name, lookup.spec.description) == ("lookup", "Look a ticket up.")
    assert lookup.spec.level is Level.READ
    assert lookup.spec.schema["properties"]["number"]["description"] == "its number"
    assert search.spec.schema["required"] == ["text"]
    assert search.spec.schema["additionalProperties"] is False
    assert (remove.spec.name, remove.spec.level) == ("remove_ticket", Level.IRREVERSIBLE)


async def test_a_handler_gets_instances_and_may_return_them(tmp_path: Path) -> None:
    async with Harness.open(tmp_path / "runs.db", "r", tools=[lookup, search]) as harness:
        found = await harness.execute("lookup", {"number": 7, "opened": "2026-03-01"})
        assert found == "7 of 2026"
        found = await harness.execute("search", {"text": "x", "since": "2026-05-06"})
        assert found == [{"number": 10, "opened": "2026-05-06"}]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lookup", {"number": 0, "opened": "2026-03-01"}),
        ("lookup", {"number": "seven", "opened": "2026-03-01"}),
        ("search", {"text": "x", "limti": 3}),
        ("search", {}),
    ],
)
async def test_arguments_that_break_the_schema_are_refused(
    name: str, arguments: dict[str, object]
) -> None:
    async with Harness.open(None, "r", tools=[lookup, search]) as harness:
        with pytest.raises(InvalidArguments, match=name):
            await harness.execute(name, arguments)


async def test_a_pydantic_error_names_the_field_and_the_reason() -> None:
    async with Harness.open(None, "r", tools=[lookup]) as harness:
        with pytest.raises(ActionFailed, match="opened: Input should be a valid date"):
            await harness.execute("lookup", {"number": 7, "opened": "tomorrow"})


async def test_an_irreversible_tool_waits_for_a_person() -> None:
    async with Harness.open(None, "r", tools=[remove]) as harness:
        with pytest.raises(ApprovalPending):
            await harness.execute("remove_ticket", {"number": 1})


async def test_a_tool_is_still_a_function() -> None:
    assert await lookup(Ticket(number=1, opened=date(2026, 1, 1))) == "1 of 2026"


async def test_a_function_that_cannot_become_a_tool_says_why() -> None:
    def blocking(text: str) -> str:
        return text

    async def untyped(text):
        return text

    async def positional(text: str, /) -> str:
        return text

    with pytest.raises(TypeError, match="blocking must be an async function"):
        tool(blocking)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="untyped: parameter text needs a type annotation"):
        tool(untyped)
    with pytest.raises(TypeError, match="positional: parameter text cannot be passed by name"):
        tool(positional)
    with pytest.raises(ValueError, match="no level 'reed'; there is read, write, admin"):
        tool(level="reed")(positional)  # type: ignore[call-overload]


async def test_a_result_that_does_not_fit_its_output_model_is_a_failure() -> None:
    @tool(output=Ticket)
    async def find(number: int) -> dict[str, object]:
        """Find a ticket."""
        return {"number": number, "opened": "2026-01-02"}

    async with Harness.open(None, "r", tools=[find]) as harness:
        assert (await harness.execute("find", {"number": 1}))["number"] == 1
        with pytest.raises(ActionFailed, match="does not fit its output schema: number: "):
            await harness.execute("find", {"number": 0})


async def test_hooks_log_the_calls_of_a_tool() -> None:
    calls: list[LoggedCall] = []

    @tool(before=calls.append, after=calls.append)
    async def pay(card: str) -> str:
        """Pay."""
        return "paid"

    async with Harness.open(None, "r", tools=[pay], secrets=["4000-secret"]) as harness:
        await harness.execute("pay", {"card": "4000-secret"})
    assert [(c.tool, c.arguments, c.code) for c in calls] == [
        ("pay", {"card": "[redacted]"}, ""),
        ("pay", {"card": "[redacted]"}, "ok"),
    ]
