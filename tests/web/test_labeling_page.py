"""Labeling in a real browser, by the keyboard alone, into the file that the terminal uses."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import to_builtins

from orchestrator.code_review.verdict.model import Verdict
from orchestrator.tuning.file_formats.item_files import Item, item_from_verdict
from orchestrator.tuning.labels.label_files import (
    ANSWERS,
    Label,
    LabelQuestion,
    add_label,
    list_disputes,
    list_questions,
    read_labels,
)
from orchestrator.web.access import PROXY_SECRET_HEADER, Access, Proxy
from orchestrator.web.labeling import LabelingPage, LabelingTask
from orchestrator.web.site import Site, running
from tests.plain_http import PLAIN, press_sign_in
from tests.report.browser import Browser, Page, needs_axe, needs_chromium
from tests.tuning.labelsets import rubric_of
from tests.tuning.recorded_runs import repository, review

pytestmark = needs_chromium
HOSTILE = '<script>document.title="pwned"</script> \x1b[31m\u202e ' + "long" * 50
DIFF = "@@ -1 +1 @@\n-old = 1\n+new = <b>2</b>\n same"


def make_items(count: int, **more: Any) -> list[Item]:
    return [
        Item(
            f"i{n}",
            f"g{n}",
            {"a": 0.123},
            f"Review {n}.",
            context=DIFF,
            verdict="needs_changes",
            **more,
        )
        for n in range(count)
    ]


class Room:
    """Raters who label the same items, each with a server and a browser of their own."""

    def __init__(self, browser: Browser, path: Path, ends: ExitStack) -> None:
        self.path, self._browser, self._ends = path, browser, ends

    def sit(
        self, rater: str, items: Sequence[Item], answers: str = "accept", *,
        reviews: Mapping[str, Verdict] | None = None, repo: Path | None = None,
        ask: Callable[..., list[LabelQuestion]] = list_questions, **more: Any,
    ) -> Page:  # fmt: skip
        task = LabelingTask(
            items, reviews or {}, repo, self.path,
            lambda labels, who: ask(items, labels, who), ANSWERS[answers], **more,
        )  # fmt: skip
        site = self._ends.enter_context(running(Site(Access(rater), [LabelingPage(task).part()])))
        page = self._browser.new_page()
        page.sign_in(site.access.new_link())
        return page

    @property
    def labels(self) -> list[Label]:
        return read_labels([self.path])


@pytest.fixture
def room(browser: Browser, tmp_path: Path) -> Iterator[Room]:
    with ExitStack() as ends:
        yield Room(browser, tmp_path / "labels.jsonl", ends)


def type_keys(page: Page, keys: str) -> None:
    """Press keys, each of which leads to another page."""
    for key in keys:
        page.follow(lambda key=key: page.press(key))  # type: ignore[misc]


def asked(page: Page) -> str:
    found: str = page.run("document.querySelector('h1').innerText")
    return found


def text_of(page: Page) -> str:
    found: str = page.run("document.body.innerText")
    return found


def test_each_item_takes_one_keystroke_and_is_saved_before_the_next(room: Room) -> None:
    items = make_items(4)
    order = [q.item.id for q in list_questions(items, [], "ana")]
    page = room.sit("ana", items)
    for n, name in enumerate(order):
        assert asked(page) == name
        type_keys(page, "ar"[n % 2])
        # Saved before the next item is shown, in the order and with the drawing of the terminal.
        assert [(x.item, x.rater, x.label, x.drawn) for x in room.labels[-1:]] == [
            (name, "ana", ("accept", "reject")[n % 2], "random")
        ]
    assert asked(page) == "All labeled"
    assert [x.item for x in room.labels] == order
    assert page.complaints() == []


def test_a_person_undoes_skips_and_gives_a_reason_by_keys(room: Room) -> None:
    items = make_items(3)
    order = [q.item.id for q in list_questions(items, [], "ana")]
    page = room.sit("ana", items)
    page.press("#")
    for key in "too lax":  # neither a nor r in it labels anything
        page.press(key)
    page.press("Enter")
    assert asked(page) == order[0]
    type_keys(page, "r")
    type_keys(page, "<")
    assert room.labels == []
    # The reason is still there, to be changed.
    assert page.run("document.querySelector('[name=note]').value") == "too lax"
    type_keys(page, "as")
    assert asked(page) == order[2]
    type_keys(page, "r")
    assert asked(page) == "1 skipped"
    page.follow(lambda: page.press("Enter"))
    assert asked(page) == order[1]
    assert "1 of 1" in text_of(page)
    type_keys(page, "a")
    assert [(x.item, x.label, x.note) for x in room.labels] == [
        (order[0], "accept", "too lax"), (order[2], "reject", ""), (order[1], "accept", "")
    ]  # fmt: skip
    page.follow(lambda: page.press("<"))
    assert asked(page) == order[1]


def test_progress_and_the_time_left_are_seen_and_the_last_page_says_that_all_is_saved(
    room: Room,
) -> None:
    page = room.sit("ana", make_items(6))
    shown = "document.querySelector('.item progress').parentElement.innerText.trim()"
    assert page.run(shown) == "1 of 6"
    type_keys(page, "aaaa")
    assert re.fullmatch(r"5 of 6 · about \d+ minutes? left", page.run(shown))
    assert page.run("document.querySelector('progress').value") == 4
    assert page.run("document.title").startswith("5 of 6")
    type_keys(page, "aa")
    assert "You may close this page. Every label is saved in" in text_of(page)


def test_an_adjudicator_is_told_why_and_not_what_the_others_said(room: Room) -> None:
    items = make_items(2)
    for rater, label in (("bo", "accept"), ("cy", "reject")):
        add_label(room.path, Label("i0", rater, label, note="SECRET"))
    page = room.sit("dan", items, ask=list_disputes)
    assert (asked(page), "1 of 1" in text_of(page)) == ("i0", True)
    assert "Two people disagree on this item." in text_of(page)
    assert "SECRET" not in page.run("document.documentElement.outerHTML")
    type_keys(page, "r")
    assert [(x.rater, x.label) for x in room.labels if x.adjudicates] == [("dan", "reject")]


def test_right_to_left_text_begins_at_its_side_and_five_levels_fit_a_row_of_a_phone(
    room: Room,
) -> None:
    page = room.sit("ana", [Item("i0", "g", {}, "זה בסדר\nIn English.")], "1-5")
    page.open(page.run("location.href"), 360)
    lines = page.run("""(() => {
      const text = document.querySelector('blockquote').firstChild, range = document.createRange();
      return [[0, 7], [8, 19]].map(([from, to]) => {
        range.setStart(text, from); range.setEnd(text, to);
        return Math.round(range.getBoundingClientRect().left);
      });
    })()""")
    assert lines[0] > lines[1] + 100
    tops = "new Set([...document.querySelectorAll('.answers button')].map((one) => one.offsetTop))"
    assert page.run(f"{tops}.size") == 1
    assert "worst" in page.text(".ends")


def send(page: Page, form: str, action: str) -> None:
    """Send what a page's form held, as a browser does that loads a page again."""
    place = f"document.forms[0].action.replace('/label', '/{action}')"
    options = f"{{method: 'POST', body: new URLSearchParams({form!r})}}"
    assert page.run(f"fetch({place}, {options}).then((one) => one.status)") == 200


