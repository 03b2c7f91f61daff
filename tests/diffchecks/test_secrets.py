"""The secret scan: every code found, its near twin not found, nothing printed, few false alarms.

No string here looks like a live secret: tokens are put together at run time from random parts.
"""

import base64
import gzip
import json
import random
import string
import sysconfig
import time
from pathlib import Path

import pytest

from diffchecks.check_io import RawFinding
from diffchecks.secrets import secret_scan
from diffchecks.secrets.credential_files import credential_rules
from diffchecks.secrets.live_secrets import token_formats
from tests.diffchecks.check_kit import as_received, run_check
from tests.diffchecks.conftest import Bench
from tests.diffchecks.secret_samples import (
    BASE32,
    BASE58,
    FILES,
    HEX,
    LOWER,
    UPPER,
    b64,
    rand,
    uuid,
)

JWT_HEAD = "ey" + "J" + rand(20)

# code, what stands before the token, the part that makes it that service's, the rest
TOKENS = [
    ("aws-access-key", "id = ", "AK" + "IA", rand(16, UPPER)),
    ("aws-secret-key", "aws_secret_access_key = ", "", rand(40)),
    ("aws-bedrock-key", "", "AB" + "SK", rand(120)),
    ("google-api-key", "", "AI" + "za", rand(35)),
    ("google-oauth-secret", "", "GOC" + "SPX-", rand(28)),
    ("google-oauth-token", "", "ya" + "29.", rand(60)),
    ("azure-storage-key", "AccountKey=", "", rand(86) + "=="),
    ("azure-shared-access-key", "SharedAccessKey=", "", rand(43) + "="),
    ("azure-sas-token", "https://x.blob.core.windows.net/a?sv=1&sig=", "", rand(43) + "%3D"),
    ("azure-client-secret", "", rand(3) + "8" + "Q~", rand(34)),
    ("azure-devops-token", "", rand(76) + "AZ" + "DO", rand(4)),
    ("github-token", "", "gh" + "p_", rand(36)),
    ("github-token", "", "github" + "_pat_", rand(22) + "_" + rand(59)),
    ("gitlab-token", "", "gl" + "pat-", rand(20)),
    ("gitlab-token", "", "GR" + "1348941", rand(20)),
    ("bitbucket-token", "", "AT" + "BB", rand(32)),
    ("atlassian-token", "", "AT" + "ATT3", rand(180)),
    (
        "slack-token",
        "",
        "xo" + "xb-",
        f"{rand(12, '123456789')}-{rand(12, '987654321')}-{rand(24)}",
    ),
    (
        "slack-token",
        "",
        "xa" + "pp-1-",
        f"{rand(11, UPPER)}-{rand(13, '123456789')}-{rand(64, HEX)}",
    ),
    (
        "slack-webhook",
        "https://hooks.slack.com/services/",
        "T",
        f"{rand(8, UPPER)}/B{rand(8, UPPER)}/{rand(24)}",
    ),
    ("discord-webhook", f"https://discord.com/api/webhooks/{rand(18, '123456789')}/", "", rand(68)),
    ("discord-bot-token", "DISCORD = ", "M" + rand(23) + ".", rand(6) + "." + rand(27)),
    ("telegram-bot-token", "", rand(9, "123456789") + ":A" + "A", rand(33)),
    (
        "teams-webhook",
        "https://a.webhook.office.com/webhookb2/",
        "",
        f"{uuid()}@{uuid()}/IncomingWebhook/{rand(32, HEX)}",
    ),
    ("stripe-key", "", "sk_" + "live_", rand(24)),
    ("stripe-test-key", "", "sk_" + "test_", rand(24)),
    ("stripe-webhook-secret", "", "wh" + "sec_", rand(32)),
    ("square-token", "", "sq" + "0atp-", rand(22)),
    ("braintree-token", "", "access_token" + "$production$", f"{rand(16, LOWER)}${rand(32, HEX)}"),
    ("razorpay-key", "", "rzp_" + "live_", rand(14)),
    ("shopify-token", "", "sh" + "pat_", rand(32, HEX)),
    ("openai-key", "", "s" + "k-" + rand(20) + "T3Blbk" + "FJ", rand(20)),
    ("openai-key", "", "s" + "k-proj-", rand(60)),
    ("openai-style-key", "", "s" + "k-", rand(48)),
    ("anthropic-key", "", "s" + "k-ant-api03-", rand(93) + "AA"),
    ("openrouter-key", "", "s" + "k-or-v1-", rand(64, HEX)),
    ("huggingface-token", "", "h" + "f_", rand(34)),
    ("huggingface-token", "", "h" + "f_", rand(34, string.ascii_letters)),
    ("groq-key", "", "gs" + "k_", rand(52)),
    ("replicate-token", "", "r" + "8_", rand(37)),
    ("perplexity-key", "", "pp" + "lx-", rand(48)),
    ("xai-key", "", "xa" + "i-", rand(80)),
    ("langsmith-key", "", "ls" + "v2_pt_", f"{rand(32, HEX)}_{rand(10, HEX)}"),
    ("npm-token", "", "np" + "m_", rand(36)),
    ("pypi-token", "", "py" + "pi-AgE", rand(120)),
    ("rubygems-key", "", "ruby" + "gems_", rand(48, HEX)),
    ("nuget-key", "", "oy" + "2", rand(43, LOWER)),
    ("clojars-token", "", "CLO" + "JARS_", rand(60, LOWER)),
    ("dockerhub-token", "", "dck" + "r_pat_", rand(27)),
    ("artifactory-key", "", "AK" + "Cp", rand(69)),
    ("twilio-key", "twilio: ", "S" + "K", rand(32, HEX)),
    ("sendgrid-key", "", "S" + "G.", rand(22) + "." + rand(43)),
    ("mailgun-key", "mailgun: ", "ke" + "y-", rand(32, HEX)),
    ("mailchimp-key", "", rand(32, HEX) + "-u", "s14"),
    ("brevo-key", "", "xkey" + "sib-", f"{rand(64, HEX)}-{rand(16)}"),
    ("digitalocean-token", "", "dop" + "_v1_", rand(64, HEX)),
    ("heroku-key", "HEROKU_API_KEY=", "", uuid()),
    ("fly-token", "", "Fly" + "V1 fm2_", rand(120)),
    ("fly-token", "", "f" + "o1_", rand(43)),
    ("netlify-token", "", "nf" + "p_", rand(40)),
    ("supabase-key", "", "sb" + "p_", rand(40, HEX)),
    ("planetscale-token", "", "psc" + "ale_tkn_", rand(43)),
    ("databricks-token", "", "da" + "pi", rand(32, HEX)),
    ("terraform-token", "", rand(14) + ".atlas" + "v1.", rand(64)),
    ("vault-token", "", "hv" + "s.", rand(90)),
    ("pulumi-token", "", "pu" + "l-", rand(40, HEX)),
    ("doppler-token", "", "dp" + ".pt.", rand(43)),
    ("onepassword-token", "", "ops" + "_eyJ", rand(300)),
    ("age-secret-key", "", "AGE-SEC" + "RET-KEY-1", rand(58, UPPER)),
    ("tailscale-key", "", "ts" + "key-auth-", f"{rand(12)}-{rand(32)}"),
    ("newrelic-key", "", "NR" + "AK-", rand(27, UPPER)),
    ("grafana-token", "", "gl" + "sa_", f"{rand(32)}_{rand(8, HEX)}"),
    ("sentry-token", "", "sn" + "tryu_", rand(64, HEX)),
    ("dynatrace-token", "", "dt" + "0c01.", f"{rand(24, UPPER)}.{rand(64, UPPER)}"),
    ("sonar-token", "", "sq" + "p_", rand(40, HEX)),
    ("linear-key", "", "lin" + "_api_", rand(40)),
    ("notion-token", "", "nt" + "n_", rand(46)),
    ("airtable-token", "AIRTABLE=", "pa" + "t" + rand(14) + ".", rand(64, HEX)),
    ("hubspot-token", "", "pat" + "-na1-", uuid()),
    ("figma-token", "", "fi" + "gd_", rand(40)),
    ("dropbox-token", "", "s" + "l.", rand(140)),
    ("facebook-token", "", "EA" + "A", rand(120)),
    ("twitter-token", "", "A" * 21, "b" + rand(80)),
    ("firebase-server-key", "", "AAAA" + rand(7) + ":APA" + "91", rand(134)),
    ("mapbox-token", "", "sk" + ".eyJ", rand(60) + "." + rand(22)),
    ("postman-key", "", "PM" + "AK-", f"{rand(24, HEX)}-{rand(34, HEX)}"),
    ("buildkite-token", "", "bk" + "ua_", rand(40, HEX)),
    ("alibaba-key", "", "LT" + "AI", rand(20)),
    ("tencent-key", "", "AK" + "ID", rand(32)),
    ("yandex-key", "", "AQ" + "VN", rand(36)),
    ("anaconda-token", "https://conda.anaconda.org/t/", "", "ab-" + uuid()),
    ("salesforce-token", "force://PlatformCLI::", "", "5Aep" + rand(80) + "@corp"),
    ("vault-unseal-key", "Unseal Key 1: ", "", rand(44)),
    ("one-time-password-seed", "otpauth://totp/a:b?secret=", "", rand(32, BASE32)),
    ("extended-private-key", "", "xp" + "rv", rand(107, BASE58)),
    ("json-web-token", "", JWT_HEAD + ".ey" + "J", rand(30) + "." + rand(43)),
]


