"""Our own secrets are found however they are written, and nothing else is taken for one."""

import base64
import json
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.canonical_json import is_json
from orchestrator.engine.secret_redaction import REDACTED, Redactor
from tests.torture.own_secrets import ENCODINGS, leaks, secret_of

OF_ASCII = {
    "url", "unicode", "source", "html", "upper", "html open", "html hex", "octal", "long unicode",
    "braces", "full width", "bold", "tag characters", "tag characters in JSON",
    "full width in source", "css", "css long", "named characters",
}  # fmt: skip
SECRET = "sk-live-Zk9_xQ7pL2mN8vR4tW6yB1cD3e"


@pytest.mark.attack("own secret in another encoding")
@pytest.mark.parametrize(
    ("name", "secret"),
    [
        (name, secret)
        for name in ENCODINGS
        for secret in (SECRET, "p@$$-w0rd!", "hunter-22", "aß9%z-z/é7z!q4")
        if secret.isascii() or name not in OF_ASCII
    ],
)
def test_a_secret_is_redacted_in_every_encoding(name: str, secret: str) -> None:
    encoded = ENCODINGS[name](secret)
    shown = Redactor([secret])(f"before <{encoded}> after")
    assert leaks(shown, secret) == []
    assert shown.startswith("before <")
    assert shown.endswith("> after")
    assert REDACTED in shown


@pytest.mark.attack("own secret in another encoding")
@given(st.integers(0, 1 << 32), st.sampled_from(sorted(ENCODINGS)))
def test_no_encoding_of_a_random_secret_survives_in_a_text(seed: int, name: str) -> None:
    secret = secret_of(random.Random(seed))
    shown = Redactor([secret])(f"Before, {name}: <{ENCODINGS[name](secret)}> and after.")
    assert leaks(shown, secret) == []
    assert REDACTED in shown
    assert shown.startswith(f"Before, {name}: <")
    assert shown.endswith("> and after.")


@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize(
    "encode",
    [base64.b32encode, base64.b32hexencode, base64.b85encode, base64.a85encode],
    ids=lambda encode: encode.__name__,
)
def test_a_secret_is_found_at_any_place_of_base32_and_base85(
    encode: Callable[[bytes], bytes], before: int
) -> None:
    encoded = encode(f"{'u' * before}{SECRET}{'w' * 9}".encode()).decode()
    shown = Redactor([SECRET])(f"<{encoded}>")
    assert REDACTED in shown
    assert not any(encoded[at : at + 12] in shown for at in range(8, 26))


