"""Secrets recognized by their name: ``password = "..."`` and similar forms."""

import re
from collections.abc import Callable, Iterator
from itertools import chain

from diffchecks.data_files import vocabulary
from diffchecks.secrets.keyword_prefilter import SearchableText, value_of
from diffchecks.secrets.secret_plausibility import (
    Hit,
    is_entered,
    is_set,
    looks_chosen,
    looks_generated,
    looks_like_policy_password,
)

_WORDS = ("pass", "pwd", "pswd", "secret", "token", "credential", "key", "pepper")
_WORD = (
    r"(?P<word>passwords?|passwd|passphrase|passwort|pwd|pswd|(?<![a-z])pass|(?<=db|my|tp)pass"
    r"|(?-i:(?<=[a-z])Pass)|pepper"
    r"|secret(?:[_.-]?(?:access[_.-]?)?key)?|token|credential|(?:api|app|auth|access|private"
    r"|signing|encryption|encrypt|client|consumer|master|account|service|storage|shared|license|session|admin|deploy|security|hmac"
    r"|jwt|crypto|cipher|fernet)[_.-]?key)"
)
# Parts after the word which show that the value is about a secret, and is not one.
_TAIL = r"(?P<tail>\w{0,24})"
_ABOUT_BEFORE = re.compile(
    r"(?:public(?:[-_ ]?key)?[-_ ]?|next[-_]?|page[-_]?|continuation[-_]?|csrf\w{0,8}|sync[-_]?"
    r"|no[-_]|encrypted[-_]?|sealed[-_]?|::\w{0,20})$",
    re.IGNORECASE,
)

_NAME = re.compile(rf"(?i)(?P<before>.*?){_WORD}{_TAIL}$")

# The last form is a literal inside a literal, as in cells of a notebook.
_LITERAL = (
    r"(?:\"(?P<a>[^\"\n]{3,300})\"|'(?P<b>[^'\n]{3,300})'|`(?P<c>[^`\n]{3,300})`"
    r"|\\\"(?P<d>[^\"\\\n]{3,300})\\\")"
)
_QUOTED = re.compile(
    rf"(?i){_WORD}{_TAIL}[\"'\])]{{0,3}}[ \t]{{0,40}}"
    r"(?:(?::|As[ \t])[ \t]{0,4}&?[\w.\[\]|? ]{1,30}?)?"
    rf"(?:=>|:=|<-|===?|[=:])[ \t]{{0,40}}[brfu@L]{{0,2}}{_LITERAL}"
)
_DEFINE = re.compile(
    rf"(?i)define\([ \t]{{0,4}}[\"']\w{{0,40}}?{_WORD}{_TAIL}[\"'][ \t]{{0,4}},[ \t]{{0,8}}"
    + _LITERAL
)
_ELEMENT = re.compile(
    rf"(?i)<[\w.:-]{{0,30}}?{_WORD}{_TAIL}[^<>\n]{{0,80}}>(?:<!\[CDATA\[)?(?P<a>[^<>\]\n]{{3,300}})"
    r"(?:\]\]>)?</"
)
_BARE = re.compile(
    # text before the name: a list's dash, a shell prompt's time, a command that sets it
    r"(?im)^(?:: \d{9,11}:\d{1,6};)?[ \t>-]{0,40}"
    r"(?:(?:export|set|env|arg|declare[ \t]{1,4}-x)[ \t]{1,8})?"
    rf"[\w.:/\[\]-]{{0,60}}?{_WORD}{_TAIL}[ \t]{{0,40}}[=:][ \t]{{0,40}}"
    r"(?P<a>[^\n\"'`]{3,300}?)[ \t]{0,40}(?:[ \t][#;][^\n]*)?$"
)
# A name and its value, separated by spaces only: directives of servers, Gradle.
_SPACED = re.compile(
    rf"(?im)^[ \t]{{0,40}}[\w.:-]{{0,60}}?{_WORD}{_TAIL}[ \t]{{1,20}}"
    r"(?P<q>[\"']?)(?P<a>[^\s\"'#;={}]{3,300})(?P=q);?[ \t]{0,40}$"
)
# The name is itself the value of an attribute or key, and the secret is beside or below it.
_NAMED = re.compile(
    rf"(?i)\b(?:name|key)[\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}}[\"']?[\w.:-]{{0,60}}?{_WORD}{_TAIL}"
    r"(?:[\"'\s,-]{1,60}value[\"']?[ \t]{0,4}[=:][ \t]{0,4}"
    r"(?:[\"'](?P<a>[^\"'<>\n]{3,300})[\"']|(?P<b>[^\s\"'<>{}]{3,300}))"
    r"|\"[^<>\n]{0,40}>(?P<c>[^<>\n]{3,300})</)"
)
_LISTED = re.compile(
    rf"(?i)<key>[\w.:-]{{0,60}}?{_WORD}{_TAIL}</key>\s{{0,40}}<string>(?P<a>[^<>\n]{{3,300}})<"
)
_HELD = re.compile(
    rf"(?i)\"\w{{0,60}}?{_WORD}{_TAIL}\"\s{{0,20}}:\s{{0,20}}\{{\s{{0,40}}\"value\"\s{{0,20}}:"
    r"\s{0,20}\"(?P<a>[^\"\n]{3,300})\""
)