def test_a_key_that_is_held_or_a_form_that_is_sent_twice_counts_once(room: Room) -> None:
    page = room.sit("ana", make_items(4))
    kept = "new URLSearchParams(new FormData(document.forms[0])).toString()"
    before = page.run(kept)
    page.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', repeat: true})), 0")
    type_keys(page, "a")
    send(page, f"{before}&answer=a", "label")
    assert len(room.labels) == 1
    type_keys(page, "a")
    before = page.run(kept)
    for _ in range(2):
        send(page, before, "undo")
    assert len(room.labels) == 1


def test_criteria_are_labeled_from_top_to_bottom_and_can_be_left_out(room: Room) -> None:
    criteria = rubric_of(("a", "b", "c")).criteria
    items = make_items(2)
    page = room.sit("ana", items, "1-5", criteria=criteria)
    page.press("Enter")  # the item itself needs an answer
    assert page.run("document.querySelector('[name=answer]').validity.valid") is False
    for key in "425":
        page.press(key)
    type_keys(page, "1")  # the last one saves
    page.press("3")
    page.follow(lambda: page.press("Enter"))  # two keystrokes leave the criteria out
    assert [(x.label, x.criteria) for x in room.labels] == [
        (4.0, {"a": 2.0, "b": 5.0, "c": 1.0}), (3.0, {})
    ]  # fmt: skip


def test_a_second_rater_is_blind_shares_twenty_items_and_sees_the_agreement(room: Room) -> None:
    items = make_items(60)
    order = [q.item.id for q in list_questions(items, [], "bo")]
    chosen = order[-24:]  # as if Ana had begun elsewhere
    for n, name in enumerate(chosen):
        add_label(room.path, Label(name, "ana", ("reject", "accept")[n % 2], note="SECRET"))
    for n, name in enumerate(chosen[:18]):  # the first four differ
        add_label(room.path, Label(name, "bo", ("accept", "reject")[n % 2 if n < 4 else 1 - n % 2]))
    page = room.sit("bo", items)
    seen = []
    for n in range(18, 20):
        seen.append(asked(page))
        assert "SECRET" not in page.run("document.documentElement.outerHTML")
        assert f"{n} of 20 items shared with ana" in text_of(page)
        assert "kappa" not in text_of(page)
        type_keys(page, "ra"[n % 2])
    assert seen == chosen[18:20]
    # 16 of 20 the same, half accepted: kappa is .6. Its interval narrows with the root of n.
    assert "80% the same as ana on 20 shared items, kappa .60 [" in text_of(page)
    assert " more for ±.05" in text_of(page)
    before = page.run("document.querySelector('.progress ul').innerText")
    assert asked(page) == order[0]
    add_label(room.path, Label(order[0], "ana", "reject"))
    type_keys(page, "a")
    # One more item would tell what Ana said of it.
    assert (
        page.run("document.querySelector('.progress ul').innerText").split(";")[0]
        == (before.split(";")[0])
    )