def b64_lines(data: bytes, indent: str = "") -> str:
    """Base64 in lines of 64 characters."""
    plain = base64.b64encode(data).decode()
    return "".join(f"{indent}{plain[at : at + 64]}\n" for at in range(0, len(plain), 64))


def found(bench: Bench, path: str, text: str | bytes) -> list[RawFinding]:
    reply = bench.run(secret_scan.run, {path: text})
    assert reply.examined == [path]
    return reply.findings


@pytest.mark.parametrize(("code", "before", "marker", "rest"), TOKENS)
def test_a_token_is_known_by_its_shape(
    bench: Bench, code: str, before: str, marker: str, rest: str
) -> None:
    token = marker + rest
    (finding,) = found(bench, "src/app.txt", f"first line\nvalue: {before}{token} and more\n")
    assert finding.code == code
    assert (finding.line, finding.end_line) == (2, 2)
    assert any(secret in token and len(secret) >= 10 for secret in finding.redact)
    assert rest[:8] not in finding.message + finding.detail


DECODERS = ["base64.b64decode('{}')", 'atob("{}")', 'Buffer.from("{}", "base64")']


@pytest.mark.parametrize("call", DECODERS)
def test_a_token_in_base64_that_is_decoded_at_once(bench: Bench, call: str) -> None:
    secret = b64("gh" + "p_" + rand(36))
    hits = found(bench, "a.py", f"K = {call.format(secret)}\n")
    assert [(raw.code, raw.message, raw.redact) for raw in hits] == [
        ("github-token", "GitHub token, in base64", (secret,))
    ]
    other = call.format(b64("any text of ours"))
    assert bench.codes(secret_scan.run, "a.py", f"K = {other}\n") == []


