"""No secret of ours leaves a review: no request, journal row, line, verdict or message holds one."""

import json
from pathlib import Path

import anyio
import pytest

from orchestrator.app.process_secrets import make_redactor
from orchestrator.cli.main import main
from tests.providers.provider_kit import open_session
from tests.review.review_kit import change
from tests.torture.own_secrets import ENCODINGS, hostile, leaks, reviewed

SECRET = "sk-live-Zk9_xQ7pL2mN8vR4tW6yB1cD3e"


def test_a_hostile_model_cannot_say_it_and_no_request_over_http_holds_it(tmp_path: Path) -> None:
    """Rows, events, the verdict and requests."""

    async def work() -> list[str]:
        async with open_session("anthropic", hostile(SECRET)) as used:
            out = await reviewed(tmp_path, SECRET, used.model)
            used.server.finish()
            sent = [json.dumps(body, ensure_ascii=False) for body in used.bodies]
        assert len(sent) == 4
        return out + sent

    out = anyio.run(work, backend="trio")
    assert [form for text in out for form in leaks(text, SECRET)] == []


def test_the_command_prints_and_keeps_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", SECRET)
    said = "\n".join(f"A{n} = {encode(SECRET)!r}" for n, encode in enumerate(ENCODINGS.values()))
    repo = change(tmp_path, {}, {"app.py": f"import os\neval(os.environ)  # {SECRET}\n{said}\n"})
    main(["review", "--repo", str(repo.path), "--base", "HEAD~1", "--json", "-"])
    main(["show", "latest", "--repo", str(repo.path)])
    main(["review", "--repo", str(repo.path), "--base", f"no-{SECRET}"])
    repo.git("branch", f"b-{SECRET}", "HEAD~1")
    main(["review", "--repo", str(repo.path), "--base", f"b-{SECRET}", "--quiet"])
    main(["runs", "export", "latest", str(tmp_path / "out"), "--repo", str(repo.path)])
    out = capsys.readouterr()
    assert "eval" in out.out
    assert "[redacted]" in out.out
    state = tmp_path / ".diffcourt/state"
    files = [*state.rglob("*"), *(tmp_path / "out").rglob("*")]
    kept = [path.read_text(errors="replace") for path in files if path.is_file()]
    assert len(kept) > 4
    for text in (out.out, out.err, *kept):
        assert leaks(text, SECRET) == []


def test_secrets_are_found_in_the_environment_and_in_the_key_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("audit-key-0123456789-0123456789-abcdef\n")
    file.chmod(0o600)
    body = "MC4CAQAwBQYDK2VwBCIEIGx1bXBlbnBh"
    redact = make_redactor(
        {
            "DIFFCOURT_AUDIT_KEY_FILE": str(file),
            "DIFFCOURT_STORE": "postgresql://me:p%40ss-word-1@db.example:5432/runs",
            "PLAIN": "nothing-special-here-1",
            "MY_PASSWD": "letmein-99",
            "SIGNING_KEY": f"-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----",
            "DB_PASSWORD": "postgres",
        }
    )
    for secret in ("audit-key-0123456789-0123456789-abcdef", "p%40ss-word-1", "p@ss-word-1",
                   "letmein-99", body):  # fmt: skip
        assert redact(f"<{secret}>") == "<[redacted]>"
    for other in (str(file), "db.example", "nothing-special-here-1", "postgres", "PRIVATE KEY"):
        assert redact(other) == other
