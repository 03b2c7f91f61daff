"""``diffcourt fix``: what it shows, asks, applies, takes back and proves again."""

import errno
import json
import os
import pty
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from msgspec.json import encode as json_encode
from msgspec.structs import replace

from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.apply_fixes import _write, apply_fixes, choose_fixes
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.cli.commands.fix import _holds_less
from orchestrator.cli.main import main
from orchestrator.code_review.analyzers.configured_programs import ConfinedProgram
from orchestrator.code_review.verdict.document_parts import FixState, Proof
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal_hash_chain import GENESIS, row_hash
from orchestrator.errors import InputError, SandboxError
from orchestrator.sandbox.file_rollback import FileRollback
from tests.providers import whole_kit
from tests.report.verdict_samples import fixed, verdict
from tests.review.review_kit import PYTEST_ALONE, Repo, change

ODD = "b;id.py"
"""A name that is a command to a shell that reads it unquoted."""
HEAD = "import os\nimport sys\n\n\ndef f() -> int:\n    return 1\n"


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = change(tmp_path_factory.mktemp("fix"), {}, {"src/a.py": HEAD, ODD: "import re\n"})
    assert main(["review", "--base", "HEAD~1", "--quiet", "--repo", str(repo.path)]) == 0
    return repo


@pytest.fixture
def restored(reviewed: Repo, capsys: pytest.CaptureFixture[str]) -> Repo:
    reviewed.git("reset", "-q", "--hard")
    capsys.readouterr()
    return reviewed


