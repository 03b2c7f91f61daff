"""Secrets that are passed in a URL, a connection string, a call, a command line or a header."""

import base64
import binascii
from collections.abc import Iterator

from diffchecks.secrets.keyword_prefilter import SearchableText, context, value_of
from diffchecks.secrets.secret_plausibility import (
    Hit,
    is_entered,
    is_set,
    is_template,
    looks_chosen,
    looks_generated,
    looks_like_policy_password,
    reads_as_example,
)

_STAND_INS = frozenset({"pass", "passwd", "password", "passw0rd", "pwd", "secret", "token"})

_CONNECTION_WORDS = ("password=", "pwd=", "password =", "pwd =", "@tcp(", "jdbc:oracle:thin:")

_CALL_WORDS = (
    *("login(", "authenticate(", "auth(", "auth=(", "auth = (", "setcredentials("),
    *("connect(", "new mysqli(", "new pdo(", "getconnection(", "ftp_login(", "-securestring"),
)
_COMMAND_WORDS = (
    *("curl", "wget", "sshpass", "mysql", "mariadb", "mongo", "sqlcmd", "sqlplus", "redis-cli"),
    *("ldap", "plink", "pscp", "openssl", "docker", "podman", "chpasswd", "sudo"),
    *("--password", "--pass "),
)


def find_in_urls(searched: SearchableText) -> Iterator[Hit]:
    """Find passwords in URLs and connection strings of other machines."""
    for match in searched.matches(("://",), "url"):
        password, start, end = value_of(match)
        user = match["user"].lower()
        if password.lower() in _STAND_INS or password.lower() == user or is_template(user):
            continue
        if is_template(password) or reads_as_example(password):
            continue
        # A password for a local machine does not satisfy a password policy.
        nowhere = context("nowhere").match(match["host"])
        if looks_like_policy_password(password) if nowhere else is_entered(password):
            yield Hit("connection-string", "Password in a URL", start, end)
    for match in searched.matches(("://",), "query"):
        value, start, end = value_of(match)
        chosen = looks_generated(value) or looks_like_policy_password(value)
        if chosen and not context("nowhere").match(match["host"]):
            yield Hit("url-parameter", "Key or token in a URL", start, end)
    for match in searched.matches(_CONNECTION_WORDS, "connection"):
        password, start, end = value_of(match)
        if looks_chosen(password):
            yield Hit("connection-string", "Password in a connection string", start, end)


def find_in_calls(searched: SearchableText) -> Iterator[Hit]:
    """Find passwords and tokens in a login call, on a command line or in a header."""
    for match in searched.matches(_CALL_WORDS, "call"):
        password, start, end = value_of(match)
        if is_set(password) and not context("refusal").fullmatch(password):
            yield Hit("login-call", "Password in a login call", start, end, confidence=0.8)
    for match in searched.matches(_COMMAND_WORDS, "command"):
        password, start, end = value_of(match)
        if looks_chosen(password):
            yield Hit("login-call", "Password on a command line", start, end, confidence=0.8)
    for match in searched.matches(("authorization",), "header"):
        token, start, end = value_of(match)
        if _basic_password(token) if match["kind"].lower() == "basic" else looks_generated(token):
            yield Hit("authorization-header", "Credentials in an Authorization header", start, end)


def _basic_password(token: str) -> bool:
    """Whether the value of a Basic header contains a real password."""
    try:
        user, colon, password = base64.b64decode(token, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(colon) and password != user and is_set(password)