ORDINARY = {
    "code": "def f(x): return chr(115) + '\\u0073' if x < y and z > 1 else {'a': [115, 107, 45]}\n",
    "page": "<p class='a'>sk-<b>live</b>-&amp;&nbsp;Zk9 <a href='/?a=1&b=2'>%20x</a></p>\n",
    "Russian": "Съешь ещё этих мягких французских булок, да выпей чаю.\n",
    "dump": "00000010: 736b 2d6c 6976 652d  sk-live-\n00000020: 7a7a 7a7a\n",
    "terminal": "\x1b[31mred\x1b[0m \\73 \\x1b U+0073 \N{TAG LATIN SMALL LETTER S}\n",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_text_in_the_same_notations_stays(text: str) -> None:
    assert Redactor([SECRET])(text * 200) == text * 200


def test_many_secrets_take_hardly_longer_than_one() -> None:
    text = "".join(ORDINARY.values()) * 400
    times = []
    for count in (1, 40):
        redact = Redactor(f"sk-{n:03}-{SECRET[::-1]}" for n in range(count))
        start = time.process_time()
        redact(text)
        times.append(time.process_time() - start)
    assert times[1] < 5 * times[0] + 0.2


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


@pytest.mark.parametrize("name", ["tags between", "css", "xxd"])
def test_a_secret_is_found_at_each_of_two_places_of_a_notation_far_apart(name: str) -> None:
    encoded = ENCODINGS[name](SECRET)
    shown = Redactor([SECRET])(f"{encoded}{' word' * 2000} {encoded}")
    assert leaks(shown, SECRET) == []


def test_a_text_without_a_secret_is_returned_unchanged() -> None:
    redact, value = Redactor([SECRET]), {"a": ["x", {"b": 1.5}], "c": None}
    assert redact.json(value) is value
    assert redact("nothing here") == "nothing here"
    assert Redactor().json(value) is value
    assert not Redactor()


@pytest.mark.parametrize("short", ["", "abc", "postgres", "password", "changeme", "12345678"])
def test_a_value_that_ordinary_text_could_hold_is_no_secret(short: str) -> None:
    assert not Redactor([short])


def test_json_in_a_text_stays_json() -> None:
    said = json.dumps({"title": [encode(SECRET) for encode in ENCODINGS.values()], "n": 1})
    assert json.loads(Redactor([SECRET])(said))["n"] == 1


def test_deeply_nested_values_are_redacted() -> None:
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


def test_a_lone_surrogate_beside_a_secret_stays() -> None:
    assert Redactor([SECRET])("\udcff" + SECRET) == "\udcff" + REDACTED


@pytest.mark.parametrize(
    "text",
    [
        "\\" * 200_000,
        "&#0" * 70_000,
        "%4" * 100_000,
        "0x" * 100_000,
        "<a" * 100_000,
        "\x1b]" * 100_000,
        "\n00000000 73 " * 20_000,
        "%81" * 70_000,
        "&a" * 100_000,
        "\n0000:" + " 73" * 70_000,
        "\\N{A" * 50_000,
        "é" * 200_000,
        "\\73 " * 50_000,
    ],
    ids=lambda text: ascii(text[:6]),
)
def test_no_text_takes_quadratic_time(text: str) -> None:
    start = time.process_time()
    Redactor([SECRET])(text)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("length", [15, 16, 17])
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2, 7])
def test_no_part_of_a_base64_secret_remains(length: int, before: int, after: int) -> None:
    secret = "Zk9xQ7pL2mN8vR4tW6yB1cD3e"[:length]
    encoded = base64.b64encode(f"{'u' * before}{secret}{'w' * after}".encode()).decode()
    # The digits in which no bit is of anything but the secret.
    first, last = -(-before * 8 // 6), (before + length) * 8 // 6
    shown = Redactor([secret])(f"<{encoded}>")
    assert shown == f"<{encoded[:first]}{REDACTED}{encoded[last:]}>"


def test_a_secret_that_contains_another_is_redacted_to_its_end() -> None:
    redact = Redactor(["q7w8e9r0", "ab1cd2ef3gh4ij5", "b1cd2ef3"])
    assert redact("q7w8e9r0 and ab1cd2ef3gh4ij5.") == f"{REDACTED} and {REDACTED}."


@pytest.mark.parametrize("secret", ["ab0xcd12", "x0x41y77z"])
def test_a_secret_with_the_sign_of_hex_in_it(secret: str) -> None:
    assert Redactor([secret])(f"<{secret}>") == f"<{REDACTED}>"


DIGITS = "493027156830"


def test_a_number_is_a_secret_as_its_digits_are() -> None:
    redact, number = Redactor([DIGITS]), int(DIGITS)
    said = {"pin": number, "k": [-number, 12, 1.5, 493027156831, True], "b": {"c": "x"}}
    assert redact.json(said) == {
        "pin": REDACTED,
        "k": [REDACTED, 12, 1.5, 493027156831, True],
        "b": {"c": "x"},
    }
    assert said["pin"] == number
    assert redact.json(number) == redact.json(float(number)) == REDACTED
    assert redact.json(1 << 60_000) == 1 << 60_000


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ({"pin": int(DIGITS), "n": 7}, {"pin": REDACTED, "n": 7}),
        ({"a": DIGITS[:6], "b": DIGITS[6:], "n": 7}, {"a": DIGITS[:6], "b": DIGITS[6:], "n": 7}),
        ({"a": ["k-49302", "7156830"]}, {"a": [f"k-{REDACTED}", REDACTED]}),
        ({DIGITS[:6]: DIGITS[6:], "n": 7}, {REDACTED: REDACTED, "n": 7}),
        ({"t": f"a\\{DIGITS}\n"}, {"t": f"a\\{REDACTED}\n"}),
        ([int(DIGITS)], [REDACTED]),
        ([int(DIGITS), 7, int(DIGITS)], [REDACTED, 7, REDACTED]),
    ],
)
@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```"])
def test_a_report_stays_json(said: object, left: object, fence: str) -> None:
    shown = Redactor([DIGITS])(fence.format(json.dumps(said)))
    assert json.loads(shown.strip("`").removeprefix("json")) == left


