"""Secrets that are passed in a URL, a connection string, a call, a command line or a header."""

import base64
import binascii
import re
from collections.abc import Iterator

from diffchecks.secrets.keyword_prefilter import SearchableText, value_of
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

_URL = re.compile(
    r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://(?P<user>[^\s:/@\"'<>`|,()]{0,80}):"
    r"(?P<a>[^\s/\"'<>`|]{3,200})@(?P<host>[\w.-]{1,120})"
)
# Hosts that are only reachable locally, and placeholder host names.
_NOWHERE = re.compile(
    r"localhost|127\.|0\.0\.0\.0|host\.docker|[^.]*$|.*\.(?:local|localhost|test|invalid|example)$"
    r"|(?:.*\.)?(?:example|foo|bar|domain|host|server|acme|test)\.|myhost|.*your",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"(?i)\bhttps?://(?P<host>[\w.-]{1,120})(?::\d{1,5})?(?:/[^\s?\"'<>`#]{0,300})?\?(?:[^\s\"'<>`#]{0,300}?&)?"
    r"(?:(?:access|auth|api|bot|private|personal|refresh|client)?[_-]?(?:token|key|secret)|sig|password|passwd|pwd)="
    r"(?P<a>[^\s\"'<>`#&]{8,300})"
)
_STAND_INS = frozenset({"pass", "passwd", "password", "passw0rd", "pwd", "secret", "token"})

_CONNECTION_WORDS = ("password=", "pwd=", "password =", "pwd =", "@tcp(", "jdbc:oracle:thin:")
_CONNECTION = re.compile(
    r"(?i)(?:(?:server|data source|host|addr|address|endpoint|user ?id|uid|initial catalog|database"
    r"|jdbc:)[^\n\"'`]{1,300}?[;?&](?:password|pwd)\s?=\s?"
    # the syntax of libpq, of Go's MySQL driver, and of Oracle's driver
    r"|\b(?:host|dbname|user|port)=[^\n\"'`]{1,300}?\spassword="
    r"|[\"'`\s=]\w{1,60}:(?=[^\s@\"'`]{3,128}@tcp\((?!localhost|127\.))"
    r"|jdbc:oracle:thin:[^\s/\"'@]{1,60}/(?=[^\s@\"'`]{3,128}@))"
    r"(?P<a>[^;&\s\"'`<>{}@]{3,128})"
)

