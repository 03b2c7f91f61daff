"""The opening names unchanged files that use what the change removes or redefines."""

from pathlib import Path

import pytest

from orchestrator.code_review.agents.names_across_files import MAX_DEFINITION, defined_in
from tests.review.push_kit import Branch

BASE = {
    "lib.py": "# noqa: keep_me_not\ndef fetch_job(queue_name):\n    return store.read_all(queue_name)\n\n\nOLD_LIMIT = 3\n\n\ndef keep_me():\n    pass\n",
    "web.js": "export function loadUser(id) {\n  return id;\n}\n",
    "caller.py": "import lib\n\nlib.fetch_job(queue_name=1)\nlib.fetch_job(2)\nlib.keep_me()\nother.read_all()\n",
    "docs/guide.md": "Call `fetch_job(queue_name=...)`; OLD_LIMIT applies, and keep_me_not.\n",
    "tests/test_lib.py": "import lib\n\n\ndef test_it():\n    assert lib.fetch_job(1) == 1\n",
    "page.js": 'import { loadUser } from "./web.js";\nloadUser(1);\n',
    "logo.bin": "\0OLD_LIMIT",
}  # fmt: skip
HEAD = {
    "lib.py": "def fetch_job(name):\n    return name\n\n\ndef keep_me():\n    pass\n",
    "web.js": "export function loadUser(id, deep) {\n  return deep ? id : null;\n}\n",
}
START = "Removed or redefined names, and where files that the change does not touch use them:\n"


def listed(branch: Branch) -> list[str]:
    opening = branch.opening()
    return opening.partition(START)[2].partition("\n\n")[0].splitlines() if START in opening else []


async def test_callers_and_guides_that_a_change_forgets_are_named(tmp_path: Path) -> None:
    branch = Branch(tmp_path, BASE)
    await branch.push(HEAD)
    assert sorted(listed(branch)) == [
        "- OLD_LIMIT (removed): docs/guide.md:1",
        "- fetch_job (redefined): caller.py:3 (and 1 more), docs/guide.md:1, tests/test_lib.py:5",
        "- loadUser (redefined): page.js:1 (and 1 more)",
        "- queue_name (removed): caller.py:3, docs/guide.md:1",
    ]


async def test_what_is_used_nowhere_else_or_everywhere_is_not_listed(tmp_path: Path) -> None:
    common = {f"user{number}.py": "lib.fetch_job(1)\n" for number in range(31)}
    branch = Branch(tmp_path, {"lib.py": BASE["lib.py"], **common})
    await branch.push({"lib.py": HEAD["lib.py"]})
    assert listed(branch) == []


async def test_changed_functions_are_shown_whole_and_others_are_not(tmp_path: Path) -> None:
    steps = [f"    step_{at}()\n" for at in range(20)]
    long = ["def long(x):\n", *(f"    part_{at}()\n" for at in range(150)), "\n\n"]
    text = ["def work(x):\n", *steps, "\n\n", *long, "def idle(x):\n", *steps]
    branch = Branch(tmp_path, {"jobs.py": "".join(text)})
    text[10], text[60] = "    changed()\n", "    changed()\n"
    await branch.push({"jobs.py": "".join(text)})
    rest = branch.opening().partition("The other lines of changed functions, in head:\n")[2]
    shown = rest.partition("\n</untrusted")[0].splitlines()
    assert shown[:2] == ["jobs.py:", "1: def work(x):"]
    assert [line for line in shown if "step_" not in line] == [*shown[:2], "--"]
    assert [line.partition(":")[0] for line in shown[2:]] == [
        *map(str, range(2, 8)), "--", *map(str, range(15, 22))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("load", "    async def load(self, key):"),
        ("call", "  def self.call(a)"),
        ("Get", "func (s *Store) Get(ctx context.Context) error {"),
        ("run", "  pub fn run<T>(x: T) -> Result<(), E> {"),
        ("useCart", "export const useCart = (id: string): number => {"),
        ("retry", "const retry = async function(task) {"),
        ("load", "  async load(key, options) {"),
        ("price", "  #price(item) {"),
        ("list", "  public static List<String> list(int a, String b) throws IOException {"),
        ("store", "    public function store(Request $request): Response {"),
        ("read", "static int read(struct file *from,"),
        ("open", "int open(void)"),
        ("close", "void File::close(int how) {"),
        ("Item", "export default abstract class Item extends Base {"),
        (
            "Runnable",
            "public actual inline fun Runnable(crossinline block: () -> Unit): Runnable =",
        ),
        ("Runnable", "public actual fun interface Runnable {"),
        ("Color", "enum class Color { RED }"),
        ("port_range", "struct port_range {"),
        ("port_alloc", "struct port_range *port_alloc(int count)"),
        ("", "\tstruct port_range *port_range;"),
        ("", "\tconst struct port_range ports = {0};"),
        ("", "    # the class that holds it"),
        ("", "    if (ready) {"),
        ("", "  } else if (load(x)) {"),
        ("", "for (const item of items) {"),
        ("", "from shop import ("),
        ("", "assert load(x)"),
        ("", "    return load(x) {"),
        ("", "    load(x);"),
        ("", "price = load(x,"),
        ("", "def late():" + " " * MAX_DEFINITION),
    ],
)
def test_a_line_defines_a_function_or_a_type_in_any_language(name: str, line: str) -> None:
    assert defined_in(line) == ([name] if name else [])
