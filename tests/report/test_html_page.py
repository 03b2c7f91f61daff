"""The verdict as a page: whole, safe against hostile text, and run in a real browser where one is."""

import base64
import hashlib
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from diffchecks.check_io import FlowStep
from orchestrator.app.finding_excerpts import ExcerptLine, read_excerpts
from orchestrator.app.run_review import run_review
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.verdict.document_parts import AgentReport
from orchestrator.code_review.verdict.model import CriterionScore, ReviewScore, Skipped, Verdict
from orchestrator.report.formats import FormatInputs, render_format
from tests.report.test_formats import hostile
from tests.report.verdict_samples import PATCH, finding, fixed, verdict
from tests.review.review_kit import Repo

ATTACK = "</script></style><script>document.title='pwned'</script><img src=x onerror=alert(1)>\"'"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Outline(HTMLParser):
    """The elements of a page, and the attributes that could fetch or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.risky: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in {"src", "style"}:
                self.risky.append(name)
            if name == "href" and not (value or "").startswith("#"):
                self.risky.append(f"href {value}")
            if name == "id":
                self.ids.append(value or "")


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    return parser


def render(given: Verdict, **sources: object) -> str:
    return render_format("html", given, FormatInputs(**sources))  # type: ignore[arg-type]


def attacked() -> Verdict:
    """A verdict in which every text tries to run something."""
    bad = finding(
        1,
        title=ATTACK,
        detail=ATTACK,
        fix_suggestion=ATTACK,
        path=f"src/{ATTACK}.py",
        rule="x.y",
        reported_by=(ATTACK,),
        steps=(FlowStep(ATTACK, 1, ATTACK),),
    )
    return verdict(
        run_id=ATTACK,
        lead_summary=ATTACK,
        reasons=(ATTACK,),
        findings=(bad, finding(2, state="waived", waiver=ATTACK)),
        agents=(AgentReport(agent=ATTACK, iteration=1, status="ok", summary=ATTACK),),
        score=ReviewScore(
            total=0.5,
            threshold=0.8,
            criteria=(CriterionScore(id=ATTACK, kind="judged", weight=1, score=0.5, why=ATTACK),),
        ),
    )


@pytest.mark.parametrize("make", [attacked, hostile, verdict])
def test_nothing_of_a_verdict_becomes_markup(make: object) -> None:
    given = make()  # type: ignore[operator]
    lines = [ExcerptLine("added", 0, 42, ATTACK), ExcerptLine("same", 1, 43, "x = 1\udcff\x1b[0m")]
    found = outline(render(given, excerpts={"F1": lines}))
    assert found.risky == []
    assert found.tags.count("script") == 1
    assert found.tags.count("style") == 1
    assert "img" not in found.tags
    assert len(found.ids) == len(set(found.ids))


def test_the_policy_lets_only_our_own_script_and_style_run() -> None:
    page = render(verdict())
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for tag in ("script", "style"):
        body = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert "http" not in re.sub(r'http-equiv="', "", page)


def test_the_page_has_the_code_around_a_finding_from_the_commits(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    token = "ghp_" + "a8Bd0Kq2Zr5Tx7Wm1Nc4Vf6Hj9Ls3Py0Ge2u"
    repo.commit({"app.py": "import subprocess\n\n\ndef run(x):\n    return x\n"})
    repo.commit({"app.py": f"import subprocess\n\nT = '{token}'\n\ndef run(x):\n"
                           "    subprocess.run(x, shell=True)\n"})  # fmt: skip
    options = ReviewOptions(repo=repo.path, base="HEAD~1", no_cache=True)
    given = run_review(options, lambda event: None)
    excerpts = read_excerpts(repo.path, given)
    shell = next(one for one in given.findings if one.rule == "security.subprocess-shell")
    lines = excerpts[shell.id]
    assert [(line.kind, line.old, line.new) for line in lines][-2:] == [
        ("removed", 5, 0),
        ("added", 0, 6),
    ]
    page = render(given, excerpts=excerpts)
    assert '<tr class="cite">' in page
    assert '<tr class="del">' in page
    assert token not in page
    assert "[redacted]" in page
    other = Repo(tmp_path / "other")
    other.commit({"a": ""})
    assert read_excerpts(other.path, given) == {}


def test_thousands_of_findings_make_a_page_of_bounded_size() -> None:
    many = tuple(finding(number, detail="x" * 200) for number in range(1, 5_101))
    page = render(verdict(findings=many))
    assert page.count("<article") == 5_000
    assert "100 more are in the verdict" in page
    assert len(page) < 12_000_000


def luminance(color: str) -> float:
    """That of WCAG 2, of ``#rgb`` or ``#rrggbb``."""
    digits = color[1:] if len(color) == 7 else "".join(2 * one for one in color[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", [0, 1])
def test_code_of_every_kind_can_be_read_on_every_line(scheme: int) -> None:
    roots = re.findall(r":root \{(.*?)\}", render(verdict()), re.DOTALL)
    colors = dict(re.findall(r"--([\w-]+): (#\w+);", roots[scheme]))
    for front in ("ink", "soft", "k", "s", "c", "n", "f"):
        for back in ("card", "added", "removed", "cited"):
            low, high = sorted(luminance(colors[name]) for name in (front, back))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (front, back)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium; apt-get install chromium")
def test_a_browser_runs_our_script_and_nothing_of_the_verdict(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    file = tmp_path / "page.html"
    file.write_text(render(attacked()), encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert '<html lang="en" class="script">' in done.stdout
    assert "1 of 1 findings" in done.stdout
    assert "<title>pwned" not in done.stdout


def test_an_incomplete_review_is_said_at_the_top_and_its_gaps_are_joined_by_reason() -> None:
    gaps = [Skipped(path="a.py", why="no parse", tool=tool, gap=True) for tool in ("ruff", "taint")]
    page = render(verdict(status="incomplete", skipped=(*gaps,)))
    header, _, rest = page.partition("</header>")
    assert "<b>Review incomplete</b>: 2 gaps." in header
    assert rest.count("not reviewed by") == 1
    assert "not reviewed by ruff, taint: no parse" in rest
    assert "Review incomplete" not in render(verdict())


def test_a_patch_stands_under_its_finding_with_its_state_and_who_proved_it() -> None:
    given = verdict(findings=(fixed(1), fixed(2, state="applies"), fixed(3, state="refused")))
    page = render(given)
    words = unescape(re.sub(r"<[^>]+>", "", page))
    assert page.count('aria-label="Patch of F') == 3
    assert page.count('<tr class="del"><td class="n">42</td><td class="n"></td>') == 3
    assert page.count('<tr class="add"><td class="n"></td><td class="n">42</td>') == 3
    assert "patch verifiedby ruff_bugs, parse_check diffcourt fix F1" in words
    assert "patch appliesnot proven to fix it: it brings another defect diffcourt fix F2" in words
    assert "diffcourt fix F3" not in words
    assert "+     run(['convert', name])" in words


@pytest.mark.parametrize("patch", [ATTACK, "\ud800", PATCH.replace("+    run", f"+    {ATTACK}")])
def test_no_patch_runs_or_fetches_anything(patch: str) -> None:
    page = render(verdict(findings=(fixed(1, patch=patch), fixed(2, patch=patch, state="refused"))))
    page.encode()
    clean = outline(render(verdict(findings=(fixed(1), fixed(2, state="refused")))))
    found = outline(page)
    assert found.risky == clean.risky
    assert set(found.tags) <= set(clean.tags)
    assert found.tags.count("script") == clean.tags.count("script")