Fix = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fix(restored: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fix:
    """Run a command over the reviewed repository: exit code, output, errors."""

    def run(*given: str, stdin: int | None = None) -> tuple[int, str, str]:
        with os.fdopen(os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin) as file:
            monkeypatch.setattr(sys, "stdin", file)
            code = main([*given, "--repo", str(restored.path)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_patches_are_applied_and_taken_back(restored: Repo, fix: Fix) -> None:
    (restored.path / "src/a.py").chmod(0o755)
    code, shown, error = fix("fix", "--yes")
    assert (code, error) == (0, "")
    assert "verified by" in shown
    assert "\n-import sys\n" in shown
    assert "Applied 3 patches (F1, F2, F3)." in shown
    assert "commit: git add -- 'b;id.py' src/a.py && git commit" in shown
    assert (restored.path / "src/a.py").read_text() == "\n\ndef f() -> int:\n    return 1\n"
    assert (restored.path / ODD).read_text() == ""
    undo = next(line for line in shown.splitlines() if "undo:" in line).split()[2:]
    code, shown, error = fix(*undo)
    assert (code, error) == (0, "")
    assert (restored.path / "src/a.py").read_text() == HEAD
    assert os.access(restored.path / "src/a.py", os.X_OK)


def test_a_verdict_of_another_clone_is_applied_without_a_run(
    restored: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, clone = tmp_path / "verdict.json", tmp_path / "clone"
    assert main(["export", "--format", f"json={file}", "--repo", str(restored.path)]) == 0
    restored.git("clone", "-q", str(restored.path), str(clone))
    capsys.readouterr()
    assert main(["fix", str(file), "F1", "--yes", "--repo", str(clone)]) == 0
    shown = capsys.readouterr().out
    assert "Applied 1 patch (F1)." in shown
    assert "rollback" not in shown
    state = clone / ".diffcourt/state"
    assert not [path for path in state.rglob("*") if "rollback" in path.parts]
    changed = restored.git("-C", str(clone), "diff", "--stat")
    assert "1 file changed" in changed


NEW_TEST = "tests/test_claim.py"


@pytest.fixture
def shown_by(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """A reviewed change, whose finding F1 was shown by a test with this assertion."""
    command = json.dumps([sys.executable, "-m", "pytest"])
    settings = {".diffcourt/config/defaults.yaml": f"tests: {{command: {command}}}\n"}
    base = {"a.py": "A = 1\n", **settings, **PYTEST_ALONE}
    repo = change(tmp_path, base, {"a.py": "import re\n\nA = 1\n"})
    # Tests may not run there, so the review has a gap.
    assert main(["review", "--base", "HEAD~1", "--quiet", "--repo", str(repo.path)]) == 3
    monkeypatch.setenv("DIFFCOURT_RUN_TESTS", "1")

    def with_test(assertion: str, at: str = NEW_TEST) -> Path:
        proof = Proof(
            state="reproduced", claim="c", path=at, command=("pytest", at),
            test=f"import a\n\n\ndef test_a():\n    {assertion}\n",
            exception="AssertionError", value="re",
        )  # fmt: skip
        verdict = load_verdict(repo.path, "latest")
        shown = tuple(replace(one, proofs=(proof,)) for one in verdict.findings)
        monkeypatch.setattr(
            "orchestrator.app.apply_fixes.load_verdict", lambda *_: replace(verdict, findings=shown)
        )
        return repo.path

    return with_test


def test_a_test_is_added_once_it_fails_before_the_patch_and_passes_after_it(
    shown_by: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    place = shown_by("assert 're' not in vars(a)")
    given = ["fix", "F1", "--with-test", "--yes", "--repo", str(place)]
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert "F1 new test tests/test_claim.py\n+import a\n" in shown
    said = "tests/test_claim.py fails before the patch (AssertionError: assert 're' not in"
    assert said in shown
    assert "and passes after it" in shown
    assert "git add -- a.py tests/test_claim.py" in shown
    assert (place / NEW_TEST).read_text().startswith("import a\n")
    assert (place / "a.py").read_text() == "\nA = 1\n"
    undo = next(line for line in shown.splitlines() if "undo:" in line).split()[2:]
    assert main([*undo, "--repo", str(place)]) == 0
    assert not (place / NEW_TEST).exists()
    (place / NEW_TEST).parent.mkdir(exist_ok=True)
    (place / NEW_TEST).write_text("mine\n")
    assert main(given) == 2
    assert "tests/test_claim.py exists" in capsys.readouterr().err
    assert (place / NEW_TEST).read_text() == "mine\n"


def test_a_test_that_the_patch_does_not_turn_changes_nothing(
    shown_by: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for assertion, why in (
        ("assert a.A == 1", "does not fail before"),
        ("assert a.A == 2", "still fails with its patch"),
    ):
        place = shown_by(assertion)
        assert main(["fix", "F1", "--with-test", "--yes", "--repo", str(place)]) == 2
        assert why in capsys.readouterr().err
        assert (place / "a.py").read_text() == "import re\n\nA = 1\n"
        assert not (place / NEW_TEST).exists()


@pytest.mark.attack("a test of a verdict in .git or outside of the tree")
def test_a_test_is_added_to_no_other_place_than_the_projects_files(
    shown_by: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for at in ("../test_a.py", ".git/hooks/test_a.py", "a/.GIT/test_a.py", ".diffcourt/test_a.py"):
        place = shown_by("assert 're' not in vars(a)", at)
        assert main(["fix", "F1", "--with-test", "--yes", "--repo", str(place)]) == 2
        assert f"'{at}' is not a path below the repository" in capsys.readouterr().err
        assert not (place / at).exists()
        assert (place / "a.py").read_text() == "import re\n\nA = 1\n"


def test_a_test_from_elsewhere_that_cannot_run_here_is_not_added_and_says_why(
    shown_by: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    place, file = shown_by("assert 're' not in vars(a)"), tmp_path / "verdict.json"
    file.write_bytes(json_encode(load_verdict(place, "latest")))
    monkeypatch.setenv("DIFFCOURT_RUN_TESTS", "0")
    given = [str(file), "F1", "--with-test", "--yes", "--base", "HEAD~1", "--repo", str(place)]
    assert main(["fix", *given]) == 2
    said = capsys.readouterr().err
    assert "a test from elsewhere is added only if it runs here: " in said
    assert not (place / NEW_TEST).exists()
    assert (place / "a.py").read_text() == "import re\n\nA = 1\n"


CI = ".github/workflows/ci.yml"
FILES = {CI: "on: push\n", "Makefile": "all:\n", "base.py": "B = 1\n", "odd.py": "import re\n"}
PLACES = [CI, ".bashrc", ".diffcourt/state/.gitignore", ".diffcourt/config/rules.yaml", "Makefile",
          "base.py", "other.py", "odd.py"]  # fmt: skip


def patch_of(path: str, line: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1,1 +1,1 @@\n-{line}\n+pwned = 1\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A reviewed change, whose base has other files."""
    base = {name: "B = 1\n" for name in FILES if name != "odd.py"}
    head = {**FILES, ".diffcourt/config/rules.yaml": "rules: []\n", ".bashrc": "x\n"}
    repo = change(tmp_path_factory.mktemp("shop"), base, {**head, "other.py": "O = 1\n"})
    assert main(["review", "--base", "HEAD~1", "--quiet", "--repo", str(repo.path)]) == 0
    return repo


def forge(repo: Repo, place: Path, patches: Sequence[str]) -> None:
    """A verdict that says patches of its own are verified, as a file or, in a folder, an export."""
    assert main(["runs", "export", "latest", str(place), "--repo", str(repo.path)]) == 0
    head, *rows = map(json.loads, (place / "journal.jsonl").read_text().splitlines())
    while rows[-1]["key"] != "verdict":
        rows.pop()
    verdict = json.loads(rows[-1]["body"])
    (finding,) = [one for one in verdict["findings"] if one["path"] == "odd.py"]
    forged = {"state": "verified", "source": "ruff"}
    verdict["findings"] = [
        {**finding, "id": f"F{n}", "fingerprint": f"{n:016}",
         "fix": {**finding["fix"], **forged, "patch": patch}}
        for n, patch in enumerate(patches, 1)
    ]  # fmt: skip
    rows[-1]["body"] = canonical(verdict).decode()
    last = GENESIS
    for row in rows:
        row["body"] = row["body"].encode()
        last = row["hash"] = row_hash(
            last, row["seq"], row["kind"], row["key"], row["at"], row["body"]
        )
        row["body"] = row["body"].decode()
    head |= {"run": "20260101-000000-f0f0f0f0", "rows": len(rows), "head": last}
    lines = "".join(json.dumps(row) + "\n" for row in [head, *rows])
    (place / "journal.jsonl").write_text(lines)
    (place / "verdict.json").write_text(json.dumps(verdict))


@pytest.mark.attack("a forged verdict whose patch of any file says that it is verified")
@pytest.mark.parametrize("how", ["imported", "file"])
def test_a_patch_of_a_foreign_verdict_counts_for_what_is_proven_here(
    shop: Repo, tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clone"
    shop.git("clone", "-q", str(shop.path), str(clone))
    (clone / ".diffcourt/state").mkdir(parents=True, exist_ok=True)
    (clone / ".diffcourt/state/.gitignore").write_text("*\n")
    before = {path: (clone / path).read_text() for path in PLACES}
    forge(shop, tmp_path / "run", [patch_of(path, before[path].strip()) for path in PLACES])
    source = str(tmp_path / "run/verdict.json")
    if how == "imported":
        assert main(["runs", "import", str(tmp_path / "run"), "--repo", str(clone)]) == 0
        source = "20260101-000000-f0f0f0f0"
        assert not list((clone / ".diffcourt/state").rglob("*.patch"))
    capsys.readouterr()
    assert main(["fix", source, "--check", "--repo", str(clone)]) == 1
    assert " verified\n" not in capsys.readouterr().out
    assert main(["fix", source, "--yes", "--repo", str(clone)]) == 0
    left_out = capsys.readouterr().out
    assert [n for n in range(1, 9) if f"F{n}: its patch is " in left_out] == [*range(1, 9)]
    assert main(["fix", source, "F1", "--yes", "--repo", str(clone)]) == 2
    why = (
        "F1 cannot be fixed: its patch is refused: the change of this checkout has no such finding,"
    )
    assert why in capsys.readouterr().err
    if how == "imported":  # whoever calls the function has no other way either
        assert apply_fixes(clone, choose_fixes(clone, source, [])).paths == ()
    assert {path: (clone / path).read_text() for path in PLACES} == before


@pytest.mark.attack("a foreign verdict in a repository that configures an analyzer")
def test_a_foreign_verdict_starts_no_program_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []

    async def execute(program: ConfinedProgram, *given: object, **more: object) -> None:
        started.append(program._key)
        raise SandboxError("not here")

    monkeypatch.setattr(ConfinedProgram, "execute", execute)
    monkeypatch.setenv("DIFFCOURT_RUN_ANALYZERS", "1")
    analyzer = {"command": [sys.executable, "{files}"], "files": ["*.py"]}
    settings = {".diffcourt/config/defaults.yaml": json.dumps({"analyzers": {"own": analyzer}})}
    repo = change(tmp_path / "repo", settings, {"a.py": "import re\n"})
    file, clone = tmp_path / "verdict.json", tmp_path / "clone"
    assert (
        main(
            ["review", "--base", "HEAD~1", "--quiet", "--json", str(file), "--repo", str(repo.path)]
        )
        == 3
    )
    assert "analyzers.own" in started
    started.clear()
    repo.git("clone", "-q", str(repo.path), str(clone))
    main(["fix", str(file), "F1", "--check", "--base", "HEAD~1", "--repo", str(clone)])
    assert "F1" in capsys.readouterr().out
    (clone / "b.py").write_text("B = 1\n")
    repo.git("-C", str(clone), "add", "b.py")
    repo.git("-C", str(clone), "commit", "-qm", "Add more")
    # Proven on all of the change, not on its newest commit alone.
    assert main(["fix", str(file), "F1", "--yes", "--base", "HEAD~2", "--repo", str(clone)]) == 0
    assert (clone / "a.py").read_text() == ""
    assert started == []


def test_one_finding_is_fixed_where_it_alone_is_named(restored: Repo, fix: Fix) -> None:
    code, shown, _ = fix("fix", "latest", "F1", "--yes")
    assert code == 0
    assert "Applied 1 patch (F1)." in shown
    changed = restored.git("diff", "--stat", "--", "src/a.py", ODD)
    assert "1 file changed, 1 deletion" in changed


def test_nothing_is_changed_without_a_yes(restored: Repo, fix: Fix) -> None:
    code, _, error = fix("fix")
    assert code == 2
    assert "give --yes, or --check" in error
    for answer, words in (("n\n", "nothing was changed"), ("y\n", "Applied 3 patches")):
        master, slave = pty.openpty()
        os.write(master, answer.encode())
        code, shown, _ = fix("fix", stdin=slave)
        os.close(master)
        assert code == 0
        assert "Apply 3 patches to the work tree? [y/N]" in shown
        assert words in shown
        assert bool(restored.git("diff", "--stat")) == (answer == "y\n")


def test_a_run_without_patches_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = str(change(tmp_path, {}, {"a.py": "X = 1\n"}).path)
    assert main(["review", "--base", "HEAD~1", "--quiet", "--repo", repo]) == 0
    for options in (["--yes"], ["--check"]):
        capsys.readouterr()
        assert main(["fix", *options, "--repo", repo]) == 0
        assert "nothing to apply: the run" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_leaves_all_as_before(
    restored: Repo, fix: Fix, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = SafeDirectory.write, list[str]()

    def write(tree: SafeDirectory, path: str, data: bytes, mode: int) -> None:
        written.append(path)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(tree, path, data, mode)

    with monkeypatch.context() as patch:
        patch.setattr(SafeDirectory, "write", write)
        code, _, error = fix("fix", "--yes")
    assert code != 0
    assert (
        f"{written[1]} cannot be written: No space left on device; all files are as before" in error
    )
    assert written == [ODD, "src/a.py"]
    assert restored.git("status", "--porcelain", "--untracked-files=no") == ""


async def test_files_are_restored_even_if_the_lease_is_lost_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("before")
    real, scope = SafeDirectory.write, anyio.CancelScope()

    def write(tree: SafeDirectory, path: str, data: bytes, mode: int) -> None:
        real(tree, path, data, mode)
        if path == "b":
            scope.cancel()
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(SafeDirectory, "write", write)
    files = FileRollback(tmp_path, tmp_path / ".diffcourt/state/vault", only=["a", "b"])
    with scope, pytest.raises(InputError, match=r"^b cannot be written: Input/output error"):
        await _write(files, tmp_path, {"a": b"after", "b": b"after"}, "fix/1")
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["before", "before"]


def test_the_journal_names_who_applied_which_patches_to_what(restored: Repo) -> None:
    chosen = choose_fixes(restored.path, state_directory.LATEST, ["F1"])
    assert chosen.reviewed_here  # its base says how tests run
    applied = apply_fixes(restored.path, chosen)
    with state_directory.open_run(restored.path, chosen.verdict.run_id) as (store, run):
        rows = anyio.run(store.rows, run.run_id)
    notes = [json.loads(row.body) for row in rows if row.key.endswith(f"/{applied.call}")]
    note = notes[-1]
    assert (note["paths"], note["findings"]) == (list(applied.paths), ["F1"])


def test_patches_of_a_review_by_a_model_are_proven_again_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portal: BlockingPortal,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    code = whole_kit.HEAD["app.py"].replace("X = 1", "import os")
    repo = change(tmp_path, whole_kit.POLICY, {"app.py": code}).path
    script = {"generalist": [whole_kit.reports(checked=["app.py"])], "judge": [whole_kit.judges()]}
    with whole_kit.serving(portal, monkeypatch, "anthropic", script):
        models = ("generalist=anthropic:strong",)
        whole_kit.review(repo, "anthropic", pattern="single", models=models)
    # The server is gone, and so is the key.
    assert main(["fix", "--check", "--repo", str(repo)]) == 0
    assert "F1 verified\n" in capsys.readouterr().out


def test_only_who_names_a_finding_gets_its_patch_that_is_not_proven(tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    file.write_bytes(json_encode(verdict(findings=(fixed(1, state="applies"),))))
    everything, named = (choose_fixes(None, str(file), names) for names in ([], ["F1"]))
    assert (len(everything.findings), everything.names) == (0, ())
    assert everything.left_out["F1"].endswith("; name the finding to apply it anyway")
    assert ([one.id for one in named.findings], named.left_out) == (["F1"], {})


def test_a_check_works_from_anywhere(
    fix: Fix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fix("fix", "--check")[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_check_proves_again_and_changes_nothing(restored: Repo, fix: Fix) -> None:
    code, shown, error = fix("fix", "--check")
    assert (code, error) == (0, "")
    assert shown.splitlines()[-3:] == ["F1 verified", "F2 verified", "F3 verified"]
    assert restored.git("status", "--porcelain", "--untracked-files=no") == ""


def test_a_file_that_has_changed_since_is_named_and_nothing_is_written(
    restored: Repo, fix: Fix
) -> None:
    (restored.path / ODD).write_text("import json\n")
    code, _, error = fix("fix", "--yes")
    assert code == 2
    assert "does not apply to the work tree" in error
    assert ODD in error
    assert error.rstrip().endswith("; check out the reviewed head, or review again")
    assert "Traceback" not in error
    assert (restored.path / "src/a.py").read_text() == HEAD


def test_a_file_that_changed_after_a_fix_is_not_rolled_back(restored: Repo, fix: Fix) -> None:
    _, shown, _ = fix("fix", "--yes")
    (restored.path / ODD).write_text("x = 1\n")
    undo = next(line for line in shown.splitlines() if "undo:" in line).split()[2:]
    code, shown, _ = fix(*undo)
    assert code == 3
    assert f"{ODD}  (changed since the call, kept" in shown
    assert (restored.path / ODD).read_text() == "x = 1\n"
    assert (restored.path / "src/a.py").read_text() == HEAD


@pytest.mark.parametrize(
    ("given", "why"),
    [(["latest", "F9"], "has no finding F9; it has F1"), (["nonesuch"], "nonesuch")],
)
def test_an_unknown_name_is_said_in_one_line(fix: Fix, given: list[str], why: str) -> None:
    code, _, error = fix("fix", *given, "--yes")
    assert code == 2
    assert why in error
    assert len(error.splitlines()) == 1


def test_a_link_in_the_work_tree_is_not_followed(restored: Repo, fix: Fix, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("import re\n")
    (restored.path / ODD).unlink()
    (restored.path / ODD).symlink_to(outside)
    code, _, error = fix("fix", "--yes")
    assert code == 2
    assert ODD in error
    assert outside.read_text() == "import re\n"


@pytest.mark.parametrize(
    ("was", "now", "less"),
    [
        ("verified", "verified", False),
        ("verified", "applies", True),
        ("verified", "refused", True),
        ("verified", None, True),
        ("applies", "applies", False),
        ("applies", None, False),
        ("applies", "refused", True),
    ],
)
def test_a_check_fails_if_a_patch_differs_from_the_run(
    reviewed: Repo, was: FixState, now: FixState | None, less: bool
) -> None:
    finding = load_verdict(reviewed.path, "latest").findings[0]
    assert finding.fix
    stored = replace(finding, fix=replace(finding.fix, state=was))
    assert _holds_less(stored, replace(finding.fix, state=now) if now else None) is less
