"""Comments and event files are read strictly: what is no command, or no event, is one line."""

from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.posting.comment_commands import (
    MAX_EVENT_BYTES,
    CommentCommand,
    CommentEvent,
    WrongCommand,
    is_command,
    parse_command,
    read_comment_event,
)

ID = f"{1:064x}"


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/diffcourt review", CommentCommand("review")),
        ("/diffcourt review\r\n\r\nThanks!", CommentCommand("review")),
        (f"/diffcourt explain `{ID}`", CommentCommand("explain", ID)),
        (
            f"/diffcourt dismiss {ID[:16]} a  b\n$(c)",
            CommentCommand("dismiss", ID[:16], "a b $(c)"),
        ),
    ],
)
def test_a_command_is_read_from_the_begin_of_a_comment(body: str, command: CommentCommand) -> None:
    assert is_command(body)
    assert parse_command(body) == command


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("/diffcourt", "no such command"),
        ("/diffcourt approve", "no such command"),
        ("/diffcourt Review", "no such command"),
        ("/diffcourt review --allow-spending", "no further words"),
        ("/diffcourt explain", "the ID of a finding"),
        ("/diffcourt explain F1", "the ID of a finding"),
        ("/diffcourt explain ../../../../etc/passwd", "the ID of a finding"),
        (f"/diffcourt explain {ID} please", "no words after"),
        (f"/diffcourt dismiss {ID}", "a reason"),
        (f"/diffcourt dismiss {ID} {'x' * 501}", "a reason of at most 500"),
    ],
)
def test_an_invalid_command_says_what_is_wrong(body: str, error: str) -> None:
    assert is_command(body)
    with pytest.raises(WrongCommand, match=error):
        parse_command(body)


@pytest.mark.parametrize(
    "body", ["", "  /diffcourt review", "> /diffcourt review", "/diffcourts x"]
)
def test_an_ordinary_comment_is_not_a_command(body: str) -> None:
    assert not is_command(body)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        "{}",
        '{"action": "created", "comment": {"id": "1"}, "issue": {"number": 1}}',
        '{"action": "created", "comment": {"id": 1e40}, "issue": {"number": 1}}',
        '{"action": "created", "comment": {"id": -1}, "issue": {"number": 1}}',
        '{"action": "created", "comment": {"id": 1}, "issue": {"number": "12/../../13"}}',
        '{"action": "created", "comment": {"id": 99999999999999999999}, "issue": {"number": 1}}',
    ],
)
def test_a_hostile_event_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(text)
    with pytest.raises(InputError, match="not an issue_comment event"):
        read_comment_event(str(tmp_path / "event.json"))


def test_an_event_that_is_too_large_or_missing_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "event.json").write_bytes(b" " * (MAX_EVENT_BYTES + 1))
    with pytest.raises(InputError, match="larger than 8 MB"):
        read_comment_event(str(tmp_path / "event.json"))
    with pytest.raises(InputError, match="cannot read the event file"):
        read_comment_event(str(tmp_path / "none.json"))


def test_an_event_of_github_is_read(tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(
        '{"action": "created", "comment": {"id": 5000000000, "body": "x", "user": {}}, '
        '"issue": {"number": 12, "pull_request": {}}, "sender": {}}'
    )
    event: CommentEvent = read_comment_event(str(tmp_path / "event.json"))
    assert (event.comment.id, event.issue.number) == (5_000_000_000, 12)
