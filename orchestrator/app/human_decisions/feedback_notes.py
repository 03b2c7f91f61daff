"""People's feedback on a run's findings: a note in its journal, outside of verdict and digest.

Feedback is a weak label (``finding_feedback``): the person has seen the verdict.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from orchestrator.engine.journal_rows import decodable
from orchestrator.engine.ports import Row

Said = Literal["useful", "not-useful", "fixed"]
SAID: tuple[Said, ...] = get_args(Said)


class FindingFeedback(Struct, frozen=True):
    """A person's feedback on a finding.

    Attributes:
        finding: its id in the run, ``F3``.
        identity: equal for the finding in all reviews of its change.
        at: when, in UTC, ISO 8601.
    """

    finding: str
    identity: str
    said: Said
    who: str
    at: str

    def __str__(self) -> str:
        return f"{self.finding} is {self.said.replace('-', ' ')}"


class FeedbackNote(Struct, frozen=True):
    """The body of a run's note: all feedback on its findings, the newest last.

    Attributes:
        message: the newest feedback in words, for timelines.
    """

    message: str
    feedback: tuple[FindingFeedback, ...]


_NOTE = msgspec.json.Decoder(FeedbackNote)


def read_feedback(row: Row | None) -> tuple[FindingFeedback, ...]:
    """All that was said in a run, the newest last; None: the run has no note of it.

    Raises:
        msgspec.DecodeError: the row is no such note.
    """
    return () if row is None else _NOTE.decode(decodable(row.body)).feedback


def newest_feedback(given: Sequence[FindingFeedback]) -> dict[str, FindingFeedback]:
    """Identity of a finding → what counts: the newest that was said of it."""
    return {one.identity: one for one in given}
