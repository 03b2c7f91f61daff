"""Our own secrets are found however they are written, and nothing else is taken for one."""

import time

import pytest

from orchestrator.engine.canonical_json import is_json
from orchestrator.engine.secret_redaction import REDACTED, Redactor
from tests.torture.own_secrets import ENCODINGS, leaks

SECRET = "sk-live-Zk9_xQ7pL2mN8vR4tW6yB1cD3e"


@pytest.mark.parametrize("secret", [SECRET, "p@$$-w0rd!", "hunter-22", "aß9%z-z/é7z!q4"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_secret_is_taken_out_in_every_encoding(name: str, secret: str) -> None:
    if name in {"url", "unicode", "source", "html", "upper"} and not secret.isascii():
        pytest.skip("these encodings are of ASCII")
    encoded = ENCODINGS[name](secret)
    shown = Redactor([secret])(f"before <{encoded}> after")
    assert leaks(shown, secret) == []
    assert shown.startswith("before <")
    assert shown.endswith("> after")
    assert REDACTED in shown


def test_parts_in_neighboring_strings_and_keys() -> None:
    redact = Redactor(["hunter-22"])
    said = {"a": ["hunt", "er22", "kept"], "b": [{"t": "hun"}, {"t": "ter22"}], "hunter22": 1}
    assert redact.json(said) == {
        "a": [REDACTED, REDACTED, "kept"],
        "b": [{"t": REDACTED}, {"t": REDACTED}],
        REDACTED: 1,
    }


def test_halves_of_a_long_secret_far_apart() -> None:
    shown = Redactor([SECRET]).json({"title": SECRET[:20], "severity": "high", "text": SECRET[20:]})
    assert shown["severity"] == "high"
    assert shown["title"] + shown["text"] not in {SECRET, f"{SECRET[:20]}{SECRET[20:]}"}
    assert REDACTED in shown["title"] + shown["text"]


def test_what_holds_none_comes_back_as_it_was() -> None:
    redact, value = Redactor([SECRET]), {"a": ["x", {"b": 1.5}], "c": None}
    assert redact.json(value) is value
    assert redact("nothing here") == "nothing here"
    assert Redactor().json(value) is value
    assert not Redactor()


@pytest.mark.parametrize("short", ["", "abc", "postgres", "password", "changeme", "12345678"])
def test_a_value_that_ordinary_text_could_hold_is_no_secret(short: str) -> None:
    assert not Redactor([short])


def test_json_in_a_text_stays_json() -> None:
    import json

    said = json.dumps({"title": [encode(SECRET) for encode in ENCODINGS.values()], "n": 1})
    assert json.loads(Redactor([SECRET])(said))["n"] == 1


def test_no_nesting_is_too_deep() -> None:
    value: object = SECRET
    for _ in range(5000):
        value = [value]
    shown = Redactor([SECRET]).json(value)
    for _ in range(5000):
        shown = shown[0]
    assert shown == REDACTED
    assert is_json(shown)


def test_a_secret_that_reads_like_the_mark_ends_too() -> None:
    assert Redactor(["redacted-1-redacted"])("x redacted-1-redacted") == REDACTED


@pytest.mark.parametrize("name", ["verbatim", "base64", "hex", "reversed", "json", "adjacent"])
def test_a_secret_that_looks_like_an_escape(name: str) -> None:
    secret = "a9%41-\\x42-4%42z7q"
    assert leaks(Redactor([secret])(f"x {ENCODINGS[name](secret)} y"), secret) == []


def test_surrogates_pass() -> None:
    assert Redactor([SECRET])("\udcff" + SECRET) == "\udcff" + REDACTED


@pytest.mark.parametrize("text", ["\\" * 200_000, "&#0" * 70_000, "%4" * 100_000, "0x" * 100_000])
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()
    Redactor([SECRET])(text)
    assert time.process_time() - start < 2