@pytest.mark.parametrize(
    ("code", "before", "marker", "rest"),
    [row for row in TOKENS if len(row[2]) > 1 and row[0] != "discord-bot-token"],
)
def test_a_similar_marker_is_not_a_token(
    bench: Bench, code: str, before: str, marker: str, rest: str
) -> None:
    other = marker.translate(
        str.maketrans("abcdefghijklmnopqrstuvwxyzA", "bcdefghijklmnopqrstuvwxyzaB")
    )
    other = other.replace("1348941", "1348942").replace("AZ", "ZA").replace("Q~", "Q-")
    other = (
        other.replace("r8", "r9").replace("oy2", "oy3").replace("FJ", "JF").replace("JARS", "JAR")
    )
    other = other.replace("91", "92").replace("PX", "PY")
    codes = [finding.code for finding in found(bench, "a.txt", f"x {before}{other}{rest}")]
    assert code not in codes or other == marker


def test_every_token_format_has_a_case() -> None:
    assert {shape.code for shape in token_formats()} == {code for code, *_ in TOKENS}


@pytest.mark.parametrize(
    "token", [t[2] + t[3] for t in TOKENS if t[0] in {"github-token", "npm-token"}]
)
def test_an_example_token_is_not_a_secret(bench: Bench, token: str) -> None:
    head, body = token[:-20], token[-20:]
    assert found(bench, "a.py", head + body)
    assert not found(bench, "a.py", head + "EXAMPLE" + body[7:])
    assert not found(bench, "a.py", head + "x" * 20)
    assert not found(bench, "a.py", head + "1234567890" + body[10:])


def test_the_documented_examples_of_aws_are_not_secrets(bench: Bench) -> None:
    text = f"id = {'AKIA' + 'IOSFODNN7EXAMPLE'}\naws_secret_access_key = {'wJalrXUtnFEMI/K7MDENG/bPxRfiCY' + 'EXAMPLEKEY'}\n"
    assert not found(bench, "a.ini", text)


# --- private keys -------------------------------------------------------------------------------

BODY = "\n".join(rand(64, seed=n) for n in range(6))
BEGIN, END = "-----BEGIN {}PRIVATE" + " KEY-----", "-----END {}PRIVATE" + " KEY-----"


def pem(kind: str = "", body: str = BODY) -> str:
    return f"{BEGIN.format(kind)}\n{body}\n{END.format(kind)}\n"


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "DSA "])
def test_private_key_with_a_body(bench: Bench, kind: str) -> None:
    (finding,) = found(bench, "deploy/key", "# note\n" + pem(kind))
    assert (finding.code, finding.line, finding.end_line) == ("private-key", 2, 8)
    assert set(BODY.split("\n")) <= set(finding.redact)


def test_a_marker_without_a_key_is_only_text(bench: Bench) -> None:
    assert not found(bench, "a.py", f'if line == "{BEGIN.format("")}":\n    read(key)\n')
    assert not found(bench, "a.py", pem(body="<your key here>"))


def test_private_key_in_one_string(bench: Bench) -> None:
    text = json.dumps({"private_key": pem()})
    (finding,) = found(bench, "service.json", text)
    assert finding.code == "private-key"
    assert finding.line == finding.end_line == 1
    assert finding.redact[0] in text
    assert BODY.split("\n")[3] in finding.redact[0]