def test_a_cut_through_an_escape_of_json_takes_the_whole_string() -> None:
    # The secret begins with the slash of an escaped slash, or in the middle of \\uXXXX.
    assert Redactor(["/=_q4z7/=-"])(r'{"t": "x\/=_q4z7/=-", "n": 7}') in (
        f'{{"t": "x{REDACTED}", "n": 7}}',
        f'{{"t": "{REDACTED}", "n": 7}}',
    )
    shown = Redactor(["20acde9h4kz"])(r'{"t": "x\u20acde9h4kz", "n": 7}')
    assert json.loads(shown) == {"t": f"x{REDACTED}", "n": 7}


def test_text_in_other_scripts_is_not_redacted() -> None:
    text = "naïve ½ ｆｕｌｌ 𝐛𝐨𝐥𝐝 漢字 &amp; &#169; \\d \\1 AT&T"
    assert Redactor([SECRET])(text) == text
    full = "".join(chr(ord(c) + 0xFEE0) for c in SECRET)
    assert Redactor([SECRET])(f"漢字 {full}é") == f"漢字 {REDACTED}é"


def test_entities_by_name_are_what_they_stand_for() -> None:
    assert Redactor(["p@ss&w0rd<12>"])("<p@ss&amp;w0rd&lt;12&gt;>").startswith(f"<{REDACTED}")


OPEN_ENDED = {
    "hexadecimal entities": lambda s: "".join(f"&#x{ord(c):X}" for c in s),
    "decimal entities": lambda s: "".join(f"&#{ord(c)}" for c in s),
    "padded entities": lambda s: "".join(f"&#x{ord(c):020x}" for c in s),
    "code points": lambda s: "".join(f"U+{ord(c):04X}" for c in s),
    "CSS": lambda s: "".join(f"\\{ord(c):x} " for c in s)[:-1],
    "escaped entities": lambda s: "".join(f"\\u0026#x{ord(c):x}" for c in s),
    "entities in a URL": lambda s: "".join(f"%26%23{ord(c)}" for c in s),
}


@pytest.mark.attack("own secret in a notation without its end mark")
@pytest.mark.parametrize("after", ["a", "12 more", "beef", "0"])
@pytest.mark.parametrize("encode", OPEN_ENDED.values(), ids=OPEN_ENDED)
@pytest.mark.parametrize("secret", ["p4!cU&rCGPp", SECRET])
def test_a_notation_without_an_end_mark_ends_with_its_text(
    secret: str, encode: Callable[[str], str], after: str
) -> None:
    redact, encoded = Redactor([secret]), encode(secret)
    assert redact.json({encoded: {after: 1}}) == {REDACTED: {after: 1}}
    assert redact.json([encoded, after]) == [REDACTED, after]
    for at in range(len(encoded) - 22, len(encoded), 2 if after == "a" else 11):
        shown = redact.json([encoded[:at], encoded[at:], after])
        assert leaks("".join(shown[:2]), secret) == []
        assert shown[2] == after


@pytest.mark.attack("own secret behind the beginning of a notation")
@pytest.mark.parametrize(
    "before", ["100%", "&#x", "&", "\\", "\\x", "%u", "U+", "\x1b]0;", "\x1b["]
)
@pytest.mark.parametrize(
    "secret", ["4af1c2d3e4b5a6978877", "lt4-af1c2dw", "41Bf-xyz!qW", "nrt9-qz!x7"]
)
def test_a_secret_is_not_the_end_of_a_notation_before_it(secret: str, before: str) -> None:
    redact = Redactor([secret])
    assert secret[1:] not in redact(f"{before}{secret}")
    assert redact.json([before, secret])[1] == REDACTED


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_a_secret_that_looks_like_a_notation_is_found_in_another(name: str) -> None:
    secret = "q7&lt9z&#65x%41-\\x42&shyW8"
    assert leaks(Redactor([secret])(f"<{ENCODINGS[name](secret)}>"), secret) == []


@pytest.mark.parametrize("text", ["AT&T", "R&D", "C:\\ab", "C++", "&c", "a&b=1&copy=2", "100%"])
def test_neighboring_texts_that_end_like_a_notation_stay(text: str) -> None:
    assert Redactor([SECRET]).json([text, "12", {text: "ab"}]) == [text, "12", {text: "ab"}]


