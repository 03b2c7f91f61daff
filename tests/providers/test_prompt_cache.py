"""The simulated prompt cache counts what a provider's counts."""

from tests.model_server.server import Counted
from tests.prompt_cache import Prompt, PromptCache

OPENING, FIRST, SECOND = "o" * 400, "f" * 40, "s" * 80


def prompt(*parts: str, ends: tuple[int, ...], scope: str = "", lookback: int = 20) -> Prompt:
    return Prompt(scope, parts, ends, lookback)


def test_only_what_ends_at_a_breakpoint_is_read_again() -> None:
    unmarked, marked = PromptCache(), PromptCache()
    unmarked.count(prompt(OPENING, FIRST, ends=(2,)))
    marked.count(prompt(OPENING, FIRST, ends=(1, 2)))
    later = prompt(OPENING, SECOND, ends=(1, 2))
    assert unmarked.count(later) == Counted(120, 0, 120)
    assert marked.count(later) == Counted(120, 100, 20)


def test_a_longer_conversation_reads_the_shorter_one_within_the_lookback() -> None:
    cache = PromptCache()
    assert cache.count(prompt(OPENING, FIRST, ends=(2,))) == Counted(110, 0, 110)
    longer = prompt(OPENING, FIRST, *[SECOND] * 4, ends=(6,), lookback=4)
    assert cache.count(longer) == Counted(190, 110, 80)
    much_longer = prompt(OPENING, FIRST, *[SECOND] * 9, ends=(11,), lookback=4)
    assert cache.count(much_longer) == Counted(290, 0, 290)


def test_no_entry_is_shared_between_scopes() -> None:
    cache = PromptCache()
    cache.count(prompt(OPENING, FIRST, ends=(1, 2), scope="a"))
    assert cache.count(prompt(OPENING, FIRST, ends=(1, 2), scope="b")).read == 0
    assert cache.count(prompt(OPENING, FIRST, ends=(1, 2), scope="a")).read == 110