def test_kinds_of_private_keys(bench: Bench) -> None:
    plain = b"openssh-key-v1\0\0\0\0\4none\0\0\0\4none" + rand(90).encode()
    locked = b"openssh-key-v1\0\0\0\0\12aes256-ctr\0\0\0\6bcrypt" + rand(90).encode()
    cases = {
        "private-key": pem("OPENSSH ", base64.b64encode(plain).decode()),
        "encrypted-private-key": pem("OPENSSH ", base64.b64encode(locked).decode()),
    }
    for code, text in cases.items():
        assert [f.code for f in found(bench, "id", text)] == [code]
    for text in (
        pem("ENCRYPTED "),
        pem("RSA ", f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{rand(32, UPPER)}\n\n{BODY}"),
    ):
        assert [f.code for f in found(bench, "id", text)] == ["encrypted-private-key"]


def test_a_key_in_tests_or_documents_is_an_example(bench: Bench) -> None:
    for path in ("tests/certs/server.key", "t/unit/keys.py", "README.md", "docs/tls.rst",
                 "examples/a.pem", "certs/localhost.key"):  # fmt: skip
        assert [f.code for f in found(bench, path, pem())] == ["example-private-key"]


def test_two_keys_have_two_identities(bench: Bench) -> None:
    other = pem(body="\n".join(rand(64, seed=n + 50) for n in range(6)))
    keys = [f.key for f in found(bench, "keys", pem() + other + pem())]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize(
    ("locked", "code"), [("none", "private-key"), ("aes256-cbc", "encrypted-private-key")]
)
def test_putty_key(bench: Bench, locked: str, code: str) -> None:
    text = (
        f"PuTTY-User-Key-File-2: ssh-rsa\nEncryption: {locked}\nComment: x\nPublic-Lines: 1\n"
        f"{rand(64)}\nPrivate-Lines: 2\n{rand(64, seed=1)}\n{rand(64, seed=2)}\nPrivate-MAC: {rand(40, HEX)}\n"
    )
    (finding,) = found(bench, "a.ppk", text)
    assert (finding.code, finding.line) == (code, 7)


def test_the_shared_key_of_a_tunnel(bench: Bench) -> None:
    body = "\n".join(rand(32, HEX, seed=n) for n in range(16))
    mark = "-----{} OpenVPN Static" + " key V1-----"
    text = f"{mark.format('BEGIN')}\n{body}\n{mark.format('END')}\n"
    (finding,) = found(bench, "office.ovpn", text)
    assert (finding.code, finding.redact) == ("private-key", tuple(body.split("\n")))
    assert [f.code for f in found(bench, "tests/a.ovpn", text)] == ["example-private-key"]
    assert not found(bench, "office.ovpn", text.replace(body, "(the key)"))


def test_a_public_web_key_is_no_secret(bench: Bench) -> None:
    public = f'{{"kty": "RSA", "e": "AQAB", "n": "{rand(342)}"}}'
    assert not found(bench, "jwks.json", public)
    (finding,) = found(bench, "jwks.json", public[:-1] + f', "d": "{rand(342, seed=1)}"}}')
    assert finding.code == "private-key"


# --- secrets known by the file they stand in ----------------------------------------------------


@pytest.mark.parametrize("part", range(6))
def test_a_credentials_file_gives_its_secret_and_with_templates_none(
    bench: Bench, part: int
) -> None:
    for code, path, text, secret in FILES[part::6]:
        (finding,) = found(bench, path, text.format(secret))
        assert (finding.code, finding.redact) == (code, (secret,)), path
        assert secret in text.format(secret).split("\n")[finding.line - 1], path
        assert secret not in finding.message, path
        for value in ("", "${TOKEN}", "<password>", "{{ vault_password }}"):
            if not (value.startswith("<") and path.endswith(".xml")):  # XML cannot hold that
                assert not found(bench, path, text.format(value)), (path, value)


def test_every_kind_of_file_has_its_case() -> None:
    assert {rule.code for rule in credential_rules()} <= {code for code, *_ in FILES}


def test_plain_digests_only_count_in_a_table_of_users(bench: Bench) -> None:
    digest = rand(40, HEX)
    assert found(bench, "a.sql", f"INSERT INTO wp_users VALUES (1, '{digest}');")
    assert not found(bench, "a.sql", f"INSERT INTO files VALUES (1, '{digest}');")


def test_a_sealed_or_empty_manifest_is_no_secret(bench: Bench) -> None:
    data = f"data:\n  password: {b64('Jk82h' + 'Qpz')}\n"
    assert found(bench, "a.yaml", "kind: Secret\n" + data)
    for text in ("kind: ConfigMap\n", "kind: Secret\n---\nkind: ConfigMap\n"):
        assert "kubernetes-secret" not in [f.code for f in found(bench, "a.yaml", text + data)]
    sealed = f"kind: SealedSecret\nencryptedData:\n  password: AgB{rand(400)}==\n"
    assert not found(bench, "a.yaml", sealed)
    assert not found(bench, "a.yaml", f"password: ENC[AES256_GCM,data:{rand(24)}==,type:str]\n")
    assert not found(bench, "a.yaml", f"kind: Secret\ndata:\n  username: {b64('Jk82h' + 'Qpz')}\n")


def test_a_password_that_maven_has_sealed_is_no_secret(bench: Bench) -> None:
    for password, secret in ((rand(20), True), (f"{{{rand(43)}=}}", False)):
        text = f"<servers><server><password>{password}</password></server></servers>"
        assert bool(found(bench, "settings.xml", text)) is secret


def test_a_dump_of_users_is_cut_and_says_so(bench: Bench) -> None:
    rows = "\n".join(f"({n}, '$2y$12${rand(53, seed=n)}')," for n in range(150))
    findings = found(bench, "dump.sql", rows)
    assert len(findings) == secret_scan.MAX_OF_A_KIND
    assert findings[-1].detail == "50 more of this kind in this file are not listed"


def test_a_list_of_access_keys_gives_both_parts(bench: Bench) -> None:
    name = "AK" + "IA" + rand(16, UPPER)
    text = f"Access key ID,Secret access key\n{name},{rand(40)}\n"
    codes = [f.code for f in found(bench, "bob_accessKeys.csv", text)]
    assert codes == ["aws-access-key", "credential-file"]
    assert not found(bench, "bob_accessKeys.csv", f"a,b\n{rand(20, UPPER)},{rand(40)}\n")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("remote.py", 'CHOICES = {"password": "ask", "token": "keep"}\n'),
        ("deploy.js", "field({'passphrase': 'required'})\n"),
        ("etc/pam.conf", "password required pam_unix.so sha512\npassword sufficient tuna41\n"),
        ("muttrc", "set imap_pass = `gpg -d pass.gpg`\n"),
        (".mbsyncrc", 'PassCmd "pass show mail41"\n'),
        ("ks.cfg", "rootpw --lock\n"),
        ("user-data", "chpasswd:\n  list: |\n    root:RANDOM\n"),
        ("squid.conf", "cachemgr_passwd disable all\n"),
        ("inventory.ini", "web ansible_password= ansible_port=2222\n"),
        ("web.config", '<machineKey validationKey="AutoGenerate,IsolateApps" />'),
        ("deploy.yaml", "- name: DB_PASSWORD\n  valueFrom:\n    key: tuna41Salad\n"),
        ("strings.xml", '<string name="password">Mot de passe</string>'),
        ("lang/de/settings.php", "  'new_password' => 'Kennwort',\n"),
        ("lang/ja/settings.php", "  'new_password' => '\u65b0\u3057\u3044\u30d1\u30b9\u30ef',\n"),
        ("Command.php", "['password' => 'required|string|min:8']\n"),
        ("auth.js", 'const page = authenticate("oidc", "Unauthorized", true);\n'),
        ("run.sh", "docker login -p $TOKEN; redis-cli -a; openssl rsa -passin pass:$P -in a\n"),
        ("run.sh", "echo 'root:hunter2' > out; mkdir -p tuna41/Salad\n"),
    ],
)
def test_a_similar_format_has_no_secret(bench: Bench, path: str, text: str) -> None:
    assert not found(bench, path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("deploy.yaml", "- name: DB_PASSWORD\n  value: {}\n"),
        ("a.conf", "AuthLDAPBindPassword {}\n"),
        ("fastlane.gradle", "storePassword '{}'\n"),
        ("a.ipynb", '"password = \\"{}\\"",\n'),
        ("a.php", '$smtpPass = "{}";\n'),
        ("a.conf", 'secret.key = "{}"\n'),
    ],
)
def test_forms_of_a_named_password(bench: Bench, path: str, text: str) -> None:
    (finding,) = found(bench, path, text.format("tuna" + "Salad41bRq8Zw2"))
    assert (finding.code, finding.confidence) == ("generic-assignment", 1.0)
    assert not found(bench, path, text.format("password"))


