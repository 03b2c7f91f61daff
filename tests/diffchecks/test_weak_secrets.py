"""Secrets that a person made up, after the names of keys and in URLs."""

import pytest

from diffchecks.check_io import Source
from diffchecks.secrets.secret_scan import find_secrets

CHOSEN = "Summer" + "2024!"
RANDOM = "9f8a7b6c5d" + "4e3f2a1b0c9d8e7f6a5b4c"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("generic-assignment", f'API_TOKEN = "{CHOSEN}"'),
        ("generic-assignment", f'STRIPE_SECRET = "{CHOSEN}"'),
        ("generic-assignment", f'jwt_secret_key = "{CHOSEN}"'),
        ("connection-string", f'url = "postgresql://app:{CHOSEN}@db:5432/app"'),
        ("url-parameter", f'w = "https://api.weather.io/now?units=m&token={RANDOM}"'),
        ("url-parameter", f'w = "https://api.weather.io:8443?api_key={CHOSEN}"'),
    ],
)
def test_a_chosen_secret_is_found(code: str, line: str) -> None:
    (finding,) = find_secrets(Source("shop/client.py", f"{line}\n".encode()))
    assert finding.code == code
    assert not any(secret in finding.message for secret in (CHOSEN, RANDOM))
    assert set(finding.redact) <= {CHOSEN, RANDOM}


@pytest.mark.parametrize(
    "line",
    [
        'API_TOKEN = "session-token-v2"',
        'API_TOKEN = "someRandomStringWith32Characters"',
        'token = "Ann@Example2.com"',
        'api_key = "Settings.Key2!"',
        'api_key = "Which_1?"',
        'secret_format = "Key1%(name)s"',
        'url = "postgresql://app:app1@db:5432/app"',
        'url = "postgresql://app:Passw0rd@localhost/app"',
        f'w = "https://api.example.com/now?token={RANDOM}"',
        f'w = "http://localhost:8000/now?token={RANDOM}"',
        'w = "https://api.weather.io/now?token={token}"',
        'w = "https://api.weather.io/now?token=your-token-here-1"',
        f'w = "https://api.weather.io/now?etag={RANDOM}"',
    ],
)
def test_a_placeholder_is_not_a_secret(line: str) -> None:
    assert not list(find_secrets(Source("shop/client.py", f"{line}\n".encode())))


JOB = "services:\n  web:\n    image: a/b\nrun: |\n"
CURL = '  curl -X POST \\\n    "{}/sign-up" -H \'Origin: http://localhost\' \\\n    -d \'{{"email":"{}","password":"{}"}}\' | tee out\n'
CALL = "fetch('{}/login', {{ body: JSON.stringify({{ mail: 'a@b.test', password: '{}' }}) }});\n"
HERE = ("http://localhost:3000", "https://127.0.0.1", "http://[::1]:80", "http://web:8080")
ELSEWHERE = ("https://acme.io", "http://localhost.acme.io", "http://other:8080", "$BASE")


def test_a_password_that_is_sent_to_this_machine_or_a_service_of_the_job_is_no_finding() -> None:
    def codes(text: str) -> list[str]:
        return [one.code for one in find_secrets(Source("ops/a.yml", text.encode()))]

    for to in HERE:
        assert codes(JOB + CURL.format(to, "ci@app.test", CHOSEN)) == []
        assert codes(JOB + CALL.format(to, CHOSEN)) == []
    for to in ELSEWHERE:
        assert codes(JOB + CURL.format(to, "ci@app.test", CHOSEN)) == ["generic-assignment"]
        assert codes(JOB + CALL.format(to, CHOSEN)) == ["generic-assignment"]
    assert codes(CURL.format(HERE[0], "ann@acme.io", CHOSEN)) == ["generic-assignment"]
    token = "ghp_" + "a8Gk3Lq9Zx7Wv2Bn5Mt4Rc6Yp1Hs0Jd8Fe3K"
    assert codes(CURL.format(HERE[0], "ci@app.test", token)) == ["github-token"]
