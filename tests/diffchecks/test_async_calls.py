"""Asynchronous functions of other files whose result nothing awaits."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from diffchecks.imports.async_calls import run
from diffchecks.jobs import ChangedFile, ComparisonJob

STORE = """import { db } from "db";

export async function save(order) {
  await db.put(order);
}
export async function allowed(user: User): Promise<boolean> {
  return user.ok;
}
export function load(id: string): Promise<User> {
  return db.get(id);
}
export class Repo {
  async remove(id: string): Promise<void> {
    await db.drop(id);
  }
  count(): number { return 1; }
}
export const mailer = {
  async send(mail) {},
};
const repo = new Repo();
export default repo;
"""
SCRIPTS = {
    "src/store.ts": STORE,
    "src/index.ts": 'export * from "./store";\nexport { save as keep } from "./store";\n',
    "src/old.js": "async function save(x) {}\nmodule.exports = { save };\n",
}
PYTHON = {
    "pkg/__init__.py": "from .store import save\n",
    "pkg/store.py": "import db\n\n\nasync def save(order):\n    await db.put(order)\n\n\n"
    "async def allowed(user):\n    return user.ok\n\n\n@task\nasync def later(x):\n    pass\n\n\n"
    "class Repo:\n    async def remove(self, key):\n        pass\n\n    def count(self):\n        pass\n",
}


def found(place: Path, base: Mapping[str, str], head: Mapping[str, str]) -> list[str]:
    """What the check says of the files of head that are not as in base."""
    for side, files in (("base", base), ("head", head)):
        for path, text in files.items():
            (place / side / path).parent.mkdir(parents=True, exist_ok=True)
            (place / side / path).write_text(text)
    changed = [
        ChangedFile(
            path,
            old_path=path if path in base else None,
            new_blob="1",
            added=tuple(
                number
                for number, line in enumerate(text.split("\n"), 1)
                if line not in base.get(path, "").split("\n")
            ),
        )
        for path, text in head.items()
        if base.get(path) != text
    ]
    job = ComparisonJob(
        files=changed, base_tree=sorted(base), head_tree=sorted(head),
        base_root=str(place / "base"), head_root=str(place / "head"),
    )  # fmt: skip
    reply = run(job)
    return [f"{each.line} {each.code}" for each in reply.findings]


@pytest.mark.parametrize(
    ("imported", "bad", "good"),
    [
        ('import { allowed } from "../store";', "if (!allowed(u)) g();", "if (!(await allowed(u))) g();"),
        ('import { allowed as may } from "../store.js";', "g(may(u) && 1);", "g((await may(u)) && 1);"),
        ('import { load } from "@/store";', "g(load(u).name);", "g((await load(u)).name);"),
        ('import { save } from "..";', "save(u);", "void save(u);"),
        ('import { keep } from "..";', "g(`${keep(u)}`);", "g(keep(u));"),
        ('import * as store from "../store";', "store.save(u);", "store.save(u).catch(g);"),
        ('import repo, { mailer } from "../store";', "mailer.send(u);", "g(repo.count() + 1);"),
        ('import repo from "../store";', "repo.remove(u);", "await repo.remove(u);"),
        ('const { save } = require("../old");', "save(u);", "await save(u);"),
        ('const old = require("../old");', "try { old.save(u); } catch (e) { g(e); }", "await old.save(u);"),
        ('import { Repo } from "../store";\nconst own = new Repo();', "own.remove(u);", "own.count();"),
        ('import { save } from "store";\nimport "../store";', "", "save(u);"),
    ],
)  # fmt: skip
def test_a_promise_of_another_file_is_awaited(
    tmp_path: Path, imported: str, bad: str, good: str
) -> None:
    text = f"{imported}\nexport async function f(u: User) {{\n  {{}}\n}}\n"
    for place, body in (("bad", bad), ("good", good)):
        head = {**SCRIPTS, "src/web/a.ts": text.replace("{}", body)}
        says = found(tmp_path / place, SCRIPTS, head)
        assert len(says) == (place == "bad" and bad != ""), (body, says)


QUIET = """import { db } from "db";
export const store = {
  save: async (
    order: Order,
  ) => {
    // it may be full
    try {
      await db.put(order);
    } catch (error) {
      log(error);
    }
  },
};
export async function remove(id) {
  await db.drop(id).catch(log);
}
"""


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ("", "", ["6 js-promise-as-value"]),
        ("      log(error);", "      log(error);\n      throw error;", ["4 js-promise-dropped"]),
        ("    try {", "    db.open();\n    try {", ["4 js-promise-dropped"]),
        ("    }\n  },", "    }\n    db.close();\n  },", ["4 js-promise-dropped"]),
        (".catch(log)", "", ["5 js-promise-dropped"]),
    ],
)
def test_a_function_that_handles_each_error_loses_none(
    tmp_path: Path, was: str, now: str, expected: list[str]
) -> None:
    base = {"store.ts": QUIET.replace(was, now) if was else QUIET}
    user = 'import { store, remove } from "./store";\n\nexport async function f(u) {\n  store.save(u);\n'
    user += f"  remove(u);\n  {'if (remove(u)) ' * (not was)}g();\n}}\n"
    assert found(tmp_path, base, {**base, "a.ts": user}) == expected


def test_an_object_that_a_constructor_gets_is_known_by_its_class(tmp_path: Path) -> None:
    text = (
        'import { Repo } from "./store";\n\nclass Service {\n  constructor(private repo: Repo) {}\n'
        "  async f(u) {\n    this.repo.remove(u);\n    return this.repo.count() + 1;\n  }\n}\n"
    )
    assert found(tmp_path, SCRIPTS, {**SCRIPTS, "src/s.ts": text}) == ["6 js-promise-dropped"]


@pytest.mark.parametrize(
    ("imported", "bad", "good"),
    [
        ("from pkg.store import save", "save(1)", "asyncio.run(save(1))"),
        ("from .store import allowed", "return not allowed(1)", "return not await allowed(1)"),
        ("from . import store", "store.save(1)", "store.later(1)"),
        ("from pkg import save as keep", "keep(1)", "return keep(1)"),
        ("import pkg.store as st", "if st.allowed(1):\n        pass", "task = st.save(1)"),
        ("from .store import Repo\n\nrepo = Repo()", "repo.remove(1)", "repo.count()"),
        ("from .store import Repo", "repo = Repo()\n    repo.remove(1)", "for repo in x:\n        repo.remove(1)"),
    ],
)  # fmt: skip
def test_a_coroutine_of_another_module_is_awaited(
    tmp_path: Path, imported: str, bad: str, good: str
) -> None:
    for place, body in (("bad", bad), ("good", good)):
        head = {**PYTHON, "pkg/a.py": f"{imported}\n\n\nasync def f():\n    {body}\n"}
        says = found(tmp_path / place, PYTHON, head)
        assert len(says) == (place == "bad"), (body, says)


def test_a_call_counts_that_stood_before_its_function_became_asynchronous(tmp_path: Path) -> None:
    user = 'import { save } from "./store";\nexport const f = (u) => { if (save(u)) g(); };\n'
    base = {"store.js": "export function save(x) {\n  return 1;\n}\n", "a.js": user}
    head = {
        "store.js": base["store.js"].replace("function", "async function"),
        "a.js": user + "\n\n",
    }
    assert found(tmp_path / "new", base, head) == ["2 js-promise-as-value"]
    assert found(tmp_path / "old", head, {**head, "a.js": user}) == []
