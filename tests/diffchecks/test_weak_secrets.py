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
