"""Journal keys: the place of an effect or a note in its run, as readable text.

::

    [ITERATION/]PART[/NAME]              a task: 1/plan, 2/act/security
    TASK/attempt2                        its second attempt, after an escalation
    TASK[/attempt2]/turn3/model          a call of a model
    TASK[/attempt2]/turn3/tool1/search   a call of a tool
    TASK[/attempt2]/turn3/left_out       what compaction left out before the turn
    TASK[/attempt2]/turn3/last_turn      why the agent is told to report in that turn
    TASK[/attempt2]/report               a report that was sent back, kept in case none follows
    TASK[/attempt2]/loop                 why loop detection ended it
    TASK[/question1]/answer              a question to a person
    TOPIC[/NUMBER][/SUBJECT]             anything else: session/2, approval/1/CALL, intake/day

Keys are parsed from left to right, each part by its position. So an agent called ``turn1`` or a
tool called ``model`` is not ambiguous.
"""

import re
from functools import lru_cache
from typing import Literal, Self, get_args

from msgspec import Struct
from msgspec.structs import replace

NAMED_PARTS = ("act", "agents", "analysis", "fixes", "rejudge", "teams", "works")
"""Parts of which there are several tasks, told apart by a name: an agent's, in a team.

A program's works: numbered ones are ``agents``, those that it names ``works``, teams' ``teams``. So
none has another's key, whatever name the program gives.
"""

GUARDS = "guards"
"""Topic of the notes of what text guards ruled."""

INTAKE = "intake"
"""Key of the effect that finds the change; topic of the run's other inputs."""

GRANT = "grant"
"""Topic of effects by which a person raises limits of the run."""

FEEDBACK = "feedback"
"""Key of the note of what people said of a run's findings."""

FORKED = "forked"
"""Topic of the note with which a forked run's journal begins: what it was forked from."""

FORK_NOTE = f"{FORKED}/1"
"""The key of that note."""

NOTIFY = "notify"
"""Topic of effects by which people are told of a run."""

TOPICS = (
    "approval", "asked", "breaker", "calls", "cancelled", "execute", FEEDBACK, FORKED, GRANT,
    GUARDS, "imported", INTAKE, "model_call", NOTIFY, "rollback", "session", "signed_head",
    "state", "traceparent", "waiting",
)  # fmt: skip
"""What the keys that belong to no task begin with."""

Step = Literal["model", "left_out", "last_turn", "report", "loop", "answer"]

_TASK = re.compile(
    rf"(?!(?:{'|'.join(TOPICS)})(?:/|$))"
    rf"(?:(?P<iteration>[1-9][0-9]*)/)?(?:(?P<named>{'|'.join(NAMED_PARTS)})/(?P<name>[^/]+)|(?P<part>[^/]+))"
    r"(?:/attempt(?P<attempt>[1-9][0-9]*))?(?:/question(?P<question>[1-9][0-9]*))?(?:/turn(?P<turn>[1-9][0-9]*))?"
    rf"(?:/tool(?P<position>[1-9][0-9]*)/(?P<tool>.*)|/(?P<step>{'|'.join(get_args(Step))}))?",
    re.DOTALL,
)
_TOPIC = re.compile(r"(?P<part>[^/]*)(?:/(?P<number>[1-9][0-9]*))?(?:/(?P<subject>.*))?", re.DOTALL)


class Key(Struct, frozen=True):
    """A journal key by its parts; ``str`` gives its text.

    Attributes:
        part: the state that a task belongs to (``plan``, ``act``), or the topic.
        iteration: from 1; 0 outside of iterations.
        name: of the task among those of its part, such as the agent's; "/" in it is escaped.
        attempt: 2 and up for attempts after an escalation, which is noted under the bare attempt.
        question: a question of a plan, from 1.
        turn: of the agent, from 1.
        position: of a tool call in its turn, from 1.
        tool: the tool that is called.
        step: a ``Step``, or empty.
        number: of numbered notes of one topic, from 1.
        subject: what a topic's key is about, such as the key of a call.
    """

    part: str
    iteration: int = 0
    name: str = ""
    attempt: int = 0
    question: int = 0
    turn: int = 0
    position: int = 0
    tool: str = ""
    step: str = ""
    number: int = 0
    subject: str = ""

    def __str__(self) -> str:
        text = f"{self.iteration}/{self.part}" if self.iteration else self.part
        if self.name:
            text += "/" + self.name.replace("%", "%25").replace("/", "%2F")
        if self.attempt:
            text += f"/attempt{self.attempt}"
        if self.question:
            text += f"/question{self.question}"
        if self.turn:
            text += f"/turn{self.turn}"
        if self.position:
            text += f"/tool{self.position}/{self.tool}"
        if self.step:
            text += f"/{self.step}"
        if self.number:
            text += f"/{self.number}"
        return f"{text}/{self.subject}" if self.subject else text

    @staticmethod
    def parse(text: str) -> "Key":
        """Parse a key. Any text is a key; one of no known form is a topic."""
        return _parse(text)

    @property
    def task(self) -> "Key":
        """The task that it belongs to."""
        return Key(self.part, self.iteration, self.name)

    @property
    def place_in_task(self) -> str:
        """The text after the task or the topic; empty for these themselves."""
        return str(self).removeprefix(str(self.task)).removeprefix("/")

    def at(self, step: Step) -> Self:
        """A step of this turn, of this attempt (``report``, ``loop``) or question (``answer``)."""
        return replace(self, step=step)

    @property
    def is_escalation(self) -> bool:
        """Whether it is the key of an escalation's note."""
        return bool(self.attempt and not (self.turn or self.step))

    def in_turn(self, number: int) -> Self:
        """A turn of this attempt, from 1."""
        return replace(self, turn=number)

    def tool_call(self, position: int, tool: str) -> Self:
        """A tool call of this turn, from 1."""
        return replace(self, position=position, tool=tool)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Key:
    if match := _TASK.fullmatch(text):
        found = match.groupdict()
        name = (found["name"] or "").replace("%2F", "/").replace("%25", "%")
        return Key(
            found["named"] or found["part"],
            iteration=int(found["iteration"] or 0),
            name=name,
            attempt=int(found["attempt"] or 0),
            question=int(found["question"] or 0),
            turn=int(found["turn"] or 0),
            position=int(found["position"] or 0),
            tool=found["tool"] or "",
            step=found["step"] or "",
        )
    match = _TOPIC.fullmatch(text)
    assert match
    part, number, subject = match.group("part", "number", "subject")
    return Key(part, number=int(number or 0), subject=subject or "")