# Kinds of files, by name (whole path, lower case). The form without quotes is only read in these:
# files that consist of settings,
_SETTINGS = re.compile(
    r".*\.(?:env|ini|cfg|conf|cnf|config|properties|ya?ml|toml|tfvars|tfstate|sh|bash|zsh|fish"
    r"|service|plist|xml|jsonc?|json5|credentials|prefs|rc|local)"
    r"|(?:.*/)?(?:\.?env(?:\..*)?|dockerfile.*|config|credentials|hub|\.[a-z0-9_-]+)",
    re.DOTALL,
)
# files with the credentials of one person or machine,
_PERSONAL = re.compile(
    r"(?:.*/)?(?:\.(?:bash(?:rc|_profile|_login|_history|_aliases)|zsh(?:rc|env|_history)|profile"
    r"|s3cfg|boto|tugboat|credentials|my\.cnf|mylogin\.cnf|hub|irssi.*|ncftp.*|lftprc|tfvars"
    r"|smbcredentials|passwd.*|pg_service\.conf|hgrc|wgetrc|fog|renviron|p4config"
    r"|purple/accounts\.xml)|pg_service\.conf|auth\.toml|p4enviro|winscp\.ini|confcons\.xml"
    r"|credentials|hub|rclone\.conf|heroku\.json|terraform\.tfvars"
    r"|.*\.auto\.tfvars|ventrilo_srv\.ini|config)",
    re.DOTALL,
)
# and files of one installation.
_INSTALLATION = re.compile(
    r"(?:.*/)?(?:\.env.*|[a-z0-9_-]{1,30}\.env|secrets?\.(?:ya?ml|json|toml|properties|ini)"
    r"|(?:config|configuration|config\.inc|localsettings|settings|settings\.local|database)\.php"
    r"|(?:parameters|database)\.ya?ml|local_settings\.py"
    r"|(?:gradle|keystore|signing)\.properties|.*\.secret\.exs|tomcat-users\.xml)",
    re.DOTALL,
)
# Directives of servers and Gradle need no sign between name and value; in markup and data files a
# name can be a value.
_DIRECTIVES = re.compile(r".*\.(?:conf|cnf|cfg|gradle)|(?:.*/)?\.\w+rc", re.DOTALL)
_LAID_OUT = re.compile(r".*\.(?:xml|config|plist|json|ya?ml|props|targets|resx)", re.DOTALL)
_SAMPLE = re.compile(
    r"example|sample|template|\.dist$|(?<!sites/)default|test|schema|\bci\b"
    r"|(?:^|/)(?:lang|languages?|locales?|i18n|l10n|translations?)/",
    re.IGNORECASE,
)


def _is_key(value: str) -> bool:
    """Whether it is a generated key or token, or a deliberately chosen password."""
    return looks_generated(value) or looks_like_policy_password(value)


def _judge(path: str, word: str) -> Callable[[str], bool]:
    """Select the plausibility test, by the file and by whether people choose such values."""
    if not _SAMPLE.search(path):
        if _PERSONAL.fullmatch(path):
            return is_entered
        if _INSTALLATION.fullmatch(path):
            return is_set
    return looks_chosen if is_password_word(word) else _is_key


def is_password_word(word: str) -> bool:
    """Whether people choose the values of such names; values of other names are generated."""
    return word.lower().startswith(("pass", "pwd", "psw"))


def find_secret_word(name: str) -> str:
    """The lower-case word in a name that says that its value is a secret; empty: none."""
    match = _NAME.search(name[:120])
    if (
        not match
        or vocabulary("about_secret").search(match["tail"])
        or _ABOUT_BEFORE.search(match["before"])
    ):
        return ""
    return match["word"].lower()


def find_assignments(path: str, searched: SearchableText) -> Iterator[Hit]:
    """Find literal values of names that contain password, secret, token or key."""
    path = path.lower()
    patterns = [_QUOTED, _DEFINE, _ELEMENT]
    if any(kind.fullmatch(path) for kind in (_SETTINGS, _PERSONAL, _INSTALLATION)):
        patterns.append(_BARE)
    if _DIRECTIVES.fullmatch(path):
        patterns.append(_SPACED)
    laid_out = (_NAMED, _LISTED, _HELD) if _LAID_OUT.fullmatch(path) else ()
    for match in chain(
        searched.matches(_WORDS, *patterns), searched.matches(_WORDS, *laid_out, following=2)
    ):
        word, tail = match["word"], match["tail"]
        before = searched.text[max(0, match.start("word") - 24) : match.start("word")]
        if vocabulary("about_secret").search(tail) or _ABOUT_BEFORE.search(before):
            continue
        value, start, end = value_of(match)
        if _judge(path, word)(value):
            yield Hit("generic-assignment", "Password, token, or key in the text", start, end)