def test_two_raters_at_once_lose_nothing(room: Room) -> None:
    items = make_items(2)
    pages = [room.sit(rater, items) for rater in ("ana", "bo")]
    for _ in items:
        for page in pages:
            type_keys(page, "a")
    type_keys(pages[0], "<")
    names = sorted(item.id for item in items)
    assert sorted(x.item for x in room.labels if x.rater == "bo") == names
    assert len([x for x in room.labels if x.rater == "ana"]) == 1


CROWDED = """[...document.querySelectorAll('#answers button, #answers [name=note], .choice')]
  .map((one) => one.getBoundingClientRect()).filter((one) => one.height)
  .filter((one, n, all) => one.height < 44 || all.slice(n + 1).some(
    (next) => next.top < one.bottom + 4 && next.left < one.right + 4 && one.left < next.right + 4
  )).length"""
"""Controls that a thumb misses: lower than 44 px, or 4 px from the next."""


@needs_axe
@pytest.mark.parametrize("kind", ["items", "criteria", "done", "run"])
def test_axe_finds_nothing_wrong_and_nothing_leaves_the_width(
    kind: str, room: Room, tmp_path: Path
) -> None:
    make: Callable[[], Page] = {
        "items": lambda: room.sit(
            "ana", [Item("x" * 90, "g", {}, HOSTILE, context=DIFF + HOSTILE)]
        ),
        "criteria": lambda: room.sit(
            "ana", make_items(1), "verdict", criteria=rubric_of().criteria
        ),
        "done": lambda: room.sit("ana", []),
        "run": lambda: sit_at_a_run(room, tmp_path),
    }[kind]
    page = make()
    place = page.run("location.href")
    for look in page.looks(place):
        assert page.overflow() == 0
        assert page.run(CROWDED) == 0, look
        assert page.axe() == [], look
        assert page.complaints() == []
    assert page.run("document.title") != "pwned"


def sit_at_a_run(room: Room, tmp_path: Path) -> Page:
    repo = repository(tmp_path / "repo", ("X = eval(input())\n",))
    verdict = review(repo, provider="offline")
    item = item_from_verdict(to_builtins(verdict))
    page = room.sit("ana", [item], reviews={item.id: verdict}, repo=repo)
    shown = text_of(page)
    assert verdict.findings
    assert all(one.title in shown for one in verdict.findings)
    assert "- X = 1" in shown
    assert "+ X = eval(input())" in shown
    source = page.run("document.documentElement.outerHTML").lower()
    assert not any(
        word in source for word in ("needs_changes", "needs changes", ">merge", ">block")
    )
    assert not any(criterion.id in source for criterion in verdict.score.criteria)
    return page


def test_the_command_serves_the_page_until_it_is_interrupted(tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text('{"id": "x", "scores": {"a": 0.5}, "text": "Reads well."}\n')
    given = [items, "--rater", "ana", "--labels", tmp_path / "labels.jsonl", "--web"]
    with subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "label", *map(str, given)],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        link = server.stdout.readline().split()[-1]
        with httpx2.Client(follow_redirects=True, verify=PLAIN) as client:
            shown = press_sign_in(client, link)
        assert "Reads well." in shown.text
        assert "<title>1 of 1 · " in shown.text
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0


def test_behind_a_proxy_people_label_under_their_own_names(room: Room) -> None:
    items = make_items(2)
    task = LabelingTask(
        items, {}, None, room.path, lambda labels, who: list_questions(items, labels, who),
        ANSWERS["accept"],
    )  # fmt: skip
    people = frozenset({"ana", "bo"})
    proxy = Proxy("https://labels.example.org", "X-User", "s" * 16, people)
    with running(Site(Access("root", proxy=proxy), [LabelingPage(task).part()])) as site:
        for name in sorted(people):
            headers = {"Host": "labels.example.org", "X-User": name, "Origin": proxy.origin,
                       PROXY_SECRET_HEADER: proxy.secret}  # fmt: skip
            with httpx2.Client(
                base_url=f"http://127.0.0.1:{site.access.port}", headers=headers, verify=PLAIN
            ) as client:
                found = dict(re.findall('name="(csrf|item)" value="(.*?)"', client.get("/").text))
                sent = client.post("/label", data={**found, "answer": "r"})
                assert sent.status_code == 303
    assert [(x.rater, x.label) for x in room.labels] == [("ana", "reject"), ("bo", "reject")]


def test_neither_scores_nor_a_verdict_reach_the_browser(room: Room) -> None:
    page = room.sit("ana", make_items(1))
    source = page.run("document.documentElement.outerHTML")
    assert "Review 0." in source
    assert "new = &lt;b&gt;2&lt;/b&gt;" in source
    assert "0.123" not in source
    assert "needs" not in source
