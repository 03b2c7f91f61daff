"""Lines of an earlier security fix that a change takes out, and changes that only touch them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import to_builtins

from diffchecks import removed_controls as check
from diffchecks.check_io import RawFinding
from diffchecks.past_fixes import CANDIDATES, PastFix, classify_message
from diffchecks.removed_controls.removed_checks import LEADS
from tests.review.analyzers.rule_cases import rand

Compare = Callable[..., Any]

OPEN = "def read(name):\n    return open(ROOT / name)\n\n\ndef size(name):\n    return stat(ROOT / name)\n"
SAFE = OPEN.replace("ROOT / name", "ROOT / tidy(name)")
FIX = PastFix(
    path="a.py",
    commit="0123456789abcdef" * 2,
    date="2024-05-06",
    subject="Fix path traversal",
    statement="security",
    identifiers=("CVE-2021-12345",),
    added=("    return open(ROOT / tidy(name))", "    return stat(ROOT / tidy(name))"),
    removed=("    return open(ROOT / name)", "    return stat(ROOT / name)"),
)
WORD = PastFix(**{**to_builtins(FIX), "statement": "stricter", "subject": "Sanitize names"})


@pytest.fixture
def found(compare: Compare) -> Callable[..., list[RawFinding]]:
    """What a change of one file loses of a fix."""

    def run(base: str, head: str, fix: PastFix = FIX, **more: str) -> list[RawFinding]:
        replies = compare(check, {"a.py": base}, {"a.py": head, **more}, fixes=[fix])
        return [one for one in replies.findings if one.code == "fix-reverted"]

    return run


def test_a_fix_taken_back_is_one_finding_with_the_commit_where_the_first_line_was(found):
    (finding,) = found("\n" + SAFE, "\n" + OPEN)
    assert finding.message == (
        "Lines of a security fix are reverted: "
        '0123456789ab of 2024-05-06 "Fix path traversal" (CVE-2021-12345)'
    )
    assert finding.detail == (
        "lines that the commit added here and that are gone: 2; that it removed and that are back: 2"
    )
    assert (finding.line, finding.removed_path, finding.removed_line) == (3, "a.py", 3)
    assert finding.confidence == 0.9


@pytest.mark.parametrize(
    ("fix", "head"),
    [
        (FIX, SAFE.replace("open(ROOT / tidy(name))", "open(ROOT / name)")),
        (FIX, SAFE.replace("    return open(ROOT / tidy(name))\n", "    pass\n")),
        (WORD, OPEN),
    ],
    ids=["in part", "removed", "stricter"],
)
def test_a_part_of_a_fix_counts_and_so_does_a_stricter_check(found, fix, head):
    (finding,) = found(SAFE, head, fix)
    assert finding.line == 2
    assert finding.confidence == (0.9 if fix is FIX else 0.7)


def test_half_of_a_fix_counts_where_its_subject_names_the_defect(found):
    lines = [f"    check_{n}(name)" for n in range(6)]
    base = "def read(name):\n" + "\n".join([*lines, "    return open(name)\n"])
    head = base.replace("\n".join(lines[:3]) + "\n", "")
    for subject, told in {"Fix SSRF in names": 1, "Fix names\n\nSSRF is likely.": 0}.items():
        what = {"subject": subject, "statement": classify_message(subject)}
        fix = {**to_builtins(FIX), **what, "added": lines, "removed": ()}
        assert len(found(base, head, PastFix(**fix))) == told
    assert found(base, "def read(name):\n    return open(name)\n", PastFix(**fix))


@pytest.mark.parametrize(
    ("base", "head"),
    [
        (SAFE, SAFE + "\n\nLIMIT = 3\n"),
        (SAFE, SAFE.replace("tidy(name)", "tidy(name, ROOT)")),
        (SAFE, SAFE.replace("    return", "        return")),
        (SAFE, SAFE.split("\n\n\n")[1] + "\n\n" + SAFE.split("\n\n\n")[0] + "\n"),
        (OPEN, OPEN.replace("open(ROOT / name)", "open(ROOT / name, 'rb')")),
    ],
    ids=["untouched", "replaced", "indented", "moved", "gone before"],
)
def test_lines_that_stay_move_or_are_replaced_are_not_taken_back(found, base, head):
    assert found(base, head) == []


def test_another_way_to_import_is_no_fix_taken_back(found):
    fix = PastFix(
        **{**to_builtins(FIX), "added": ("var tidy = require('tidy')",), "removed": ("tidy = 0",)}
    )
    was = "var tidy = require('tidy')\nshow(tidy(name))\n"
    assert (
        found(was, was.replace("var tidy = require('tidy')", "import tidy from 'tidy'"), fix) == []
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('MAX_SIZE = "max_size"', False),
        ("MAX_SIZE = 4096", True),
        ("    largest: z.number().optional(),", False),
        ("    largest: z.number().max(9).optional(),", True),
        ('    :aria-pressed="isLargest"', False),
        ('    :title="escape(largest)"', True),
        ('    <item name="largest">4096</item>', False),
        ('    <largest name="item">4096</largest>', True),
    ],
)
def test_a_line_that_protects_nothing_is_no_fix_taken_back(found, line, told):
    fix = PastFix(**{**to_builtins(WORD), "subject": "Max size", "added": (line,), "removed": ()})
    assert bool(found(f"A = 1\n{line}\n", "A = 1\n", fix)) is told


def test_a_field_alone_is_no_fix_taken_back(compare):
    line = "    private boolean freed;"
    fix = PastFix(**{**to_builtins(FIX), "path": "A.java", "added": (line,), "removed": ()})
    files = ({"A.java": f"class A {{\n{text}}}\n"} for text in (f"{line}\n", ""))
    assert not compare(check, *files, fixes=[fix]).findings


def test_a_condition_that_the_fix_laid_out_in_one_line_is_taken_back(found):
    removed = ("    value = ((anyone or same(name))", "        and read(name))")
    added = ("    value = (same(name) and read(name))",)
    fix = PastFix(**{**to_builtins(FIX), "added": added, "removed": removed})
    was, head = ("\n".join(["def f(name):", *lines, ""]) for lines in (added, removed))
    assert found(was, head, fix)
    assert not found(was, head.replace("anyone", "nobody"), fix)


@pytest.mark.parametrize(
    ("path", "line", "later", "earlier"),
    [
        ("Gemfile", "gem 'mark', '~> 0.23'", "", "gem 'mark', '~> 0.22'"),
        ("go.mod", "\ta.b/net v0.17.0", "", "\ta.b/net v0.9.0"),
        ("package.json", '"lodash": "4.17.21",', '"private": true,', '"lodash": "4.17.3",'),
        ("requirements.txt", "jinja2>=3.1.4", "markup>=1.0", "jinja2>=3.1.3,<4"),
    ],
)
def test_a_requirement_of_a_fix_is_reverted_where_the_earlier_one_is_back(
    compare, path, line, later, earlier
):
    fix = PastFix(**{**to_builtins(FIX), "path": path, "added": (line,), "removed": (earlier,)})

    def codes(head: str) -> set[str]:
        files = ({path: f"{text}\n"} for text in (line, head))
        return {one.code for one in compare(check, *files, fixes=[fix]).findings}

    assert codes(later) == set()
    assert codes(earlier) == {"fix-reverted"}


def test_lines_that_move_to_another_file_are_not_taken_back(found):
    gone = "def read(name):\n    pass\n\n\ndef size(name):\n    pass\n"
    assert found(SAFE, gone, **{"b.py": SAFE}) == []
    assert found(SAFE, gone)


def test_a_fix_that_lives_on_in_another_file_in_other_words_is_not_taken_back(found):
    guard = "    owner = field(name, 'user_id')\n    if owner != me():\n        ensure_level(value('delete_files'))\n"
    fix = PastFix(**{**to_builtins(FIX), "added": tuple(guard.splitlines()), "removed": ()})
    was, command = f"def f(name):\n{guard}    drop(name)\n", "def f(name):\n    drop(name)\n"
    moved = guard.replace("owner", "who").replace("ensure_level", "require_level")
    assert found(was, command, fix, **{"b.py": f"def run(one):\n{moved}    drop(one)\n"}) == []
    assert found(was, command, fix, **{"b.py": "def run(one):\n    drop(one)\n"})
    assert found(was, command, fix, **{"b.md": moved})
    assert found(was, command, fix, **{"b.py": "".join(f"# {x}\n" for x in moved.splitlines())})


def test_a_stricter_check_that_was_mostly_rewritten_before_says_nothing(found):
    old = PastFix(**{**to_builtins(WORD), "added": (*WORD.added, "one = 1", "two = 2", "six = 6")})
    assert found(SAFE, OPEN, old) == []


def test_a_stricter_check_that_only_added_lines_is_reverted_where_all_of_them_go(found):
    lines = ("    if size(name) > MOST:", "        raise TooLarge(name)")
    fix = PastFix(**{**to_builtins(WORD), "added": lines, "removed": ()})
    was = "\n".join(["def read(name):", *lines, "    return open(name)", ""])
    now = "def read(name):\n    return open(name)\n"
    assert found(was, now, fix)
    assert found(was, was.replace("raise TooLarge(name)", "return shorten(name)"), fix) == []
    assert found(was, now.replace("    return", "    ensure_fits(name)\n    return"), fix) == []


def test_a_lost_declaration_of_a_fix_is_one_finding_that_names_the_commit(compare):
    was = "@login_required\ndef read(name):\n    return open(name)\n"
    fix = PastFix(**{**to_builtins(FIX), "added": ("@login_required",), "removed": ()})
    head = was.partition("\n")[2]
    (finding,) = compare(check, {"a.py": was}, {"a.py": head}, fixes=[fix]).findings
    assert finding.code == "access-control-removed"
    assert '"Fix path traversal"' in finding.detail
    assert finding.confidence == 0.9


def test_a_removed_check_of_a_fix_is_a_finding_and_no_lead(compare):
    guard = "def read(name):\n    if '..' in name:\n        raise Forbidden(name)\n    return open(name)\n"
    lines = ("    if '..' in name:", "        raise Forbidden(name)")
    fix = PastFix(**{**to_builtins(FIX), "added": lines, "removed": ()})
    head = "".join(line for line in guard.splitlines(keepends=True) if line[:-1] not in lines)
    (finding,) = compare(check, {"a.py": guard}, {"a.py": head}, fixes=[fix]).findings
    assert finding.code == "fix-reverted"


def test_a_subject_is_shown_on_one_line_in_part_and_without_secrets(found):
    secret = f"ghp_{rand(36)}"
    subject = f"Fix XSS, token={secret}\x1b[31m\r\u202e" + "x" * 300
    fix = PastFix(**{**to_builtins(FIX), "subject": subject, "identifiers": ()})
    (finding,) = found(SAFE, OPEN, fix)
    assert secret not in finding.message
    assert finding.message.isprintable()
    assert len(finding.message) < 200


@pytest.mark.parametrize(
    ("message", "statement"),
    [
        ("Fix path traversal in uploads", "security"),
        ("Use the other parser\n\nThis is CVE-2021-12345.", "security"),
        ("XSS injection via a file's name", "security"),
        ("SQL injection in the search", "security"),
        ("Out-of-bounds read in the parser", "security"),
        ("SQL in migrations", None),
        ("Fix use-after-free in drop", "security"),
        ("Add XSS filter", "security"),
        ("Fix: pages are visible to users without permissions", "security"),
        ("Check if the user has the permission to add notes", "stricter"),
        ("Add more XSS HTTP headers", "security"),
        ("[SECURITY-624] Stored XSS in tool names", "security"),
        ("Fix missing authorization check of retention", "security"),
        ("exists() should check read ACL permission", "security"),
        ("Require the same permissions as in the page", "stricter"),
        ("Add missing check() calls", None),
        ("Disable the default CSRF protection.", None),
        ("Allow disabling CSRF, fixes #6739", None),
        ("Make the check of CSRF tokens optional", None),
        ("Add an option to turn off escaping against XSS", None),
        ("Fix: do not allow disabling of CSRF checks", "security"),
        ("core: optimize block validation", None),
        ("fix: revert socket validation to a timer to prevent a stall", None),
        ("Chat privilege checkbox", None),
        ("Fix privilege escalation in tokens", "security"),
        ("Similar change for restrictedUserAgents", None),
        ("Remove unnecessary escaping checks to prevent XSS", "security"),
        ("Injection of values via the constructor", None),
        ("Merge pull request from GHSA-2345-6789-cfgh", "security"),
        ("Merge commit from fork", "security"),
        ("Merge branch 'master' into unauthorized-exception", None),
        ("Merge branch 'xss-in-titles' into main", "security"),
        ("fix(security): look at links", "security"),
        ("Limit the size of a request\n\nAnybody could cause a denial of service.", "stricter"),
        ("Fix the size of a request\n\nUntrusted input may be large.", "stricter"),
        ("Fix the size of a request\n\nInput may be large.", None),
        ("Handle requests without a digest\n\nUntrusted devices send one.", None),
        ('Revert "Revert "Fix XSS in titles""', "security"),
        ("Escape titles", "stricter"),
        ("Validate the host name", "stricter"),
        ('Revert "Fix XSS in titles"', None),
        ("Bump requests to fix CVE-2021-12345", None),
        ("Add dependency injection", None),
        ("Update a/jwt-go to v4\n\nIts old version has CVE-2020-26160.", None),
        ("Update the parser to fix CVE-2021-12345", "security"),
        ("Rule methods on the base class should be protected. Expose others.", None),
        ("Make IsValid protected", None),
        ("Admin pages should be protected", "stricter"),
        ("Ensure rules don't bypass the accessor cache", None),
        ("Ensure rules don't bypass the login", "security"),
        ("Fix OOB access in the decoder", "security"),
        ("bgp: fix uint16 underflow of the length", "security"),
        ("fix parser to check the input length", "security"),
        ("Catch buffer overruns in the decoder", "security"),
        ("Fix slice out of bounds panic", "security"),
        ("Add bounds checks to peek", "security"),
        ("Eliminate bounds checks in the inner loop", None),
        ("ESP: Delete a useless custom bounds check", None),
        ("Fix overflow of the text in a cell", None),
        ("Unbounded read in forms can exhaust memory", "security"),
        ("Fix types of unbounded channels", None),
        ("Avoid merging properties on to __proto__ objects.", "security"),
        ("fix: token invalidation after password change", "security"),
        ("Fix the session list after a new deployment", None),
        ("Add missing permissions on endpoints", "security"),
        ("sec(api): a check of names", "security"),
        ("sec: append no variables of the session", "security"),
        (":lock: Arbitrary file reading vulnerability", "security"),
        (":lock: Show the notebook's sign", None),
        ("fix: names\n\nhttps://hackerone.com/reports/2509647", "security"),
        ("Remove image URLs\n\nReported as GHSL-2021-1038", "security"),
        ("limit maximum output from decompressing", "stricter"),
        ("only relative paths should be allowed", "stricter"),
        ("backport origin check for requests", "stricter"),
        ("Apply a blacklist of addresses", "stricter"),
        ("Add more tests of XSS filters", None),
        ("Add tests and fix XSS filters", "security"),
        ("Update sanitization.md", None),
        ("Add a deprecation warning of validation", None),
        ("fix(web): restrict parser to <4.1.2", None),
        ("Restrict names to 4 letters", "stricter"),
        ("Set the max line length to 120", None),
        ("Limit the command line length", "stricter"),
        ("Increase the maximum length of names", None),
        ("Protect the map with a mutex", None),
        ("Protect the map from guests", "stricter"),
        ("Validate after pressing Escape", None),
        ("build: symlink the images to the root", None),
        ("Follow no symlink to the root", "stricter"),
        ("fix: prevent layout shift", None),
        ("fix: prevent duplicate names", None),
        ("fix: prevent duplicate host headers", "stricter"),
        ("Rename a variable", None),
        ("", None),
    ],
)
def test_a_message_says_whether_its_commit_fixes_a_security_defect(message, statement):
    assert classify_message(message) == statement
    candidates = CANDIDATES.replace("[:alpha:]", "a-z")  # git's own syntax
    assert statement is None or re.search(candidates, message, re.IGNORECASE)


def test_a_longer_expression_near_by_still_has_the_fix(found):
    safe = "def f():\n    if a():\n        return 1\n    elif tidy():\n        return tidy()\n    else:\n        return raw()\n"
    longer = "def f():\n    if a():\n        return 1\n    else:\n        return tidy() or raw()\n"
    weaker = safe.replace("elif tidy()", "elif tidy() or True")
    gone = "def f():\n    if a():\n        return 1\n    else:\n        return raw()\n"
    fix = PastFix(**{
        **to_builtins(FIX),
        "added": ("    elif tidy():", "        return tidy()"),
        "removed": ("    elif raw():", "        return raw()"),
    })  # fmt: skip
    assert found(safe, longer, fix) == []
    assert found(safe, gone, fix)
    assert weaker != safe


def test_two_commits_reverted_in_one_file_are_two_findings(compare: Compare) -> None:
    fixes = [
        PastFix(**{**to_builtins(FIX), "commit": f"{n}" * 40, "added": (line,), "removed": (old,)})
        for n, (line, old) in enumerate(zip(FIX.added, FIX.removed, strict=True))
    ]
    replies = compare(check, {"a.py": SAFE}, {"a.py": OPEN}, fixes=[*fixes, WORD])
    assert [(one.code, one.line) for one in replies.findings] == [
        ("fix-reverted", 2),
        ("fix-reverted", 6),
    ]


def test_one_commit_reverted_in_several_files_is_one_finding(compare: Compare) -> None:
    names = ("a.py", "b.py", "c.py")
    fixes = [PastFix(**{**to_builtins(FIX), "path": name}) for name in names]
    replies = compare(check, dict.fromkeys(names, SAFE), dict.fromkeys(names, OPEN), fixes=fixes)
    (finding,) = [one for one in replies.findings if one.code == "fix-reverted"]
    assert finding.detail.endswith("also at b.py:2, c.py:2")


def test_a_fix_that_only_laid_other_lines_out_differently_is_what_it_added(found):
    was = "    return Bad(f'Invalid: {error}.')"
    now = [
        "    return Bad(",
        "        f'Invalid: {error}.',",
        "        kind='text/plain',",
        "    )",
    ]
    fix = PastFix(**{**to_builtins(FIX), "added": tuple(now), "removed": (was,)})
    base = "\n".join(["def view(error):", *now, ""])
    assert found(base, base.replace("        kind='text/plain',\n", ""), fix)
    assert not found(base, base.replace("        f'Invalid", "        f'Wrong"), fix)


def test_a_parameter_that_is_no_longer_mutable_takes_no_fix_back(found):
    added = tuple(line.replace("(name", "(&mut name") for line in FIX.added)
    fix = PastFix(**{**to_builtins(FIX), "added": added})
    base = SAFE.replace("tidy(name", "tidy(&mut name")
    assert not found(base, base.replace("mut ", ""), fix)
    assert found(base, OPEN, fix)


ACTION = (
    "@app.post('/drop')\ndef drop(request):\n    if not valid('item.drop', request.token):\n"
    "        return refuse(request)\n    remove(request.item)\n"
)
ASKS = PastFix(
    **{
        **to_builtins(FIX),
        "added": (
            "    if not valid('item.drop', request.token):",
            "        return refuse(request)",
        ),
        "removed": (),
    }
)
BARE = "{% set a = actions(user, {'item': item}) %}\n"
PAGE = "{% set a = actions(user, {'item': item, 'token': csrf_token('item.drop')}) %}\n"
SENDS = PastFix(
    **{**to_builtins(FIX), "path": "a.html", "added": (PAGE[:-1],), "removed": (BARE[:-1],)}
)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("", 0),  # with what it guarded
        (ACTION.replace(ASKS.added[0] + "\n" + ASKS.added[1] + "\n", ""), 1),
    ],
)
def test_a_check_that_goes_with_its_whole_function_takes_no_fix_back(found, head, told):
    assert len(found("import app\n\n\n" + ACTION, "import app\n\n\n" + head, ASKS)) == told


def test_a_function_that_checks_for_others_is_no_whole(found):
    guard = (
        "def ask(request):\n    if not request.user.is_owner:\n        raise Refused(request)\n\n\n"
    )
    view = "def show(request):\n    ask(request)\n    return page(request)\n"
    added = ("def ask(request):", "    if not request.user.is_owner:", "    ask(request)")
    fix = PastFix(**{**to_builtins(FIX), "added": added, "removed": ()})
    assert len(found(guard + view, view.replace("    ask(request)\n", ""), fix)) == 1


@pytest.mark.parametrize(("head", "told"), [("import app\n", 0), ("import app\n" + ACTION, 1)])
def test_a_token_goes_from_the_page_when_nothing_asks_for_it(compare, head, told):
    base = {"a.py": "import app\n" + ACTION, "a.html": PAGE}
    reply = compare(check, base, {"a.py": head, "a.html": BARE}, fixes=[SENDS])
    assert len([one for one in reply.findings if one.code == "fix-reverted"]) == told


HELPERS = [
    ("a.php", "<?= form_input(['name' => 'a',\n    'value' => {}]) ?>", "esc($name)", "$name"),
    ("a.rb", "def f\n  content_tag(:p, {})\nend", "html_escape(name)", "name"),
    ("a.php", "<?= Html::textInput('a', {}) ?>", "Html::encode($name)", "$name"),
    ("a.py", "def f(name):\n    get(URL, params={{'q': {}}})", "quote(name)", "name"),
    ("a.js", "url.searchParams.set('q', {});", "encodeURIComponent(name)", "name"),
    ("a.go", 'func f() {{\n\tquery.Set("q", {})\n}}', "url.QueryEscape(name)", "name"),
    ("a.rb", "def f\n  link_to(name, {})\nend", "url_encode(name)", "name"),
    ("a.vue", "<template><p>{{{{ {} }}}}</p></template>", "escapeHtml(name)", "name"),
]


@pytest.mark.parametrize(("path", "text", "was", "now"), HELPERS)
def test_an_escape_that_goes_where_a_helper_makes_it_is_no_fix_taken_back(
    compare: Compare, path: str, text: str, was: str, now: str
) -> None:
    def codes(frame: str) -> list[str]:
        old, new = (frame.format(value).splitlines() for value in (was, now))
        lines = [
            tuple(line for line in one if line not in other)
            for one, other in ((old, new), (new, old))
        ]
        fix = PastFix(path, "0" * 40, "2024-05-06", "Fix XSS", "security", (), *lines)
        base, head = ({path: "\n".join([*side, ""])} for side in (old, new))
        found = compare(check, base, head, fixes=[fix]).findings
        return [one.code for one in found if one.code not in LEADS]

    assert bool(codes(text)) == ("link_to" in text)  # which escapes markup, not addresses
    as_markup = {"a.rb": "{}.html_safe", "a.vue": "{}|safe"}
    assert path not in as_markup or codes(text.replace("{}", as_markup[path]))
    assert codes("<p><?= {} ?></p>" if path == "a.php" else "write({})")
    assert codes(text.replace("{}", "'/a/' + {}")) or not path.endswith((".py", ".js", ".go"))


def test_a_module_whose_name_is_a_security_word_is_no_stricter_check(found):
    what = {"subject": "Fix authorization storage", "statement": "stricter"}
    old, new = "  rows.insertOne(row, done)\n", "  rows.insert(row, done)\n"
    check_ = "  if row.owner != user:\n"
    for added, removed, told in ((old, new, 0), (check_, "", 1)):
        sides = {"added": added.splitlines(), "removed": removed.splitlines()}
        fix = PastFix(**{**to_builtins(FIX), **what, **sides})
        assert len(found(f"A = 1\n{added}", f"A = 1\n{removed}", fix)) == told
