"""Personal data: what several detectors find is one, and presidio is asked only where it is chosen."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from orchestrator.engine.text_guards import TextGuard
from orchestrator.errors import InputError
from orchestrator.guards.personal_data import PersonalDataSpan, PersonalGuard
from tests.guards.measure import SUGGESTED, elsewhere, every_guard, lines, measured

ABSENT = "presidio is an extra of a quarter of a gigabyte: pip install -e '.[presidio]' in .venv"
MAX_WRONG = 0.02


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("A123456789", "Taiwanese identity number"),
        ("0912345678", "phone number"),
        ("415-555-2671", "phone number"),
        ("(415) 555-2671", "phone number"),
        ("phone: 4155552671", "phone number"),
        ("user_phone_number => 4155552671", "phone number"),
        ("mobileNo:      9876543210", "phone number"),
        ("98765 43210", "phone number"),
        ("+ 49 30 901820", "phone number"),
        ("138 1234 5678", "phone number"),
        ("手机: 13812345678", "phone number"),
        ("0812-3456-7890", "phone number"),
        ("0300-1234567", "phone number"),
        ("0803 123 4567", "phone number"),
        ("(11) 91234-5678", "phone number"),
        ("01712-345678", "phone number"),
        ("8 (912) 345-67-89", "phone number"),
        ("0911 234 567", "phone number"),
        ("jane.doe+x@mail.corp.io", "e-mail address"),
        ("2341 2341 2346", "Aadhaar number"),
        ("ABCPE1234F", "Indian PAN"),
        ("11010519491231002X", "Chinese identity number"),
        ("536-90-4399", "US social security number"),
        ("SSN: 536904399", "US social security number"),
        ("SSN 536 90 4399", "US social security number"),
        ("user_ssn = 536904399", "US social security number"),
        ("aadhaarNumber: 234123412346", "Aadhaar number"),
        ("NIK: 3171 0117 0845 0001", "Indonesian NIK"),
        ("NIN 1234 5678 901", "Nigerian NIN"),
        ("1-415-555-2671", "phone number"),
        ("mailto:jane@corp.io", "e-mail address"),
        ("NIK 3171011708450001", "Indonesian NIK"),
        ("35202-1234567-1", "Pakistani CNIC"),
        ("CNIC 3520212345671", "Pakistani CNIC"),
        ("teléfono 5512345678", "phone number"),
        ("NIN: 12345678901", "Nigerian NIN"),
        ("529.982.247-25", "Brazilian CPF"),
        ("NID no. 1234567890", "Bangladeshi NID"),
        ("ИНН 500100732259", "Russian INN"),
        ("112-233-445 95", "Russian SNILS"),
        ("СНИЛС 11223344595", "Russian SNILS"),
        ("Fayda 1234 5678 9012", "Ethiopian Fayda number"),
    ],
)
def test_personal_data_of_the_largest_countries_is_replaced_by_its_kind(
    text: str, kind: str
) -> None:
    found = PersonalGuard().detect(f"It is {text}, he said.")
    assert found is not None
    assert found.reason == f"personal data: {kind}"
    assert f"[{kind}], he said." in str(found.text)
    page = json.dumps({"page": f"of his\n{text}\nand"}, ensure_ascii=False)
    shown = PersonalGuard().detect(page)
    assert shown is not None
    assert f"[{kind}]\nand" in json.loads(str(shown.text))["page"]


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1111",
        "2341 2341 2347",
        "110105194912310021",
        "id = 12345678901",
        "536904399, 536 90 4399 and 3520212345671",
        "microphone_id = 4155552671 and passnumber 536904399",
        "ftp://jane:secret@corp.io and 1234 5678 901",
        "1700000000 and 1234567890123",
        "version 1.2.3-4567 of 2024-01-02",
        "git@github.com:owner/name",
        "jo@example.com, a@b.test, root@localhost, noreply@corp.io, sk-ed25519@openssh.com",
        "@decorator.name and user@",
        "0x0912345678 and 409123456780",
        "y = x + 2025529095.0*z",
        "sha256:A1234567890",
    ],
)
def test_what_only_looks_like_personal_data_stays(text: str) -> None:
    assert PersonalGuard().detect(text) is None


def test_a_name_before_an_address_is_found_without_a_model() -> None:
    said = "Copyright 2026 José de la Cruz <jose@corp.mx>, Array<String> <a@corp.io>, Jo Doe <jo@x.test>"
    found = PersonalGuard().detect(said)
    assert found is not None
    assert found.text == (
        "Copyright 2026 [person] <[e-mail address]>, Array<String> <[e-mail address]>, Jo Doe <jo@x.test>"
    )


def test_names_that_cannot_be_found_here_are_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    monkeypatch.delitem(sys.modules, "orchestrator.guards.presidio", raising=False)
    said: list[str] = []
    guard = every_guard(entities=["PERSON"], note=said.append)["personal"]
    assert guard.detect("0912345678")
    assert said == [
        "personal: only names before an address are found; more needs presidio and a spaCy model"
    ]


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
        ("write to jo.doe@gmail.com today", "write to [e-mail address] today"),
        ("write to jo@example.com, jo@host.test or jo@localhost", None),
        ("her phone: (212) 555-0123", "her phone: [phone number]"),
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
    assert " [e-mail address] " in found.text


def test_presidio_has_few_false_positives_in_ordinary_text(asked: TextGuard) -> None:
    guards = {"personal": asked}
    for texts in (lines("ordinary"), list(elsewhere(100))):
        found = measured(texts, guards)
        assert found.share <= MAX_WRONG, found.hit


def test_full_names_are_found_where_a_model_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("presidio_analyzer", reason=ABSENT)
    spacy = importlib.import_module("spacy")
    model = spacy.blank("en")  # no release of a model is in the registry: one that knows two names
    known = [
        {"label": "PERSON", "pattern": name} for name in ("Jane Doe'", "Robert Miller", "Path")
    ]
    model.add_pipe("entity_ruler").add_patterns(known)
    model.to_disk(tmp_path / "names")
    monkeypatch.setattr(spacy.util, "get_installed_models", lambda: [str(tmp_path / "names")])
    guard = every_guard(entities=["PERSON"])["personal"]
    found = guard.detect("'Jane Doe' wrote `Foo.bar(Path)` with Robert Miller.")
    assert found is not None
    assert found.text == "'[person]' wrote `Foo.bar(Path)` with [person]."
    (tmp_path / "names/config.cfg").unlink()
    with pytest.raises(InputError, match=r"^spaCy cannot load .*names, reinstall it: "):
        every_guard(entities=["PERSON"])


def test_an_entity_that_is_unknown_is_one_clear_line() -> None:
    pytest.importorskip("presidio_analyzer", reason=ABSENT)
    with pytest.raises(InputError) as said:
        every_guard(entities=["PERSON", "LOCATION"])
    assert str(said.value).startswith(
        "config/guards.yaml names entities unknown to presidio: LOCATION; it detects ABA_ROUTING_NUMBER, "
    )
    assert "\n" not in str(said.value)


def test_the_page_suggests_measured_settings() -> None:
    page = (Path(__file__).parents[2] / "docs/guards.md").read_text("utf-8")
    part = page.partition("## Personal data")[2].partition("\n## ")[0]
    suggested = part.partition("rarely match ordinary code and prose: ")[2].partition(".")[0]
    assert tuple(suggested.replace("\n", " ").split(", ")) == SUGGESTED
