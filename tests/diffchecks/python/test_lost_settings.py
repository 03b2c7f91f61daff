"""Lines that harden a deployment and that a change takes away, and changes that only look like it."""

from collections.abc import Callable

import pytest

from diffchecks import removed_controls as check
from diffchecks.check_io import CheckReply

Codes = Callable[..., list[str]]
Compare = Callable[..., CheckReply]

POD = """\
spec:
  containers:
    - name: a
      image: a:1.2.3
{}    - name: b
      image: b:1.2.3
"""
SECURE = (
    "      securityContext:\n        runAsNonRoot: true\n        allowPrivilegeEscalation: false\n"
)
COMPOSE = "services:\n  a:\n    image: a:1.2.3\n{}  b:\n    image: b:1.2.3\n"
BUCKET = 'resource "aws_s3_bucket" "a" {\n  bucket = "a"\n}\n'
BLOCK = 'resource "aws_s3_bucket_public_access_block" "a" {\n  block_public_acls = true\n}\n'
APP = 'const app = express();\n{}app.get("/", show);\n'
LOST = [
    ("Dockerfile", "FROM a:1\nUSER app\nCMD run\n", "FROM a:1\nCMD run\n"),
    ("Dockerfile", "FROM a:1@sha256:0a1b\nCMD run\n", "FROM a:1\nCMD run\n"),
    ("k8s/pod.yaml", POD.replace("a:1.2.3", "a@sha256:0a1b"), POD),
    ("k8s/pod.yaml", POD.format(SECURE), POD.format("")),
    ("compose.yaml", COMPOSE.format("    read_only: true\n"), COMPOSE.format("")),
    ("main.tf", BUCKET + BLOCK, BUCKET),
    (".github/workflows/a.yml", "on: push\npermissions: {}\njobs: {}\n", "on: push\njobs: {}\n"),
    ("app/settings.py", "SESSION_COOKIE_SECURE = True\nNAME = 'a'\n", "NAME = 'a'\n"),
    ("app.py", "app = Flask(a)\nCSRFProtect(app)\n", "app = Flask(a)\n"),
    ("app.py", "app.add_middleware(TrustedHostMiddleware, hosts=a)\nrun()\n", "run()\n"),
    ("a.ts", APP.format("app.use(helmet());\n"), APP.format("")),
    ("a.js", APP.format("app.use(csurf({ cookie: true }));\n"), APP.format("")),
    (
        "a.ts",
        "const app = make();\napp.useGlobalPipes(new Pipe());\nrun();\n",
        "const app = make();\nrun();\n",
    ),
    (
        "a.ts",
        "for (const k of keys) {\n  if (k === '__proto__') continue;\n  set(k);\n}\n",
        "for (const k of keys) {\n  set(k);\n}\n",
    ),
    (
        "roles/a/tasks/main.yml",
        "- command: join\n  no_log: true\n  changed_when: true\n",
        "- command: join\n  changed_when: true\n",
    ),
    ("a.go", "package a\n\nvar h = csrf.Protect(key)(mux)\n", "package a\n\nvar h = mux\n"),
    ("A.cs", "app.UseHttpsRedirection();\napp.Run();\n", "app.Run();\n"),
    ("config/production.rb", "config.force_ssl = true\nconfig.a = 1\n", "config.a = 1\n"),
    ("application.properties", "server.servlet.session.cookie.secure=true\na=1\n", "a=1\n"),
    ("php.ini", "session.cookie_httponly = 1\na = 1\n", "a = 1\n"),
    (
        "nginx.conf",
        'server {\n  add_header X-Frame-Options "DENY";\n  listen 80;\n}\n',
        "server {\n  listen 80;\n}\n",
    ),
    ("backup.sh", "set -euo pipefail\ndump | gzip > a\n", "set -eu\ndump | gzip > a\n"),
    ("sshd_config", "PermitRootLogin no\nPort 22\n", "Port 22\n"),
]


@pytest.mark.parametrize(("path", "was", "now"), LOST)
def test_a_line_that_hardened_what_stays(codes: Codes, path: str, was: str, now: str) -> None:
    assert codes(check, {path: was}, {path: now}) == ["hardening-removed"]
    assert codes(check, {path: now}, {path: was}) == []
    gone = next(line for line in was.split("\n") if line not in now)
    mark = "//" if path.endswith(("ts", "js", "go", "cs")) else "#"
    assert codes(check, {path: was}, {path: f"{now}{mark} {gone}\n"}) == ["hardening-removed"]


KEPT = [
    # with what it hardened
    ("k8s/pod.yaml", POD.format(SECURE), "spec:\n  containers:\n    - name: b\n"),
    ("compose.yaml", COMPOSE.format("    user: app\n"), "services:\n  b:\n    image: b:1.2.3\n"),
    # in another form, or by something else
    ("Dockerfile", "FROM a:1\nUSER app\nCMD run\n", "FROM a:1-nonroot\nCMD run\n"),
    (
        ".github/workflows/a.yml",
        "on: push\npermissions: {}\njobs:\n  a: {}\n",
        "on: push\njobs:\n  a: {permissions: {}}\n",
    ),
    ("a.js", APP.format("app.use(csurf());\n"), APP.format("app.use(doubleCsrfProtection);\n")),
    ("app.py", "CSRFProtect(app)\nrun()\n", "csrf = CSRFProtect()\ncsrf.init_app(app)\nrun()\n"),
    ("Dockerfile", "FROM a:1@sha256:0a1b\nCMD run\n", "FROM a:2@sha256:2c3d\nCMD run\n"),
    # that did not harden
    ("Dockerfile", "FROM a:1\nUSER root\nCMD run\n", "FROM a:1\nCMD run\n"),
    ("app/settings.py", "SESSION_COOKIE_SECURE = False\nA = 1\n", "A = 1\n"),
]


@pytest.mark.parametrize(("path", "was", "now"), KEPT)
def test_a_line_that_is_replaced_or_did_not_harden(
    codes: Codes, path: str, was: str, now: str
) -> None:
    assert codes(check, {path: was}, {path: now}) == []


def test_the_gravest_of_several_lines_is_the_place(compare: Compare) -> None:
    was = "FROM a:1@sha256:0a1b\nRUN b\nUSER app\nCMD run\n"
    now = "FROM a:1\nRUN b\nCMD run\n"
    (found,) = compare(check, {"Dockerfile": was}, {"Dockerfile": now}).findings
    assert (found.line, found.removed_line) == (3, 3)
    assert found.message == "This protection is gone: USER, @sha256:"


def test_a_line_that_moves_to_another_file(codes: Codes) -> None:
    was = {"a.js": APP.format("app.use(helmet());\n"), "b.js": "run();\n"}
    now = {"a.js": APP.format(""), "b.js": "app.use(helmet());\nrun();\n"}
    assert codes(check, was, now) == []
