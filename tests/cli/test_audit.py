"""``diffcourt audit`` over a real review, signed with a real key."""

import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from orchestrator.app.audit.signing_keys import load_signing_key
from orchestrator.cli.main import main
from orchestrator.errors import InputError
from tests.review.review_kit import change

PRIVATE = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PEM = PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
ROOT = Path(__file__).resolve().parents[2]
JOURNAL = ".diffcourt/state/journal.db"


def diffcourt(
    cwd: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in this process, with its verdict on standard output."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        code = main([*arguments, "--quiet", "--json", "-"])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a repository and its signed review, the verdict, and the key's public half."""
    folder = tmp_path_factory.mktemp("audit")
    repo = change(folder / "repo", {}, {"app.py": SHELL}).path
    (folder / "private.pem").write_bytes(PEM)
    (folder / "private.pem").chmod(0o600)
    signing = {"DIFFCOURT_AUDIT_KEY_FILE": str(folder / "private.pem")}
    done = diffcourt(repo, "review", env=signing)
    (folder / "verdict.json").write_text(done.stdout)
    (folder / "public.pem").write_bytes(PUBLIC)
    return folder


@pytest.fixture
def folder(reviewed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to do harm to, and the current folder."""
    shutil.copytree(reviewed, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["audit", "verify", "latest", "--repo", "repo", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def edit(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "repo" / JOURNAL)) as db, db:
        db.execute(statement, values)


def rows_of(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "repo" / JOURNAL)) as db:
        return int(db.execute("SELECT COUNT(*) FROM journal").fetchone()[0])


def test_all_that_is_known_of_it_leaves_no_gap(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = verify(capsys, "--verdict", "verdict.json", "--key", "public.pem")
    count = rows_of(folder)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("INTACT   run ")
    assert f"Signed   rows 1 to {count}, checked" in out
    assert "Not told" not in out
    code, out, _ = verify(capsys, "--verdict", "verdict.json", "--key", "public.pem", "--json")
    found = json.loads(out)
    assert (code, found["intact"], found["finished"], found["gaps"]) == (0, True, True, [])
    assert (found["rows"], found["signed_to"]) == (count, count)


def test_unverifiable_parts_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = verify(capsys, "--json")
    gaps = " ".join(json.loads(out)["gaps"])
    assert code == 0
    for part in ("older copy", "1 signature was not checked: no key", "rewritten as a whole"):
        assert part in gaps


def test_an_edit_is_named_with_its_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(folder, "UPDATE journal SET body = CAST('{\"n\":1}' AS BLOB) WHERE place & 0xffffffff = 9")
    edit(
        folder,
        "UPDATE journal SET key = CAST(X'ff1b5b33316d' AS TEXT) WHERE place & 0xffffffff = 40",
    )
    code, out, err = verify(capsys)
    assert (code, err) == (1, "")
    assert out.startswith("TAMPERED")
    assert "journal row 9 (" in " ".join(out.split())
    assert "row 40 (\\xff\\x1b[31m) was altered" in out
    assert max(len(line) for line in out.splitlines()) <= 80
    code, out, _ = verify(capsys, "--json")
    assert (code, [fault["row"] for fault in json.loads(out)["errors"]]) == (1, [9, 40])


def test_a_cut_end_is_detected_by_the_verdict_the_head_and_the_key(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    carried = json.loads((folder / "verdict.json").read_text())["provenance"]
    head = "--head", carried["journal_head"], "--length", str(carried["journal_length"])
    assert verify(capsys, *head)[0] == 0
    edit(folder, "DELETE FROM journal WHERE place & 0xffffffff > ?", carried["journal_length"])
    assert verify(capsys, *head)[0] == 0  # the head says nothing of what came after it
    for given in (("--verdict", "verdict.json"), ("--key", "public.pem")):
        code, out, _ = verify(capsys, *given)
        assert code == 1
        assert "not recorded" in out
    edit(folder, "DELETE FROM journal WHERE place & 0xffffffff = ?", carried["journal_length"])
    code, out, _ = verify(capsys, *head)
    assert code == 1
    assert "its end was cut off, or an older copy" in " ".join(out.split())
    edit(folder, "UPDATE runs SET holder = ?, lease_until = ?", "somebody", time.time() + 99)
    code, out, _ = verify(capsys)  # nothing given, nothing told: as the gaps of the report say
    assert (code, "Writer   somebody: the run is still being written" in out) == (0, True)


def test_a_different_verdict_is_detected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = json.loads((folder / "verdict.json").read_text())
    (folder / "verdict.json").write_text(json.dumps({**verdict, "verdict": "merge"}))
    code, out, _ = verify(capsys, "--verdict", "verdict.json")
    assert code == 1
    assert "records a different verdict than the file" in out


def test_a_continued_run_is_not_tampering_and_a_missing_key_is_detected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rows_of(folder)
    assert diffcourt(folder / "repo", "resume", "latest").returncode == 1  # the verdict's own
    assert rows_of(folder) > before
    assert verify(capsys, "--verdict", "verdict.json")[0] == 0
    code, out, _ = verify(capsys, "--verdict", "verdict.json", "--key", "public.pem")
    assert code == 1
    assert f"rows {before + 1} to {rows_of(folder)} are not signed" in out


def test_a_journal_that_cannot_be_read_or_is_empty_is_exit_3(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(folder, "DELETE FROM journal")
    code, _, err = verify(capsys)
    assert (code, err.count("\n")) == (3, 1)
    assert "nothing to verify" in err
    assert verify(capsys, "--verdict", "verdict.json")[0] == 1
    for rest in (folder / "repo/.diffcourt/state").glob("journal.db*"):
        rest.unlink()
    (folder / "repo" / JOURNAL).write_bytes(b"not a database at all" * 100)
    code, _, err = verify(capsys)
    assert (code, err.count("\n")) == (3, 1)
    assert "cannot be used" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--head", "0" * 64), "given together"),
        (("--length", "3"), "given together"),
        (("--head", "short", "--length", "3"), "not a journal head"),
        (("--head", "0" * 64, "--length", "3", "--verdict", "verdict.json"), "cannot be combined"),
        (("--verdict", "missing.json"), "cannot be read"),
        (("--verdict", "public.pem"), "is not a verdict"),
        (("--verdict", "other.json"), "is of run"),
        (("--verdict", "headless.json"), "has no journal head"),
        (("--key", "missing.pem"), "cannot be read"),
        (("--key", "short"), "openssl rand"),
        (("--key", "open"), "chmod 600"),
        (("--key", "ec.pem"), "not an Ed25519 key"),
        (("--key", "locked.pem"), "without a password"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    verdict = json.loads((folder / "verdict.json").read_text())
    (folder / "other.json").write_text(json.dumps({**verdict, "run_id": "\x1b[2Jother"}))
    (folder / "headless.json").write_text(json.dumps({**verdict, "provenance": {}}))
    pkcs8 = Encoding.PEM, PrivateFormat.PKCS8
    files = {
        "short": b"too short",
        "open": b"x" * 40,
        "ec.pem": ec.generate_private_key(ec.SECP256R1()).private_bytes(*pkcs8, NoEncryption()),
        "locked.pem": PRIVATE.private_bytes(*pkcs8, BestAvailableEncryption(b"word")),
    }
    for name, text in files.items():
        (folder / name).write_bytes(text)
        (folder / name).chmod(0o644 if name == "open" else 0o600)
    code, out, err = verify(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"DIFFCOURT_AUDIT_KEY": ""}, "shorter than 32"),
        ({"DIFFCOURT_AUDIT_KEY_FILE": ""}, "is empty"),
        ({"DIFFCOURT_AUDIT_KEY": "x" * 40, "DIFFCOURT_AUDIT_KEY_FILE": "key"}, "set one of them"),
        ({"DIFFCOURT_AUDIT_KEY": PUBLIC.decode()}, "is a public key"),
    ],
)
def test_a_key_that_cannot_sign_is_refused(env: Mapping[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_signing_key(env)


def test_a_review_with_such_a_key_does_not_begin(folder: Path) -> None:
    before = rows_of(folder)
    done = diffcourt(folder / "repo", "review", env={"DIFFCOURT_AUDIT_KEY": ""})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert rows_of(folder) == before


def test_the_wrong_key_in_the_environment_is_one_fault(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFCOURT_AUDIT_KEY", "another secret that is long enough for this")
    code, out, _ = verify(capsys, "--json")
    assert code == 1
    (fault,) = json.loads(out)["errors"]
    assert "the wrong key, or rewritten" in fault["what"]
    assert "another secret" not in out
    assert verify(capsys, "--key", "public.pem")[0] == 0


def test_show_tells_who_did_what_and_on_which_authority(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "show", "--repo", "repo"]) == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "0 refused" in out.splitlines()[0]
    assert "security      READ tool policy" in out
    assert "  follows its playbook: ok" in out
    assert "model" not in out
    assert main(["audit", "show", "latest", "--repo", "repo", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert [entry["row"] for entry in entries] == sorted(entry["row"] for entry in entries)
    (signed,) = [entry for entry in entries if entry["what"].startswith("signed rows")]
    assert signed["authority"].startswith("key ")
    assert {"lead", "security", "qa", "docs", "architecture", "diffcourt"} == {
        entry["who"] for entry in entries
    }


def test_show_warns_about_an_altered_journal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(folder, "UPDATE journal SET body = CAST('{' AS BLOB) WHERE place & 0xffffffff = 9")
    assert main(["audit", "show", "latest", "--repo", "repo"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "row 9" in said.err


def test_the_commands_of_the_page_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/audit.md").read_text()
    (script,) = re.findall(r"```sh run\n(.*?)```", page, re.DOTALL)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=folder / "repo",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "\nINTACT " in done.stdout
    assert "Not told" not in done.stdout
    assert " actions, 0 refused" in done.stdout