# --- names and values ---------------------------------------------------------------------------

CHOSEN, GENERATED = "Jk82" + "hQpz", rand(24)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", 'password = "{}"'),
        ("a.py", 'password            = "{}"'),
        ("a.py", 'connect(host="db", passwd=b"{}")'),
        ("a.py", "DB_PASS: str = '{}'"),
        ("a.py", 'if user.password == "{}":'),
        ("a.js", '  dbPassword: "{}",'),
        ("a.js", "auth: {{ user: 'bob', pass: '{}' }}"),
        ("a.ts", "const password: string = `{}`;"),
        ("A.java", 'private static final String PASSWORD = "{}";'),
        ("a.go", 'pwd := "{}"'),
        ("a.php", "$config['password'] = '{}';"),
        ("a.php", "define('FTP_PASSWORD', '{}');"),
        ("a.tf", '  master_password = "{}"'),
        ("a.xml", "<password>{}</password>"),
        ("a.yml", "  password: {}"),
        ("docker-compose.yml", "      - MYSQL_ROOT_PASSWORD={}"),
        ("a.properties", "spring.datasource.password={}"),
        ("a.ini", "[db]\npassword = {} ; main"),
        ("a.sh", "export PGPASSWORD={}"),
        ("Dockerfile", "ENV DB_PASSWORD={}"),
    ],
)
def test_a_password_given_to_a_name(bench: Bench, path: str, line: str) -> None:
    (finding,) = found(bench, path, line.format(CHOSEN))
    assert (finding.code, finding.redact) == ("generic-assignment", (CHOSEN,))
    for plain in ("", "password", "changeme", "your_password", "${DB_PASS}", "<password>", "xxxxxxxx",
                  "{{ password }}", "%(password)s", "not a password", "db-password-1", "test123"):  # fmt: skip
        assert not found(bench, path, line.format(plain)), plain


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "client_secret", "ACCESS_TOKEN", "secretKey", "auth-token"]
)
def test_a_key_given_to_a_name(bench: Bench, name: str) -> None:
    assert [f.code for f in found(bench, "a.py", f'"{name}": "{GENERATED}"')] == [
        "generic-assignment"
    ]
    for plain in ("access_token", "my-secret-name", "python-requests/2.31.0", uuid(), "a" * 24, "x-api-key",
                  "AES256-GCM-SHA384-suite", "this is a message with 123", "com.example.Token123"):  # fmt: skip
        assert not found(bench, "a.py", f'"{name}": "{plain}"'), plain


