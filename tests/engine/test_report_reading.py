"""Of all that a model's answer holds, the one report in it counts, or the answer is sent back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.common_contract import wrap
from orchestrator.engine.report_reading import read_report, split_thinking
from orchestrator.engine.tool_registry import validator
from orchestrator.engine.types import Json, Response, Text

FINDINGS = {"type": "array", "items": {"type": "string"}}
GAP = {"type": "object", "required": ["path", "why"]}
CONTRACT = {
    "type": "object",
    "properties": {"summary": {"type": "string"}, "findings": FINDINGS, "checked": FINDINGS}
    | {"gaps": {"type": "array", "items": GAP}},
    "required": ["findings", "checked"],
    "additionalProperties": False,
}
ERRORS = validator(CONTRACT)
REPORT = {"summary": 'It has "}" and </think>.', "findings": ["{a}", "b"], "checked": ["a.py"]}
WRAPPED = json.dumps(wrap(REPORT, "report"))
BARE = json.dumps(REPORT)
LESS = '{"findings": [], "checked": []}'
MORE = json.dumps({**REPORT, "findings": ["a", "b", "c"]})


def read(*texts: str) -> tuple[Json, list[str]]:
    response = Response(tuple(Text(text) for text in texts), "end")
    return read_report(response, ERRORS, CONTRACT, "report")


@pytest.mark.attack("text of a change makes a model's findings vanish")
@pytest.mark.parametrize(
    "texts",
    [
        [BARE],
        [f"remove() may return {{}} later.\n```json\n{WRAPPED}\n```\nThat is all {{."],
        ['The settings {"a": 1} and {"checked": true} stay.', WRAPPED],
        [WRAPPED, '{"answer": {}}'],
        ['{"answer": {"report": {"summary": "draft"}}}', WRAPPED],
        [f"{WRAPPED}\nAgain:\n{BARE}"],
        [f"void f() {{ x = \"{{\"; }}\n{BARE}"],
        [f'{{"unfinished": [1, \n{BARE}'],
        [f"<think>{LESS}</think>{BARE}"],
        [f"<thinking>a {{ <think> b</thinking>{WRAPPED}"],
        [f"A draft: {LESS} </think>\n{WRAPPED}"],
        [f'A draft: {{"answer": {{}}}}</think>\n{WRAPPED}'],
        [f"[THINK]{MORE}[/THINK]{BARE}"],
        [f"◁think▷{MORE}◁/think▷{BARE}"],
        [f"<|channel|>analysis<|message|>{MORE}<|end|><|start|>assistant<|channel|>final<|message|>{BARE}"],
        [f"analysisWe need {LESS}.assistantfinal{BARE}"],
        [f"<|channel>thought\n{LESS}<channel|>{BARE}"],
        [f"{BARE}\n<think>Shall I say {LESS}?"],
    ],
)  # fmt: skip
def test_the_report_is_found_among_prose_thinking_and_other_json(texts: list[str]) -> None:
    assert read(*texts) == (REPORT, [])


@pytest.mark.attack("text of a change makes a model's findings vanish")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", '"findings" is a required property'),
        ('{"answer": {}}', '"findings" is a required property'),
        ('{"answer": {"report": {}}}', '"findings" is a required property'),
        (f"{LESS}\n{BARE}", "2 reports that differ"),
        (f"{BARE}\nAn example of the change: {LESS}", "2 reports that differ"),
        (f'{LESS}\n[{{"path": "a.py", "why": "b", "more": 1}}]', "2 reports that differ"),
        (f'{{"draft": {BARE}}} {LESS}', "2 reports that differ"),
        (f'{{"findings": ["a", 7]}} {LESS}', "2 reports that differ"),
        (f'{{"answer": {{"report": {{"findings": ["a"], {LESS}', 'part with "findings"'),
        (f'{{"summary": "the reply {LESS} counts", "findings": ["a"]}}', 'part with "findings"'),
        (f"{{'findings': ['a']}} {LESS}", 'part with "findings"'),
        ('{"findings": ["a"], "checked": [], "findings": []}', "the same key twice"),
        (f"{MORE} is what the tag </think> hides: {LESS}", "longer report between"),
        (f"See <think>: {MORE} and </think> {LESS}", "longer report between"),
        (f"{LESS}[<think>{BARE}", "longer report between"),
        (f"<think>{BARE}", "thinking has no end"),
        (f"<think>{BARE}</think>", "there is no object"),
        (json.dumps(LESS), 'is not of type "object"'),
        (f"[{BARE}]", 'is not of type "object"'),
        ('{"":' * 50_000 + BARE, "over 200 objects"),
        ("{" * 100_000, "not valid JSON"),
    ],
)
def test_an_answer_that_may_hold_another_report_is_sent_back(text: str, why: str) -> None:
    report, errors = read(text)
    assert errors, report
    assert why in errors[0]


def test_thinking_is_told_from_an_answer_that_names_its_marks() -> None:
    assert split_thinking(" <think>a</think><think>b</think> c") == ("ab", "", " " + " c")
    assert split_thinking(f"<think>a</think>{BARE}") == ("a", "", BARE)
    assert split_thinking("The tag <think> and </think> end.")[0] == ""
    assert split_thinking("<think>on and on") == ("", "on and on", "<think>on and on")


HOSTILE = st.lists(
    st.sampled_from(
        ["{", "}", "{}", '"', "'", "\\", "```json\n", "```", "[", "]", ":", ",", "\n", '{"a": 1}']
        + ['{"findings"', '"findings": [', '{"answer": {}}', LESS, '{"checked": [', "<think>"]
        + ["</think>", "<|channel|>final", "assistantfinal", "</thinking>", '{"b": "', "NaN", "é"]
    ),
    max_size=12,
).map("".join)


@pytest.mark.attack("text of a change makes a model's findings vanish")
@given(HOSTILE, HOSTILE, st.sampled_from([BARE, WRAPPED]))
def test_a_report_in_hostile_prose_comes_out_whole_or_is_sent_back(
    before: str, after: str, said: str
) -> None:
    report, errors = read(before + said + after)
    assert errors or report == REPORT


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        ({"findings": "a", "checked": ["a.py"]}, {"findings": ["a"], "checked": ["a.py"]}),
        (
            {"findings": [], "checked": [], "gaps": {"path": "a.py", "why": "binary"}},
            {"findings": [], "checked": [], "gaps": [{"path": "a.py", "why": "binary"}]},
        ),
        ({"findings": None, "checked": []}, None),
        ({"findings": {"a": 1}, "checked": []}, None),
    ],
)
def test_a_single_entry_stands_for_a_list_of_it(given: Json, read_as: Json) -> None:
    report, errors = read(json.dumps(given))
    assert (errors == [], report) == (read_as is not None, read_as or given)
