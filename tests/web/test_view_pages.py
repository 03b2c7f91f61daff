"""The pages of runs: what they show without scripts, and what people decide there."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

from orchestrator.app.finding_excerpts import ExcerptLine, FileExcerpt
from orchestrator.app.runs.run_index import CachedRunIndex
from orchestrator.app.runs.run_record import read_record
from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.app.types import PROGRAM
from orchestrator.cli.main import main
from orchestrator.data_directories import data_root
from orchestrator.engine.ports import RunMeta
from orchestrator.engine.types import Json
from orchestrator.report.formats.html_page import findings as findings_page
from orchestrator.report.formats.html_page.run_sections import render_timeline, whole_window
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.tuning.file_formats.rubric_file import (
    digest_criteria,
    digest_judge,
    digest_rule,
    read_rubric,
    write_rubric,
)
from orchestrator.tuning.labels.label_files import Label, write_labels
from orchestrator.tuning.tune import METHOD_THRESHOLD
from orchestrator.web.access import TRIES, Access
from orchestrator.web.runs import run_pages
from orchestrator.web.runs.run_pages import CALLS_PER_PAGE, ROWS_PER_PAGE, split_into_pages
from orchestrator.web.site import Site, running
from tests.plain_http import PLAIN, press_sign_in
from tests.report.browser import Browser, Page, needs_axe, needs_chromium
from tests.web.view_kit import ASKING, BROKEN, CALLING, LONG, Person, Shop, long_rows, open_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in ("CONFIG", "CACHE", "STATE"):
            patch.delenv(f"XDG_{name}_HOME", raising=False)
        with open_shop(tmp_path_factory.mktemp("view")) as opened:
            yield opened


@pytest.fixture
def people(shop: Shop) -> Iterator[Callable[..., Person]]:
    found: list[Person] = []

    def come(*, may_act: bool = True) -> Person:
        found.append(Person(shop.site, may_act=may_act))
        return found[-1]

    yield come
    for one in found:
        one.http.close()


def sign_in(browser: Browser, shop: Shop, *, may_act: bool = True) -> Page:
    page = browser.new_page()
    page.sign_in(shop.site.access.new_link(may_act=may_act))
    return page


def address(shop: Shop, path: str) -> str:
    return shop.site.access.origin + shop.site.url(path)


@needs_chromium
@needs_axe
def test_each_page_passes_axe_in_both_widths_and_schemes_and_nothing_hostile_runs(
    shop: Shop, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ROWS_PER_PAGE", "CALLS_PER_PAGE"):  # axe looks at each cell
        monkeypatch.setattr(run_pages, name, 8)
    page = sign_in(browser, shop)
    tabs = [
        f"/runs/{shop.done}{tab}" for tab in ("", "/findings", "/change", "/timeline", "/journal")
    ]
    first_call = next(row.seq for row in shop.rows(LONG) if row.kind == "intent") + 1
    others = [f"/runs/{name}" for name in (CALLING, ASKING, shop.stopped)]
    others.append(f"/compare?run={shop.done}&run={shop.stopped}")
    odd = [
        f"/runs/{BROKEN}/journal",
        f"/runs/{LONG}/calls/{first_call}",
        "/statistics",
        "/memory",
        "/tuning",
        "/nothing",
    ]
    for path in ["/", *tabs, *others, *odd]:
        for look in page.looks(address(shop, path)):
            assert page.run("document.title").endswith(" · Diffcourt")
            assert page.overflow() == 0, (path, look)
            assert page.axe() == [], (path, look)
        wrong = [one for one in page.complaints() if "404" not in one]
        assert wrong == [], path


def test_runs_are_listed_with_what_is_wrong_with_one_and_filtered(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person = people()
    start = person.get("/").text
    for run_id in (shop.done, shop.stopped, CALLING, ASKING, BROKEN, LONG):
        assert f"/runs/{run_id}" in start
    assert f"diffcourt audit verify {BROKEN}" in start
    assert "<img" not in start
    assert "May old files be read?" in start
    assert f"/runs/{shop.done}" not in person.get("/?state=waiting&words=HEAD").text
    incomplete = person.get("/?verdict=incomplete").text
    assert (shop.stopped in incomplete, shop.done in incomplete) == (True, False)
    assert "No run matches" in person.get("/?branch=nothing").text


def test_a_broken_journal_names_the_row_and_its_pages_still_open(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person = people()
    journal = person.get(f"/runs/{BROKEN}/journal").text
    assert "The journal was altered" in journal
    assert "journal row 3" in journal
    whole = person.get(f"/runs/{shop.done}/journal").text
    assert f"hash chain of {len(shop.rows(shop.done)):,} rows holds" in whole
    assert person.get(f"/runs/{BROKEN}").status_code == 200


def test_a_run_of_5000_rows_is_shown_in_pages_of_bounded_size(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person = people()
    journal = person.get(f"/runs/{LONG}/journal?page=25").text
    assert journal.count("<tr>") == ROWS_PER_PAGE + 1
    assert "Page 25 of 25" in journal
    timeline = person.get(f"/runs/{LONG}/timeline?from=10&to=400&page=3").text
    assert timeline.count("<tr>") == CALLS_PER_PAGE + 1
    drawn = render_timeline(record := read_record("x", long_rows(20_000)), whole_window(record))
    assert drawn.count("<rect") < 20 * 300


def test_findings_are_shown_in_pages_and_a_link_opens_the_page_of_its_finding(
    shop: Shop, people: Callable[..., Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pages, "FINDINGS_PER_PAGE", 1)
    monkeypatch.setattr(findings_page, "LISTED_FROM", 2)
    person, path = people(), f"/runs/{shop.done}/findings"
    first = person.get(path).text
    assert re.findall(r'<article id="(\w+)"', first) == ["F1"]
    assert "Page 1 of 2" in first
    assert 'href="?at=F2#F2"' in first  # the list has all of them
    overview = person.get(f"/runs/{shop.done}").text
    (linked,) = re.findall(r"findings(\?at=F2)#F2", overview)
    second = person.get(path + linked).text
    assert re.findall(r'<article id="(\w+)"', second) == ["F2"]
    assert "Page 2 of 2" in second


def test_a_programs_run_is_approved_here_and_continued_by_its_program(
    shop: Shop, people: Callable[..., Person]
) -> None:
    async def copy(store: SqliteStore) -> None:
        meta: dict[str, Json] = {"kind": PROGRAM, "root": ""}
        await store.restore(RunMeta("case-7", 5.0, meta), shop.calling_rows)

    shop.store(copy)
    try:
        person = people()
        page = person.get("/runs/case-7").text
        assert "The run goes on when its program is started again." in page
        assert not re.search("Then continue the run|Not entered|Continue the run", page)
        (path,) = re.findall(r'action="[^"]*(/runs/case-7/calls/[^"]+/decide)"', page)
        page = person.post(path, decision="approve", resume="yes").text
        assert re.search("Approved by .*The run goes on when its program is started again", page)
        assert "being continued" not in page
        assert "when its program is started" in person.post("/runs/case-7/resume").text
    finally:
        shop.store(lambda store: store.forget("case-7"))


def test_the_change_is_shown_with_findings_at_its_lines_in_pages(
    shop: Shop, people: Callable[..., Person]
) -> None:
    text = people().get(f"/runs/{shop.done}/change").text
    assert text.count('class="cite"') == 2
    assert text.index("app.py") < text.index("Shell command built") < text.index("b.py")
    line = ExcerptLine("added", 0, 1, "x")
    sizes = (1_000, 600, 4_000, 1)
    files = [FileExcerpt(f"{n}.py", [line] * n) for n in sizes]
    assert [[len(file.lines) for file in page] for page in split_into_pages(files)] == [
        [1_000],
        [600],
        [4_000],
        [1],
    ]


def test_a_call_shows_its_request_and_its_result(shop: Shop, people: Callable[..., Person]) -> None:
    person = people()
    calls = CachedRunIndex([shop.repo.path])
    assert calls.find(shop.done).state == "finished"
    spans = read_record(shop.done, shop.rows(shop.done)).spans
    last = [span for span in spans if span.key.startswith("1/act/") and span.kind == "model"][-1]
    text = person.get(f"/runs/{shop.done}/calls/{last.row}").text
    for words in ("System prompt, role", "Brief", "Turn 1, result of", "Answer", "tools"):
        assert words in text
    assert person.get(f"/runs/{shop.done}/calls/1").status_code == 409
    assert person.get("/runs/20990101-000000-00000000").status_code == 404


@needs_chromium
def test_an_approval_by_keyboard_has_the_effect_once_and_the_other_is_told_who(
    shop: Shop, browser: Browser, people: Callable[..., Person]
) -> None:
    page, other = sign_in(browser, shop), people()
    page.open(address(shop, f"/runs/{CALLING}"))
    (approval,) = re.findall(r"/calls/(\w+)/decide", other.get(f"/runs/{CALLING}").text)
    assert "what it does cannot be undone" in page.run("document.body.innerText")
    page.run("document.querySelector('input[name=resume]').click()")
    page.run("document.querySelector('input[name=reason]').focus()")
    for key in ("O", "k", "Tab", "Tab", "Tab"):
        page.press(key)
    assert page.run("document.activeElement.innerText") == "Approve once"
    page.follow(lambda: page.press("Enter"))
    assert "Approved by" in page.text(".done")
    assert shop.waiting.sit().ok
    assert shop.waiting.tool.started
    # Their page has no script, so it still has the form.
    late = other.post(f"/runs/{CALLING}/calls/{approval}/decide", decision="deny").text
    assert "approved it at" in late
    assert "Not possible now" in late


def test_of_two_people_who_answer_one_wins_and_the_other_is_told_who(
    shop: Shop, people: Callable[..., Person]
) -> None:
    first, second, viewer = people(), people(), people(may_act=False)
    run_id, name = "20260101-000000-a1a1a1a1", "1/act/qa"
    shop.ask(run_id)
    path = f"/runs/{run_id}/answer"
    shown = viewer.get(f"/runs/{run_id}").text
    assert ("old files" in shown, "<form method" in shown) == (True, False)
    assert viewer.post(path, to=name, text="no").status_code == 403
    assert first.post(path, to=name, text=" ").status_code == 409
    assert "recorded" in first.post(path, to=name, text="Yes, until July.").text
    late = second.post(path, to=name, text="No.")
    assert late.status_code == 409
    assert "dana (through " in late.text
    assert "Yes, until July." in late.text


def test_a_granted_limit_continues_the_run_under_the_persons_name(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person = people()
    stopped = shop.review("--max-tool-calls", "2")
    assert person.post(f"/runs/{shop.done}/grant").status_code == 409
    assert person.post(f"/runs/{stopped}/grant", max_usd="-1").status_code == 409
    granted = person.post(f"/runs/{stopped}/grant", max_tool_calls="500").text
    assert "The run continues." in granted
    until = time.monotonic() + 60
    while "All planned checks ran" not in (text := person.get(f"/runs/{stopped}").text):
        assert time.monotonic() < until, text
        time.sleep(0.1)
    assert "dana (through " in text
    assert "max_tool_calls 500" in text


def test_a_late_or_empty_action_is_refused_with_a_message(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person = people()
    late = person.post(f"/runs/{shop.done}/calls/abc/decide", decision="approve")
    assert (late.status_code, "has ended" in late.text) == (409, True)
    grant = person.post(f"/runs/{shop.done}/grant", max_usd="9")
    assert (grant.status_code, "did not stop at a limit" in grant.text) == (409, True)
    resume = person.post(f"/runs/{shop.done}/resume")
    assert (resume.status_code, "is finished" in resume.text) == (409, True)
    cancel = person.post(f"/runs/{shop.done}/cancel")
    assert (cancel.status_code, "is not running" in cancel.text) == (409, True)
    override = person.post(f"/runs/{shop.done}/override", verdict="merge", reason="Known.")
    assert "Overridden to merge" in override.text
    assert "overridden" in person.get("/").text


def test_figures_alerts_and_metrics_are_those_of_the_command(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person = people()
    page = person.get("/statistics?days=").text
    assert BROKEN in page
    assert "are needed to know" in page
    metrics = person.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE diffcourt_" in metrics.text


def test_a_scraper_reads_the_metrics_and_nothing_else_by_its_token(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    access = Access("dana", metrics_token="0123456789abcdef")
    right = {"Authorization": "Bearer 0123456789abcdef"}
    with (
        running(Site(access, shop.site.parts)),
        httpx2.Client(base_url=access.origin, verify=PLAIN) as http,
    ):
        found = http.get("/metrics", headers=right)
        assert (found.status_code, "# TYPE diffcourt_" in found.text) == (200, True)
        assert "set-cookie" not in found.headers
        inside = [http.get(f"{access.prefix}{path}", headers=right) for path in ("/", "/metrics")]
        assert [one.status_code for one in inside] == [401, 401]
        assert http.post("/metrics", headers=right).status_code == 405
        assert http.get("/metrics").status_code == 401
        wrong = {"Authorization": "Bearer 0123456789abcdeF"}
        tried = [http.get("/metrics", headers=wrong).status_code for _ in range(TRIES + 1)]
        assert tried == [*[401] * TRIES, 429]
        signed_in = press_sign_in(http, access.new_link())
        assert signed_in.status_code == 303  # wrong tokens keep nobody with a link out
    with httpx2.Client(base_url=shop.site.access.origin, verify=PLAIN) as http:
        given = http.get("/metrics", headers={"Authorization": "Bearer"})
        assert given.status_code == 401  # no token is set, so none is right
    (tmp_path / "token").write_text("short\n")
    for file, why in (("token", "needs 16 ASCII characters"), ("none", "cannot be read")):
        assert main(["view", "--metrics-token-file", str(tmp_path / file)]) == 2
        assert why in capsys.readouterr().err


def test_the_rubric_in_use_is_shown_with_where_it_is_from_and_whether_that_still_holds(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person, overlay = people(), shop.repo.path / ".diffcourt"
    plain = person.get("/tuning").text
    assert "Written by hand" in plain
    assert "There is no <code>labels.jsonl</code>" in plain
    assert "diffcourt rubric tune pr-review items.jsonl" in plain
    tuned: dict[str, Json] = {
        "method": METHOD_THRESHOLD,
        "from": {"name": "pr-review", "version": 1},
        "counts": {"items": 40, "labels": 60, "groups": 9, "raters": 2},
    }
    rubric = read_rubric(data_root() / "rubrics/pr-review.yaml")
    digests = {"criteria": digest_criteria, "judge": digest_judge, "rule": digest_rule}
    tuned |= {name: compute(rubric) for name, compute in digests.items()}
    file, labels = overlay / "rubrics/pr-review.yaml", shop.repo.path / "labels.jsonl"
    file.parent.mkdir(parents=True)
    try:
        write_rubric(file, replace(rubric, version=2, provenance={"tuned": tuned}))
        write_labels(
            labels, [Label("x", "ana", "accept", drawn="random"), Label("x", "bo", "reject")]
        )
        whole = " ".join(person.get("/tuning").text.split())
        assert "on 60 labels of 40 items by 2 raters" in whole
        assert "Not stale" in whole
        assert "2</b> labels of 1 items by 2 raters" in whole
        assert "diffcourt rubric tune .diffcourt/rubrics/pr-review.yaml items.jsonl" in whole
        write_rubric(file, replace(rubric, threshold=0.1, provenance={"tuned": tuned}))
        assert "Stale: the weights or the threshold have been edited" in person.get("/tuning").text
    finally:
        file.unlink()
        labels.unlink()


def test_the_proposed_memory_is_the_patch_of_the_command(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person = people()
    assert "proposed from" in person.get("/memory").text
    patch = person.get("/memory/0/memory.patch")
    assert patch.headers["content-disposition"] == 'attachment; filename="memory.patch"'
    assert person.get("/memory/1/memory.patch").status_code == 409


def test_an_interrupted_run_shows_the_limits_of_its_base(
    shop: Shop, people: Callable[..., Person]
) -> None:
    async def cut(store: SqliteStore) -> None:
        run = next(run for run in await store.runs() if run.run_id == shop.done)
        rows = await store.rows(shop.done)
        await store.restore(RunMeta("20260101-000000-00000c07", 5.0, run.meta), rows[:40])

    shop.store(cut)
    text = people().get("/runs/20260101-000000-00000c07").text
    assert "of 400" in text
    assert "of $2.00" in text
    assert "Continue the run" in text


def test_a_dismissal_is_an_entry_of_the_file_that_the_command_writes(
    shop: Shop, people: Callable[..., Person]
) -> None:
    person, path = people(), f"/runs/{shop.done}/findings/F1/decide"
    assert person.post(path, decision="dismiss").status_code == 409
    done = person.post(path, decision="dismiss", reason="Run by hand only.", until="2099-01-31")
    assert "F1 is entered in .diffcourt/memory/dismissed.yaml" in done.text
    text = (shop.repo.path / ".diffcourt/memory/dismissed.yaml").read_text()
    assert 'why: "Run by hand only."' in text
    assert 'by: "dana"' in text
    again = person.post(path, decision="dismiss", reason="Again.", until="2099-01-31")
    assert (again.status_code, "has that dismissal already" in again.text) == (409, True)
    assert (
        "is entered in .diffcourt/waivers.yaml"
        in person.post(path, decision="waive", reason="Until July.").text
    )


@needs_chromium
def test_feedback_on_a_finding_is_shown_to_all_and_only_recorded(
    shop: Shop, browser: Browser, people: Callable[..., Person]
) -> None:
    viewer, path = people(may_act=False), f"/runs/{shop.done}/findings"
    digest = load_verdict(shop.repo.path, shop.done).digest
    page = sign_in(browser, shop)
    page.open(address(shop, path))
    page.click("#F1 button[value='not-useful']")
    assert "Recorded: F1 is not useful." in page.run("document.body.innerText")
    page.click("#F1 button[value='fixed']")
    assert page.run("document.querySelector('#F1 [aria-pressed=true]').innerText") == "fixed"
    shown = viewer.get(path).text
    assert ("Fixed, says dana (through " in shown, "<form" in shown) == (True, False)
    assert "F1 is not useful" in viewer.get(f"/runs/{shop.done}").text
    assert viewer.post(f"{path}/F1/say", said="useful").status_code == 403
    assert people().post(f"{path}/F1/say", said="great").status_code == 409
    assert load_verdict(shop.repo.path, shop.done).digest == digest


@needs_chromium
def test_a_bundle_is_one_page_with_what_the_run_did_and_is_refused_without_a_verdict(
    shop: Shop, browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, words = tmp_path / "run.html", ["view", "--repo", str(shop.repo.path), "--bundle"]
    assert main([*words, shop.done, str(file)]) == 0
    page = browser.new_page()
    for look in page.looks(file):
        assert page.overflow() == 0, look  # axe looks at the bundle of tests/web/test_call_pages.py
    text = page.run("document.body.innerText")
    assert "The hash chain of its" in text
    assert page.run("document.querySelectorAll('.lane rect.tool').length") > 5
    assert page.run("document.querySelectorAll('form, .lane a').length") == 0
    assert page.complaints() == []
    assert main([*words, ASKING, str(file)]) == 2
    assert "has no verdict yet" in capsys.readouterr().err


@needs_chromium
def test_the_list_changes_by_itself_when_a_journal_does(shop: Shop, browser: Browser) -> None:
    page = sign_in(browser, shop)
    page.open(address(shop, "/"))
    run_id = shop.review()
    page.run(
        "new Promise((done) => { const look = () => document.querySelector("
        f"\"a[href$='{run_id}']\") ? done() : setTimeout(look, 50); look(); }})"
    )
    assert page.complaints() == []