@pytest.mark.parametrize(
    "name",
    ["token_url", "password_hash", "secret_name", "next_token", "public_key", "tokenizer", "api_key_id", "etag",
     "publicKeyToken", "PassedToService", "password_field", "integrity", "sha"],
)  # fmt: skip
def test_a_name_about_a_secret_has_no_secret_value(bench: Bench, name: str) -> None:
    assert not found(bench, "a.py", f'{name} = "{GENERATED}"')


def test_a_condition_that_text_is_put_into_holds_no_password(bench: Bench) -> None:
    query = """query = "SELECT * FROM users WHERE password='"+password9+"' AND name='"+name+"'"\n"""
    assert not found(bench, "a.py", query)
    assert found(bench, "a.py", "password = 'x1+password9+'\n")


def test_a_generated_key_with_signs(bench: Bench) -> None:
    value = "zh!=!gq(w^_t[sBR29954x)" + "HI+$ehwss*xYNQeu([xcW"
    assert found(bench, "settings.py", f"SECRET_KEY = '{value}'")
    assert not found(
        bench, "settings.py", "SECRET_KEY = 'os.environ.get(\"KEY\", make_default_key(), 1, 2)'"
    )


@pytest.mark.parametrize(
    "path",
    ["tests/test_a.py", "src/a.test.js", "conftest.py", "README.md", "docs/a.py", "examples/a.py"],
)
def test_passwords_of_tests_and_documents_are_made_up(bench: Bench, path: str) -> None:
    assert not found(bench, path, f'password = "{CHOSEN}"')
    token = "gh" + "p_" + rand(36)
    assert [f.confidence for f in found(bench, path, token)] == [0.7]


def test_digests_of_a_lock_file_are_not_secrets(bench: Bench) -> None:
    line = f'"token": "{GENERATED}"'
    assert found(bench, "a.json", line)
    assert not found(bench, "package-lock.json", line)


@pytest.mark.parametrize(
    ("code", "good", "bad"),
    [
        (
            "connection-string",
            "postgresql://svc:{}@db.corp.net/x",
            "postgresql://svc:{}@localhost/x",
        ),
        (
            "connection-string",
            "mongodb+srv://a:{}@c0.mongodb.net",
            "mongodb+srv://a:{}@example.com",
        ),
        (
            "connection-string",
            "Server=db.corp.net;Uid=sa;Password={};",
            "Server=db.corp.net;Uid=sa;Hint={};",
        ),
        ("login-call", 'smtp.login("ops@corp.net", "{}")', 'smtp.logout("ops@corp.net", "{}")'),
        ("login-call", "curl -u deploy:{} https://nexus", "curl -X deploy:{} https://nexus"),
        ("login-call", "sshpass -p {} ssh root@host", "sshpass -f {} ssh root@host"),
        ("login-call", "mysql -u root -p{} db", "mysql -u root -h{} db"),
    ],
)
def test_a_password_passed_to_a_call(bench: Bench, code: str, good: str, bad: str) -> None:
    (finding,) = found(bench, "a.txt", good.format(CHOSEN))
    assert (finding.code, finding.redact) == (code, (CHOSEN,))
    assert not found(bench, "a.txt", bad.format(CHOSEN))
    assert not found(bench, "a.txt", good.format("password"))
    assert not found(bench, "a.txt", good.format("${PASSWORD}"))


def test_authorization_headers(bench: Bench) -> None:
    assert [f.code for f in found(bench, "a.py", f'{{"Authorization": "Bearer {GENERATED}"}}')] == [
        "authorization-header"
    ]
    assert [
        f.code for f in found(bench, "a.py", f"Authorization: Basic {b64('bob:' + CHOSEN)}")
    ] == ["authorization-header"]
    assert not found(bench, "a.py", '{"Authorization": "Bearer " + token}')
    assert not found(bench, "a.py", f"Authorization: Basic {b64('user:password')}")