_CALL_WORDS = (
    *("login(", "authenticate(", "auth(", "auth=(", "auth = (", "setcredentials("),
    *("connect(", "new mysqli(", "new pdo(", "getconnection(", "ftp_login(", "-securestring"),
)
_CALL = re.compile(
    r"(?i)(?:(?:\b(?:login|authenticate|basic_?auth|HTTPBasicAuth|setCredentials)|auth ?= ?)\("
    r"[ \t]{0,4}"
    # the handle, the host or the data source come first
    r"|\b(?:mysqli?_p?connect|new mysqli|new PDO|getConnection|ftp_login)\([ \t]{0,4}"
    r"(?:[\"'][^\"'\n]{1,200}[\"']|\$?\w[\w.>-]{0,60})[ \t]{0,4},[ \t]{0,4})"
    r"[\"'][^\"'\s]{2,80}[\"'][ \t]{0,4},[ \t]{0,4}[\"'](?P<a>[^\"'\s]{4,128})[\"']"
    r"|\bConvertTo-SecureString[ \t]{1,4}(?:-String[ \t]{1,4})?[\"'](?P<b>[^\"'\s$]{4,128})[\"']"
)
_REFUSAL = re.compile(r"(?i)(?:un)?authori[sz]ed|denied|failed|forbidden|invalid|required")
_COMMAND_WORDS = (
    *("curl", "wget", "sshpass", "mysql", "mariadb", "mongo", "sqlcmd", "sqlplus", "redis-cli"),
    *("ldap", "plink", "pscp", "openssl", "docker", "podman", "chpasswd", "sudo"),
    *("--password", "--pass "),
)
_REACHED = r"[^\n|;]{0,200}?\s"
_COMMAND = re.compile(
    r"\bcurl\b[^\n|;]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"'$]{1,80}:(?P<a>[^\s\"'$@]{4,128})"
    r"|\becho\s{1,4}(?:-\w\s{1,4})?[\"']?(?:(?P<b>[^\s\"'$|]{4,128})[\"']?\s{0,4}\|\s{0,4}sudo\s{1,4}-S"
    r"|\w{1,32}:(?P<c>[^\s\"'$|]{4,128})[\"']?\s{0,4}\|[^\n|;]{0,40}\bchpasswd)"
    rf"|(?:\b(?:mysql|mysqldump|mysqladmin|mariadb)\b{_REACHED}-p|\bsshpass\s{{1,4}}-p\s{{0,4}}"
    rf"|\b(?:mongo\w{{0,8}}|(?:docker|podman)\b{_REACHED}login)\b{_REACHED}-p\s{{1,4}}"
    rf"|\bredis-cli\b{_REACHED}-a\s{{1,4}}|\bldap[a-z]{{3,9}}\b{_REACHED}-w\s{{1,4}}"
    rf"|\bsqlcmd\b{_REACHED}-P\s{{0,4}}|\b(?:plink|pscp)\b{_REACHED}-pw\s{{1,4}}"
    rf"|\bopenssl\b{_REACHED}-pass(?:in|out)?\s{{1,4}}[\"']?pass:"
    rf"|\bsqlplus\s[^\n|;]{{0,60}}?\b\w{{1,60}}/|\s--pass(?:word)?[ =])"
    r"[\"']?(?P<d>[^\s\"'$<>{}-][^\s\"'$<>{}@]{3,128})"
)
_HEADER = re.compile(
    r"(?i)\bauthorization[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[bf]?[\"']?"
    r"(?P<kind>basic|bearer|token|apikey)[ \t]{1,4}(?P<a>[A-Za-z0-9+/=_.~-]{8,2000})"
)


def find_in_urls(searched: SearchableText) -> Iterator[Hit]:
    """Find passwords in URLs and connection strings of other machines."""
    for match in searched.matches(("://",), _URL):
        password, start, end = value_of(match)
        user = match["user"].lower()
        if password.lower() in _STAND_INS or password.lower() == user or is_template(user):
            continue
        if is_template(password) or reads_as_example(password):
            continue
        # A password for a local machine does not satisfy a password policy.
        nowhere = _NOWHERE.match(match["host"])
        if looks_like_policy_password(password) if nowhere else is_entered(password):
            yield Hit("connection-string", "Password in a URL", start, end)
    for match in searched.matches(("://",), _QUERY):
        value, start, end = value_of(match)
        chosen = looks_generated(value) or looks_like_policy_password(value)
        if chosen and not _NOWHERE.match(match["host"]):
            yield Hit("url-parameter", "Key or token in a URL", start, end)
    for match in searched.matches(_CONNECTION_WORDS, _CONNECTION):
        password, start, end = value_of(match)
        if looks_chosen(password):
            yield Hit("connection-string", "Password in a connection string", start, end)


def find_in_calls(searched: SearchableText) -> Iterator[Hit]:
    """Find passwords and tokens in a login call, on a command line or in a header."""
    for match in searched.matches(_CALL_WORDS, _CALL):
        password, start, end = value_of(match)
        if is_set(password) and not _REFUSAL.fullmatch(password):
            yield Hit("login-call", "Password in a login call", start, end, confidence=0.8)
    for match in searched.matches(_COMMAND_WORDS, _COMMAND):
        password, start, end = value_of(match)
        if looks_chosen(password):
            yield Hit("login-call", "Password on a command line", start, end, confidence=0.8)
    for match in searched.matches(("authorization",), _HEADER):
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