def test_a_text_alone_is_a_document_too() -> None:
    assert Redactor([SECRET]).json(f"x {SECRET}") == f"x {REDACTED}"


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("a" * 12, f"<{'a' * 13}>", f"<{REDACTED}>"),
        # What is one character apart is one; what is two apart is not.
        ("hunter-22", "hunter-22 hunter-22", REDACTED),
        ("hunter-22", "hunter-22, hunter-22", f"{REDACTED}, {REDACTED}"),
        ("\udcffZk9xQ7pL2", b"\xffZk9xQ7pL2".hex(), REDACTED),
        ("a9%41-4%42z7q-x", "a9%2541%2D4%2542z7q%2Dx", REDACTED),
        ("q4漢z7Qk2-9w", '"q4\\u6f22z7Qk2-9w"', f'"{REDACTED}"'),
        ("Zk9xQ7pL2mN8vRW", "Wms5eFE3cEwybU44dlJX", REDACTED),
        # Characters beyond ASCII are none of a secret, whatever stands before.
        (SECRET, "\\x80 \\x81", "\\x80 \\x81"),
        # Of JSON only strings and numbers are cut, and nothing else becomes JSON.
        ("=_z/=-7.:", '{"=_z/=-7.":12345}', f'{{"{REDACTED}":12345}}'),
        ("]=_z/=-7.", '[[12345],"=_z/=-7."]', f'[[12345],"{REDACTED}"]'),
        ("hunter-22", r'["hunter-22\q"]', rf'["{REDACTED}\q"]'),
        ("hunter-22", r'["x\q", "hunter-22\q"]', rf'["x\q", "{REDACTED}\q"]'),
        (DIGITS, f'```\n{{"n": {DIGITS}}}\n```X', f'```\n{{"n": {REDACTED}}}\n```X'),
    ],
)
def test_exactly_the_secret_is_redacted(secret: str, text: str, shown: str) -> None:
    assert Redactor([secret])(text) == shown


@pytest.mark.parametrize(
    ("secret", "value", "shown"),
    [
        ("hunter-22", ["first", "x hunter-22 and more"], ["first", f"x {REDACTED} and more"]),
        ("hunter-22", ["hunter-22", "tail"], [REDACTED, "tail"]),
        # Numbers of at least eight digits or characters, up to 1 << 4096.
        ("ab10000000", ["ab", 10_000_000], [REDACTED, REDACTED]),
        ("ab9999999", ["ab", 9_999_999], ["ab", 9_999_999]),
        ("123456.7", 123456.7, REDACTED),
        (str(1 << 4096)[:20], [1 << 4096], [REDACTED]),
        ("152535455565", [1.5, 2.5, 3.5, 4.5, 5.5, 6.5], [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]),
        # Anything else stands for no text.
        ("X" * 12, [None, True, False], [None, True, False]),
        ("X" * 12, [1, 2, 3], [1, 2, 3]),
        ("X" * 12, [1.5, 2.5, 3.5], [1.5, 2.5, 3.5]),
    ],
)
def test_strings_and_long_numbers_of_a_document_are_read_as_one_text(
    secret: str, value: object, shown: object
) -> None:
    assert Redactor([secret]).json(value) == shown


def test_a_secret_that_redaction_marks_complete_is_redacted_with_its_neighbors() -> None:
    redact = Redactor([SECRET, "x-redacted-y"])
    assert redact.json(["x", SECRET, "y", "2z"]) == [REDACTED, REDACTED, REDACTED, "2z"]
    redact.add(["redacted-redacted-2z"])
    assert redact.json(["x", SECRET, "y", "2z", "end"]) == [*[REDACTED] * 4, "end"]


def test_filters_redact_other_secrets_in_order_and_remember_texts() -> None:
    calls: list[str] = []

    def without_live(text: str) -> str:
        calls.append(text)
        return text.replace("live", "gone")

    redact = Redactor()
    redact.add_filter(without_live)
    assert redact
    redact.add_filter(lambda text: text.replace("gone-key", "key"))
    assert redact("my live-key") == "my key"
    # A text shorter than any secret is left as it is.
    assert [redact("live-ab"), redact("live-abc")] == ["live-ab", "gone-abc"]
    assert redact.json({"a": ["my live-key", 1.5]}) == {"a": ["my key", 1.5]}
    assert calls == ["my live-key", "live-abc"]
    for number in range(128):
        redact(f"text number {number}")
    redact("live-abc")
    assert calls[-1] == "live-abc"


def test_a_filter_that_finds_nothing_changes_nothing_and_our_secrets_are_found_behind_it() -> None:
    redact, value = Redactor([SECRET]), {"a": ["nothing here", {"b": 1.5}]}
    redact.add_filter(lambda text: text.replace("live-key", "key"))
    assert redact.json(value) is value
    assert redact.json(["my live-key", f"is {SECRET}"]) == ["my key", f"is {REDACTED}"]