# --- the whole file -----------------------------------------------------------------------------


def test_one_secret_is_one_finding(bench: Bench) -> None:
    token = "gh" + "p_" + rand(36)
    assert [f.code for f in found(bench, ".env", f'GITHUB_TOKEN="{token}"\n')] == ["github-token"]


def test_line_numbers_are_those_of_git(bench: Bench) -> None:
    token = "gh" + "p_" + rand(36)
    (finding,) = found(bench, "a.txt", f"a\r\nb\x0c\u2028\rc\r\n{token}\r\n")
    assert finding.line == 3


def test_names_and_texts_that_are_not_utf8(bench: Bench) -> None:
    token = "gh" + "p_" + rand(36)
    reply = bench.run(secret_scan.run, {"caf\udce9.txt": b"caf\xe9 " + token.encode()})
    assert [each.path for each in as_received(reply).findings] == ["caf\udce9.txt"]


def test_a_file_that_is_not_there_or_too_large_is_a_gap(bench: Bench) -> None:
    bench.write({"large.bin": b"\0" * (8 << 20) + b"x"})
    reply = run_check(secret_scan.run, {"root": str(bench.root), "paths": ["gone", "large.bin"]})
    assert reply.examined == []
    assert reply.gaps == {
        "gone": "could not be read: No such file or directory",
        "large.bin": "larger than 8 MiB",
    }


@pytest.mark.parametrize(
    ("begins", "piece"),
    [("", piece) for piece in (
        "a", "password=", "://a:", "=", "curl ", "0123456789abcdef", "-----BEGIN ", " ", 'token: "', "\0",
        "server=", "INSERT INTO users ", "$6$", '{"kty":"RSA",', 'name="password" ',
    )] + [("ey" + "J", "a")],
)  # fmt: skip
@pytest.mark.parametrize("path", ["a.py", "dump.sql", ".env"])
def test_hostile_lines_take_linear_time(bench: Bench, path: str, begins: str, piece: str) -> None:
    start = time.process_time()
    bench.run(secret_scan.run, {path: begins + piece * (75_000 // len(piece))})
    assert time.process_time() - start < 0.75


def test_few_false_alarms_in_the_standard_library(bench: Bench) -> None:
    folder = Path(sysconfig.get_path("stdlib"))
    paths = sorted(p.relative_to(folder).as_posix() for p in folder.glob("[a-z]*.py"))[:100]
    paths += sorted(
        p.relative_to(folder).as_posix()
        for p in folder.glob("*/[a-z]*.py")
        if p.parts[-2] != "site-packages"
    )[::20]
    reply = run_check(secret_scan.run, {"root": str(folder), "paths": paths})
    lines = sum((folder / path).read_bytes().count(b"\n") for path in reply.examined)
    assert lines > 40_000
    assert len(reply.findings) <= 2 * lines / 10_000
    assert not reply.gaps


DER = bytes.fromhex("308204a4020100028201010012") + random.Random(7).randbytes(1180)
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{b64_lines(DER)}-----END RSA PRIVATE KEY-----\n"
CERTIFICATE = (
    f"-----BEGIN CERTIFICATE-----\n{b64_lines(bytes.fromhex('3082038130820269a0') + DER[16:])}"
)
PASSWORD = "Hq7wLp2x" + "Vn9Tu4mZ"
DOCKER = json.dumps({"auths": {"r.example.org": {"auth": b64(f"u:{PASSWORD}")}}})
GOOGLE = json.dumps({"type": "service_account", "private_key": PEM})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("s.yaml", f"kind: Secret\ndata:\n  tls.key: {b64(PEM)}\n"),
        ("s.yaml", "kind: Secret\ndata:\n  tls.key: |\n" + b64_lines(PEM.encode(), "    ")),
        ("m.tf", f'locals {{\n  tls_key = "{b64(PEM)}"\n}}\n'),
        ("values.yaml", f"tls:\n  key: {b64(PEM)}\n"),
        ("c.json", json.dumps({"key": b64(PEM)})),
        ("c.ts", f'export const cert = "{b64(PEM)}";\n'),
        ("c.ts", "const k = `" + b64(PEM).replace("+", "-").replace("/", "_").rstrip("=") + "`;\n"),
        ("c.py", "K = (\n" + "".join(f'    "{x}"\n' for x in b64_lines(PEM.encode()).split()) + ")\n"),
        ("C.java", "K = " + " +\n".join(f'    "{x}"' for x in b64_lines(PEM.encode()).split()) + ";\n"),
        ("c.js", "const k = ''" + "".join(f"\n  + '{x}'" for x in b64_lines(PEM.encode()).split()) + ";\n"),
        (".env", f"TLS={b64(PEM)}\n"),
        ("a.yaml", f"env:\n  GOOGLE_CREDENTIALS: {b64(GOOGLE)}\n"),
        ("a.properties", f"jwt.signer={base64.b64encode(DER).decode()}\n"),
        ("a.yaml", f"release: {base64.b64encode(base64.b64encode(gzip.compress(PEM.encode()))).decode()}\n"),
    ],
)  # fmt: skip
def test_a_private_key_in_base64_is_one_in_any_file(bench: Bench, path: str, text: str) -> None:
    (finding,) = found(bench, path, text)
    assert finding.code == "private-key"
    example = [one.code for one in found(bench, f"tests/{path}", text)]
    assert example == ["example-private-key"]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("docker-auth", f"kind: Secret\ndata:\n  .dockerconfigjson: {b64(DOCKER)}\n"),
        ("generic-assignment", f"kind: Secret\ndata:\n  app.env: {b64(f'DB_PASSWORD={PASSWORD}')}\n"),
        ("docker-auth", f"kind: Secret\nstringData:\n  .dockerconfigjson: |\n    {DOCKER}\n"),
        ("docker-auth", f"variable: {json.dumps(DOCKER)}\n"),
        ("generic-assignment", f'kind: Secret\ndata:\n  password: {{{{ "{PASSWORD}" | b64enc }}}}\n'),
        ("kubernetes-secret", f"kind: Secret\ndata:\n  URL: {b64(f'postgres://app:{PASSWORD}@db:5432/a')}\n"),
        ("kubernetes-secret", f"kind: Secret\nstringData:\n  app: |\n    {PASSWORD}\n"),
        ("kubernetes-secret", f"kind: Secret\ndata: {{app: {b64(PASSWORD)}}}\n"),
        ("kubernetes-secret", f"kind: Secret\ndata:\n  app: {base64.b64encode(bytes(range(128, 256)) * 20).decode()}\n"),
        ("kubernetes-secret", f"kind: List\nitems:\n- kind: Secret\n  data:\n    app: {b64(PASSWORD)}\n"),
        ("kubernetes-secret", f"{{{{- if .Values.a }}}}\nkind: Secret\ndata:\n  b: {{{{ .Values.b }}}}\n  app: {b64(PASSWORD)}\n{{{{- end }}}}\n"),
        ("encrypted-private-key", f"kind: ConfigMap\nbinaryData:\n  app.p12: {base64.b64encode(bytes.fromhex('308209a102010330') + bytes(900)).decode()}\n"),
    ],
)  # fmt: skip
def test_a_manifest_holds_logins_files_and_keystores(bench: Bench, code: str, text: str) -> None:
    path = "charts/a/templates/s.yaml" if "{{" in text else "s.yaml"
    assert [finding.code for finding in found(bench, path, text)] == [code]


