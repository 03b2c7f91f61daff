"""Personal data: what several detectors find is one, and presidio is asked only where it is chosen."""

import sys
from pathlib import Path

import pytest

from orchestrator.engine.text_guards import TextGuard
from orchestrator.errors import InputError
from orchestrator.guards.personal_data import PersonalDataSpan, PersonalGuard
from tests.guards.measure import SUGGESTED, elsewhere, every_guard, lines, measured

ABSENT = "presidio is an extra of a quarter of a gigabyte: pip install -e '.[presidio]' in .venv"
MAX_WRONG = 0.02


def test_overlapping_matches_of_two_detectors_are_one_named_by_the_first() -> None:
    text = "pay DE89 3704 0044 0532 0130 00 to me, or to you"
    guard = PersonalGuard(
        [lambda _: [PersonalDataSpan(4, 31, "bank account"), PersonalDataSpan(35, 37, "name")]]
    )
    found = guard.detect(text)
    assert found is not None
    assert found.reason == "personal data: IBAN, name"
    assert found.text == "pay [IBAN] to [name], or to you"


def test_overlapping_matches_are_covered_completely() -> None:
    text = "x call +49 30 901820 now"
    guard = PersonalGuard(
        [lambda _: [PersonalDataSpan(2, 10, "order"), PersonalDataSpan(18, 24, "word")]]
    )
    found = guard.detect(text)
    assert found is not None
    assert found.text == "x [phone number]"


def test_presidio_is_only_imported_if_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    monkeypatch.delitem(sys.modules, "orchestrator.guards.presidio", raising=False)
    assert every_guard()["personal"].detect("+49 30 901820")
    with pytest.raises(ImportError) as missing:
        every_guard(entities=["EMAIL_ADDRESS"])
    assert missing.value.name == "presidio_analyzer"


@pytest.fixture(scope="module")
def asked():
    pytest.importorskip("presidio_analyzer", reason=ABSENT)
    return every_guard(entities=SUGGESTED)["personal"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write to jo.doe@gmail.com today", "write to [email address] today"),
        ("write to jo@example.com, jo@host.test or jo@localhost", None),
        ("her phone: (212) 555-0123", "her phone: [phone number]"),
        ("range: (212) 555-0123", None),
        ("Steuer-Id: T22000129", "Steuer-Id: [de id card]"),
        ("id 536-90-4399", "id [US social security number]"),  # ours as well: said once
        ("DNI\n54362315K\n", "DNI\n[es nif]\n"),
        ("4111 1111 1111 1111", None),
    ],
)
def test_patterns_and_the_words_before_them(asked: TextGuard, text: str, shown: str | None) -> None:
    found = asked.detect(text)
    assert (found.text if found else None) == shown


def test_a_long_line_is_examined_in_pieces(asked: TextGuard) -> None:
    found = asked.detect("a" * 5000 + " jo.doe@gmail.com " + "1-" * 5000)
    assert found is not None
    assert found.text is not None
    assert " [email address] " in found.text


def test_presidio_has_few_false_positives_in_ordinary_text(asked: TextGuard) -> None:
    guards = {"personal": asked}
    for texts in (lines("ordinary"), list(elsewhere(100))):
        found = measured(texts, guards)
        assert found.share <= MAX_WRONG, found.hit


def test_an_entity_that_needs_a_model_or_is_unknown_is_one_clear_line() -> None:
    pytest.importorskip("presidio_analyzer", reason=ABSENT)
    with pytest.raises(InputError) as said:
        every_guard(entities=["PERSON", "EMAIL_ADDRESS"])
    assert str(said.value).startswith(
        "config/guards.yaml names entities unknown to presidio: PERSON; without a model it detects ABA_ROUTING_NUMBER, "
    )
    assert "\n" not in str(said.value)


def test_the_page_suggests_measured_settings() -> None:
    page = (Path(__file__).parents[2] / "docs/guards.md").read_text("utf-8")
    part = page.partition("## Personal data: presidio")[2].partition("\n## ")[0]
    suggested = part.partition("rarely match ordinary code and prose: ")[2].partition(".")[0]
    assert tuple(suggested.replace("\n", " ").split(", ")) == SUGGESTED
