"""Questions to a person: each is asked once, and the recorded answer is used on resume."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.errors import AnswerPending, InputError, resume_command


class RecordedQuestion(Struct, frozen=True):
    """A question to a person, with the answer if there is one.

    Attributes:
        name: its place in the run; unique.
        answer: empty until it is answered.
        who: the name of the person.
        at: when, in seconds since the epoch.
    """

    name: str
    agent: str
    question: str
    answer: str = ""
    who: str = ""
    at: float = 0.0


async def ask_person(journal: Journal, questions: Mapping[Key, tuple[str, str]]) -> dict[Key, str]:
    """Ask a person several questions; returns the answers by key.

    Args:
        questions: key → (agent, question).

    Raises:
        AnswerPending: at least one has no answer yet; names all of these.
    """
    answers: dict[Key, str] = {}
    pending: dict[str, str] = {}

    async def nobody() -> EffectResult:
        raise AnswerPending(journal.run_id, pending)

    for key, (agent, question) in questions.items():
        request = {"agent": agent, "question": question}
        try:
            value = await journal.effect(key.at("answer"), request, nobody)
            answers[key] = value["answer"]
        except AnswerPending:
            pending[str(key)] = question
    if pending:
        raise AnswerPending(journal.run_id, pending)
    return answers


def recorded_questions(journal: Journal) -> list[RecordedQuestion]:
    """All questions of a run, in the order in which they were asked."""
    return [
        RecordedQuestion(
            str(replace(key, step="")), **record.body["asked"], **record.body.get("value", {})
        )
        for text, record in journal.records()
        if (key := Key.parse(text)).step == "answer" and "asked" in record.body
    ]


def find_question(journal: Journal, name: str, text: str) -> RecordedQuestion:
    """The question that waits for a person's answer.

    Raises:
        InputError: none of that name waits, or several do and none is named.
    """
    waiting = {
        question.name: question for question in recorded_questions(journal) if not question.answer
    }
    names = ", ".join(sorted(waiting))
    if not waiting:
        answered = [question for question in recorded_questions(journal) if question.answer]
        who = f" any more; {answered[-1].who} answered: {answered[-1].answer}" if answered else ""
        go_on = f"; continue with: {resume_command(journal.run_id)}" if answered else ""
        raise InputError(f"this run has no question for a person{who}{go_on}")
    if not name and len(waiting) > 1:
        raise InputError(f"several questions wait; name the one you answer with --to: {names}")
    found = waiting.get(name) if name else next(iter(waiting.values()))
    if found is None:
        raise InputError(f"no question {name} waits for a person here; waiting: {names}")
    if not text.strip():
        raise InputError("the answer is empty; say what to do, or what to know")
    return found


async def record_answer(
    journal: Journal, name: str, text: str, *, who: str, now: float
) -> RecordedQuestion:
    """Record a person's answer to a question that waits."""
    found = find_question(journal, name, text)

    async def perform() -> EffectResult:
        return EffectResult({"answer": text, "who": who, "at": now})

    request = {"agent": found.agent, "question": found.question}
    await journal.effect(Key.parse(found.name).at("answer"), request, perform)
    return found