def test_a_secret_in_json_is_found_where_it_stands(bench: Bench) -> None:
    text = json.dumps({"kind": "Secret", "data": {"app": b64(PASSWORD)}}, indent=1)
    (finding,) = found(bench, "s.json", text)
    assert (finding.code, finding.redact) == ("kubernetes-secret", (b64(PASSWORD),))
    assert b64(PASSWORD) in text.split("\n")[finding.line - 1]


@pytest.mark.parametrize(
    "text",
    [
        f"image: {base64.b64encode(bytes(range(256)) * 8).decode()}\n",
        f"ca: {b64(CERTIFICATE)}\n",
        f"public: {base64.b64encode(bytes.fromhex('30820122300d06092a864886f70d0101010500') + bytes(300)).decode()}\n",
        f"text: {b64('Say how to log in: the password is sent by mail, and never shown here.')}\n",
        f"config: {b64('password=${DB_PASSWORD}')}\n",
        f"kind: ConfigMap\ndata:\n  app: {b64(PASSWORD)}\n",
        f"kind: SealedSecret\nspec:\n  encryptedData:\n    password: AgB{rand(70)}\n",
        f"password: ENC({rand(32)})\n",
        f"encrypted_password: {rand(32)}\n",
        f"db.password=![{rand(24)}==]\n",
        f"password: U2FsdGVkX1{rand(34)}=\n",
        f"secret_value: gAAAAAB{rand(113)}=\n",
        f"password: AQICAH{rand(60)}\n",
        "username: petclinic7\npassword: petclinic7\n",
        "CREATE USER 'petclinic7'@'%' IDENTIFIED BY 'petclinic7';\n",
    ],
)  # fmt: skip
def test_what_is_public_encrypted_or_a_sample_is_no_secret(bench: Bench, text: str) -> None:
    assert not found(bench, "a.sql" if text.startswith("CREATE") else "a.yaml", text)


@pytest.mark.attack("text that makes the search for base64 slow")
def test_the_search_for_base64_takes_linear_time(bench: Bench) -> None:
    started = time.process_time()
    for text in ("a" * 23 + " ", "A" * 30 + "\n" + " " * 80, "A" * 76 + "\n", "A" * 24 + '"+\n"'):
        found(bench, "a.txt", text * (500_000 // len(text)))
    assert time.process_time() - started < 8
