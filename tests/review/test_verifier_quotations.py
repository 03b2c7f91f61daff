"""Which quotations of the verifier connect with a claim's place."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.code_review.agent_report_contracts import VerifierReport, as_form
from orchestrator.code_review.findings.verification import (
    as_lines,
    check_verdicts,
    renamed_parameters,
)
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.model import Evidence
from tests.review.review_kit import change, workspace_of
from tests.review.test_verifier import (
    ALONE,
    BASE,
    HARM,
    HEAD,
    LEADS,
    ONE,
    PLACE,
    RETURN,
    verdict_on,
)

PARTS = {
    **HEAD,
    "store.go": (
        "type Store struct {\n\tLabel string\n}\n\n"
        "func (s *Store) Save(ctx Context, data Row) error {\n"
        "\t// the rest is read\n"
        "\tif err := drain(ctx, data); err != nil {\n\t\treturn emptyRow\n\t}\n"
        "\tfor _, key := range s.Fields() {\n\t\twrite(key)\n\t}\n\treturn nil\n}\n\n"
        'func (s *Store) Fields() []string {\n\treturn []string{"size", "limit"}\n}\n\n'
        "func (s *Store) retry(err error) error {\n\treturn s.Save(again, last)\n}\n"
    ),
    "api.go": (
        "var Stores []*Store\n\nfunc other(ctx Context, err error) Row {\n\treturn emptyRow\n}\n\n"
        "func run(ctx Context, data Row) error {\n\treturn nil, err\n}\n\n"
        "func serve() {\n\terr := stores.retry(nil)\n\tuse(data, err, ctx, key)\n}\n"
    ),
    "app.ts": (
        "class App {\n  add() {\n    this.clear();\n  }\n\n  clear() {\n"
        "    this.all.forEach((one) => {\n      drop(one);\n    });\n  }\n\n  close(\n    wanted,\n  ) {\n"
        "    if (\n      wanted\n    ) {\n      stop();\n    }\n  }\n}\n"
    ),
    "web.py": (
        "@route\n@cached\ndef pages():\n    return 1\n\n\n"
        "def menu(self, name):\n    if self.data:\n        return None\n    return name\n"
    ),
    "shop.rb": (
        "class Shop\n  def put\n    if @row[:source]\n      put_file\n    end\n  end\n\n"
        "  def put_file\n    system '-S'\n  end\nend\n"
    ),
    "send.js": "function sum(rows) {\n  const value = rows.pop();\n  log();\n  send(value);\n}\n",
    "net.c": (
        "static void drop(int fd)\n{\n\tif (fd) {\n\t\tCHECK(query(fd));\n\t\trelease(table[fd]);\n\t}\n}\n\n"
        "static void stop(int fd)\n{\n\tclose(fd);\n}\n"
    ),
    "web.yaml": "limits:\n  # seconds\n  timeout: 3\n  retries: 4\n",
    "load.py": "use(settings['retries'])\nclose()\npages()\nself.name = name\n",
}  # fmt: skip
CONNECTED = {
    "a comment stands for the statement below it": ("store.go", 6, "confirmed", ("api.go", "return emptyRow")),
    "a field is part of a type": ("store.go", 2, "confirmed", ("api.go", "var Stores []*Store")),
    "a function lacks what its callee lists": ("store.go", 11, "confirmed", ("store.go", 'string{"size", "limit"}')),
    "a caller of its caller": ("store.go", 13, "confirmed", ("api.go", "stores.retry(nil)")),
    "a call without parentheses or receiver": ("shop.rb", 9, "confirmed", ("shop.rb", "if @row[:source]\n      put_file")),
    "a callback in what it calls": ("app.ts", 3, "confirmed", ("app.ts", "drop(one);")),
    "a condition of several lines": ("app.ts", 18, "confirmed", ("load.py", "close()")),
    "a variable of its function, whatever its name": ("send.js", 4, "confirmed", ("send.js", "const value = rows.pop();")),
    "one with a short name": ("net.c", 5, "confirmed", ("net.c", "CHECK(query(fd));")),
    "a decorator": ("web.py", 1, "confirmed", ("load.py", "pages()")),
    "the condition of a line that names nothing": ("web.py", 9, "confirmed", ("web.py", "if self.data:")),
    "settings beside it": ("web.yaml", 3, "confirmed", ("load.py", "settings['retries']")),
    "the group of settings stops it": ("web.yaml", 2, "refuted", ("load.py", "settings['retries']")),
}  # fmt: skip
TRIVIAL = {
    "err, ctx and data": ("store.go", 7, ("api.go", "use(data, err, ctx, key)")),
    "nil and err": ("store.go", 13, ("api.go", "return nil, err")),
    "fd of another function": ("net.c", 5, ("net.c", "close(fd);")),
    "key": ("store.go", 11, ("api.go", "use(data, err, ctx, key)")),
    "self and name": ("web.py", 10, ("load.py", "self.name = name")),
    "None": ("web.py", 9, ("load.py", "self.name = name")),
}


async def judged(
    workspace: ReviewWorkspace, given: tuple[str, int, str, tuple[str, str]], **more: object
) -> list[str]:
    """Why a verdict on a line does not count that quotes that line, or code below it, and another."""
    path, line, verdict, (file, quote) = given
    own = next(
        one.strip() for one in PARTS[path].split("\n")[line - 1 :] if one.strip()[:1] not in "#/@"
    )
    claim = replace(PLACE, path=path, start_line=line, end_line=line, evidence=Evidence(own, ()))
    quotes = [{"file": path, "quote": own}, {"file": file, "quote": quote}]
    report = as_form(VerifierReport, {"verdicts": [verdict_on("F1", verdict, *quotes, **more)]})
    return as_lines((await check_verdicts(workspace, report, {"F1": claim}))[1])


async def test_quotations_connect_by_what_a_place_is_in_calls_and_is_called_by(
    tmp_path: Path,
) -> None:
    async with workspace_of(change(tmp_path, BASE, PARTS)) as workspace:
        assert {name: await judged(workspace, one) for name, one in CONNECTED.items()} == {
            name: [] for name in CONNECTED
        }


@pytest.mark.attack("verifier that quotes code which shares only a trivial name")
async def test_names_that_nearly_every_function_has_connect_nothing(tmp_path: Path) -> None:
    async with workspace_of(change(tmp_path, BASE, PARTS)) as workspace:
        for path, line, quote in TRIVIAL.values():
            for verdict in ("confirmed", "refuted"):
                (why,) = await judged(workspace, (path, line, verdict, quote))
                assert "no name" in why or "no other quotation shares a name" in why


async def test_a_comment_or_an_unconnected_quotation_does_not_undo_what_is_shown_without(
    tmp_path: Path,
) -> None:
    trivial = {"file": "load.py", "quote": "self.name = name"}
    comment = {"file": "web.yaml", "quote": "# seconds"}
    why = f"verdict on F1: no other quotation shares a name with web.py:10; {ALONE}"
    async with workspace_of(change(tmp_path, BASE, PARTS)) as workspace:
        place = ("web.py", 10, "confirmed", ("web.yaml", "timeout: 3"))
        assert await judged(workspace, place) == [why]
        assert await judged(workspace, place, one_place="Nothing is checked.") == []
        given = verdict_on("F1", "confirmed", HARM, LEADS, comment, trivial)
        report = as_form(VerifierReport, {"verdicts": [given]})
        assert as_lines((await check_verdicts(workspace, report, {"F1": PLACE}))[1]) == []
        # What names nothing is not shown by something else that does.
        given = verdict_on("F2", "confirmed", RETURN, trivial, one_place="See.")
        report = as_form(VerifierReport, {"verdicts": [given]})
        (why,) = as_lines((await check_verdicts(workspace, report, {"F2": ONE}))[1])
        assert why.endswith("its quotation names nothing, and so shows nothing alone")


REPLACED = "def text_of(node):\n    first = node.children[0]\n    return first.text\n"
OLD = {"tree.py": REPLACED, "page.py": "title = page.top\nbelow = page.heading\n"}
NEW_CODE = {
    "return node.firstChild.text": "",
    "return node.heading.text": "heading",  # base has it
    "return render(node.text)": "render",  # base calls nothing there
}


@pytest.mark.attack("verifier that calls a new defect old")
@pytest.mark.parametrize(("code", "lacks"), NEW_CODE.items())
async def test_base_need_not_have_names_that_the_change_brings_into_code_that_it_replaces(
    tmp_path: Path, code: str, lacks: str
) -> None:
    head = {"tree.py": f"def text_of(node):\n    {code}\n", "page.py": "below = page.heading\n"}
    place = replace(PLACE, path="tree.py", start_line=2, end_line=2, evidence=Evidence(code, ()))
    async with workspace_of(change(tmp_path, OLD, head)) as workspace:
        for file, quote, lacking in (
            ("tree.py", "return first.text", lacks),
            (
                "tree.py",
                "def text_of(node):",
                lacks or "firstChild",
            ),  # which the change does not replace
            (
                "page.py",
                "title = page.top",
                lacks or "firstChild",
            ),  # and this is in another function
        ):
            given = verdict_on("F1", "older", {"file": file, "quote": quote})
            report = as_form(VerifierReport, {"verdicts": [given]})
            whys = as_lines((await check_verdicts(workspace, report, {"F1": place}))[1])
            why = f"verdict on F1: its quotations lack {lacking}"
            assert [one.partition(",")[0] for one in whys] == ([why] if lacking else [])


LOOPS = {
    "users.each do |member|\n  bill member": "users.map { |user| bill user }",
    "for (const member of users) {\n  bill(member);": "users.forEach((user) => bill(user));",
    "for _, member := range users {\n\tbill(member)": "for _, user := range users {\n\tbill(user)",
    "foreach ($users as $at => $member) {\n  bill($member);": "foreach ($users as $user) {\n  bill($user);",
    "for (User member : users) {\n  bill(member);": "users.stream().map(user -> bill(user));",
}  # fmt: skip


@pytest.mark.attack("verifier that calls a new defect old")
@pytest.mark.parametrize(("code", "base"), LOOPS.items())
async def test_a_loop_of_base_may_call_its_elements_otherwise_and_other_code_may_not(
    tmp_path: Path, code: str, base: str
) -> None:
    place = replace(PLACE, path="a.x", start_line=1, end_line=2, evidence=Evidence(code, ()))
    rest = "\n\nusers.map(&:bill)\n"
    given = [
        verdict_on("F1", "older", {"file": "a.x", "quote": quote})
        for quote in (base, "users.map(&:bill)")
    ]
    reports = [as_form(VerifierReport, {"verdicts": [one]}) for one in given]
    async with workspace_of(
        change(tmp_path, {"a.x": base + rest}, {"a.x": code + rest})
    ) as workspace:
        whys = [
            as_lines((await check_verdicts(workspace, one, {"F1": place}))[1]) for one in reports
        ]
    assert whys[0] == []
    assert "lack" in whys[1][0]


async def test_names_of_a_base_that_cannot_be_searched_stay_missing(tmp_path: Path) -> None:
    code = "return node.firstChild.text"
    head = {"tree.py": f"def text_of(node):\n    {code}\n"}
    place = replace(PLACE, path="tree.py", start_line=2, end_line=2, evidence=Evidence(code, ()))
    repo = change(tmp_path, {**OLD, "zoo/other.py": "X = 1\n"}, head)
    given = verdict_on("F1", "older", {"file": "tree.py", "quote": "return first.text"})
    report = as_form(VerifierReport, {"verdicts": [given]})
    async with workspace_of(repo) as workspace:
        assert not as_lines((await check_verdicts(workspace, report, {"F1": place}))[1])
        oid = repo.git("rev-parse", "HEAD:zoo").strip()
        (tmp_path / ".git/objects" / oid[:2] / oid[2:]).unlink()
        (why,) = as_lines((await check_verdicts(workspace, report, {"F1": place}))[1])
    assert "lack firstChild" in why


PAY = (
    "def pay(user, mode=SAFE):\n"
    "    check(user) or fail()\n"
    "    total = user.debt\n"
    "    charge(user, total)\n"
)


@pytest.mark.attack("verifier that calls a new defect old")
@pytest.mark.parametrize(
    ("head", "names"),
    [
        (PAY.replace("user", "payer"), {"payer"}),
        (PAY.replace("pay(", "pay_all(").replace("user", "payer"), set()),
        (PAY.replace("    total", "    log(user)\n    total").replace("user", "payer"), {"payer"}),
        (PAY, set()),
        # What the new name holds is another thing.
        (PAY.replace(", total)", ", mode)"), set()),
        (PAY.replace(", total)", ", amount)"), set()),
        (PAY.replace("total = user.debt", "amount = 0").replace(", total)", ", amount)"), set()),
        (PAY.replace("user", "payer").replace("payer.debt", "payer.limit"), set()),
        (PAY.replace("(user, mode", "(payer, user").replace("charge(user", "charge(payer"), set()),
        # The line does something else.
        (PAY.replace("charge(user", "refund(payer").replace("user", "payer"), set()),
        (PAY.replace(", total)", ", 'total')"), set()),
        (PAY.replace("total)", "total, 0)").replace("user", "payer"), set()),
        # The function leaves earlier, or later.
        (PAY.replace("    total", "    return\n    total").replace("user", "payer"), set()),
        (PAY.replace("    check(user) or fail()\n", "").replace("user", "payer"), set()),
    ],
)
def test_a_parameter_that_holds_the_same_may_have_another_name(head: str, names: set[str]) -> None:
    lines, base = head.splitlines(), PAY.splitlines()
    assert renamed_parameters(lines, len(lines), base, len(base)) == names


@pytest.mark.parametrize("value", ["safe", "SAFE", "'safe'", "True", "1"])
def test_another_value_is_no_other_name_even_where_a_parameter_has_it(value: str) -> None:
    base = [f"def pay(mode={value}):", f"    other = {value}", f"    charge({value})"]
    head = [line.replace(value, f"not_{value}") for line in base]
    assert not renamed_parameters(head, 3, base, 3)
    assert not renamed_parameters([head[0], head[2]], 2, [base[0], base[2]], 2)


@pytest.mark.attack("verifier that calls a new defect old")
async def test_base_may_call_a_parameter_otherwise_even_where_other_files_have_the_name(
    tmp_path: Path,
) -> None:
    quote = "    charge(payer, total)"
    lines = PAY.replace("user", "payer")
    claim = replace(PLACE, path="pay.py", start_line=4, end_line=4, evidence=Evidence(quote, ()))
    given = verdict_on("F1", "older", {"file": "pay.py", "quote": "charge(user, total)"})
    report = as_form(VerifierReport, {"verdicts": [given]})
    base = {"pay.py": PAY, "other.py": "payer = 1\n"}
    for at, (head, lacks) in enumerate([(lines, False), (lines.replace("or fail()", ""), True)]):
        async with workspace_of(change(tmp_path / str(at), base, {"pay.py": head})) as workspace:
            whys = as_lines((await check_verdicts(workspace, report, {"F1": claim}))[1])
        assert ["lack payer" in why for why in whys] == [True] * lacks
