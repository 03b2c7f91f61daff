"""The words by which security controls are recognized."""

import re
from collections.abc import Mapping

_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

SECURITY = frozenset(
    [
        "access",
        "acl",
        "admin",
        "admin",
        "allow",
        "allowed",
        "allowlist",
        "anonymous",
        "auth",
        "authenticated",
        "authentication",
        "authn",
        "authorization",
        "authorize",
        "authorized",
        "authz",
        "ban",
        "banned",
        "blacklist",
        "blocked",
        "blocklist",
        "cert",
        "certificate",
        "chroot",
        "confined",
        "credential",
        "credentials",
        "cred",
        "creds",
        "crlf",
        "csrf",
        "danger",
        "dangerous",
        "denied",
        "deny",
        "denylist",
        "digest",
        "disallow",
        "disallowed",
        "domain",
        "escape",
        "escaped",
        "evil",
        "expired",
        "expires",
        "expiry",
        "external",
        "fingerprint",
        "forbid",
        "forbidden",
        "forged",
        "guest",
        "hmac",
        "host",
        "hostname",
        "illegal",
        "impersonate",
        "impersonation",
        "insecure",
        "internal",
        "jail",
        "jwt",
        "login",
        "malicious",
        "netloc",
        "nonce",
        "origin",
        "owner",
        "owned",
        "passphrase",
        "password",
        "perm",
        "permission",
        "permissions",
        "permitted",
        "perms",
        "policy",
        "private",
        "privilege",
        "privileged",
        "prohibited",
        "readonly",
        "redirect",
        "referer",
        "referrer",
        "restricted",
        "role",
        "roles",
        "root",
        "safe",
        "samesite",
        "sandbox",
        "sanitize",
        "scheme",
        "schemes",
        "scope",
        "secret",
        "secure",
        "security",
        "session",
        "sign",
        "signature",
        "signed",
        "ssl",
        "staff",
        "sudo",
        "superuser",
        "symlink",
        "tenant",
        "tls",
        "token",
        "traversal",
        "trust",
        "trusted",
        "uid",
        "gid",
        "unauthenticated",
        "unauthorized",
        "unsafe",
        "untrusted",
        "verified",
        "verify",
        "whitelist",
        "xsrf",
    ]
)
"""Parts of names in conditions about permissions or about allowed targets."""

REFUSAL = re.compile(
    r"(?i)forbid|unauthori|permission|denied|disallow|not[ _]?allowed|prohibit|suspicious|security"
    r"|unsafe|untrusted|access|csrf|xsrf|mismatch|too[ _]?(?:large|many|long|big|deep)|exceed|limit"
    r"|bad_?request|traversal|illegal|dangerous|malicious|insecure|invalid|malformed"
    r"|must (?:be|not)|can(?:no|')t contain|may (?:only|not)|\b40[013]\b"
)
"""Names of rejections."""

DENIAL = re.compile(
    r"(?i)forbid|unauthori[sz]ed|(?:permission|access)[ _]?(?:denied|error)|not[ _]allowed"
    r"|\b40[13]\b"
)
"""Names of answers that deny access."""

OWNERS = re.compile(
    r"(?:(?<=[a-z])I[Dd]|_id|\bid|\bID|[oO]wner|[aA]uthor|[tT]enant)\b[\w.()\[\]'\"]*\s*[!=]==?\s*"
    r"[\w.()$>-]*(?:(?<=[a-z])I[Dd]|_id|\bid|\bID|[oO]wner|[uU]ser|[aA]uthor|[tT]enant)\b"
)
"""A comparison of an owner with the current user."""

PREDICATE = re.compile(
    r"(?i)\b(?:is|has|can|may)_?(?:safe|valid|allowed|global|local|private|internal|external|public"
    r"|auth|permi|trusted|within|inside|relative|admin|owner|blocked|forbid|hidden|symlink|secure"
    r"|same_?origin|own|access|edit|delete|read|write|manage|role|privilege|right)\w*\("
)
"""Names of predicates about permissions or targets."""

EMPTINESS = re.compile(
    r"(?:[!=]==?|is(?: not)?) (?:None|null|nil|undefined|\"\"|'')$"
    r"|^(?:None|null|nil|\"\"|'') ?[!=]="
    r"|\.(?:isEmpty|empty\?|isBlank|blank\?|nil\?|equals)\((?:\"\")?\)$|^\w+$"
)
"""A check whether there is a value."""

INJECTED = re.compile(
    r"""^['"](?:\.\.?[/\\]*|[/\\]+|-+|[;|&$`<>"'%*?\0]|\\+[rnt0x\\]\w*|(?:\\[rn]|\\x0[0ad])+|file|https?|javascript"""
    r"""|(?:https?|file|javascript):.*|localhost|[.]+\w*"""
    r"""|__proto__|prototype|constructor)['"]$"""
)
"""Strings with which untrusted input attacks a path, a header, a command line or a URL."""

SAFE = frozenset(
    {"clean", "cleansed", "constrained", "escaped", "masked", "quote", "quoted", "redacted"}
    | {"restricted", "safe", "sanitized", "secure", "sealed", "signed", "strict", "untrusted"}
    | {"escape", "sanitize", "unsafe"}
)
"""Parts of names of calls whose result is sanitized, or marked as unsafe."""

VALUES = frozenset(
    {
        "domain",
        "external",
        "host",
        "hostname",
        "login",
        "netloc",
        "passphrase",
        "password",
        "redirect",
    }
    | {"root", "scheme", "scope", "secret", "session", "token"}
)
"""Of those, the parts that name a value more often than a permission."""

NO_DECISION = re.compile(r"<\w|hasattr\(")
"""The beginning of conditions without security relevance: page elements, existence of a name."""

LEGACY = frozenset(
    {"basestring", "unicode", "long", "six", "PY2", "PY3", "version_info", "string_types"}
    | {"unicode_type", "text_type", "bytes_type", "binary_type"}
    | {"typing", "typing_extensions", "get_origin", "get_args"}
)
"""Names in conditions about the version of the language, or about its types."""

BOUND = frozenset(
    [
        "bound",
        "count",
        "depth",
        "exceed",
        "length",
        "level",
        "limit",
        "limits",
        "max",
        "maximum",
        "quota",
        "recursion",
        "size",
        "total",
        "len",
    ]
)
"""Parts of names in a condition that bounds a size, a number of rounds, or a depth."""

CHECKS = re.compile(
    r"^_*(?:(?:check|verify|validate|validated|ensure|enforce|require|assert|refuse|is_valid)(?:_|[A-Z]|$)"
    r"|(?:authori[sz]e|authenticate|restrict|forbid|deny|reject|protect|guard|is_safe|is_allowed"
    r"|has_perm|has_access|can_|may_|permit|raise_if|fail_if)"
    r"|(?:sanitize|escape|quote|clean|safe|secure|strip_tags|redact|mask|filter|scrub|drop|block)_)"
    r"|(?:^|_)(?:check|verify|validate|escape|quote|allowed|permitted)$"
    r"|^(?:escape|quote|quote_plus|normpath|realpath|secure_filename|sanitize|fchmod|chmod"
    r"|raise_for_status|is_relative_to|validated|islink|setrlimit)$"
)
"""Names of calls that check or sanitize."""

SAFE_CALL = re.compile(
    r"(?i)(?<!un)safe(?!_load)|ssrf|protected|(?<!in)secure|sanitiz|scrub|redact"
)
"""Names of calls that are the safe variant of another call."""

NORMALIZERS = frozenset({"normpath", "realpath", "abspath", "join"})
"""Calls that normalize a value without making it safe."""

STRIPS = frozenset({"lstrip", "strip", "rstrip", "replace", "translate", "removeprefix"})
"""Calls that remove characters from a value."""

NO_CHECK = re.compile(
    r"(?i)unescape|unquote|^assert_?(?:equal|that|called|not|true|false|is|in)|_equal$"
    r"|^check_(?:output|call)$|^ensure_(?:text|str|binary|bytes|unicode|list|future)$|^filter_by$"
    r"|(?:not|non)_?(?:null|none|nil)\b|^(?:assert|require)$|timing_?safe|secure_?compare|constant_?time|mark_safe|^safe_load|^unsafe|^(?:is|has|needs)_\w+ed$"
)
"""Names that look like checks and are not."""

RENEWAL = re.compile(
    r"(?i)^(?:cycle_?key|rotate_\w*(?:token|key)\w*|regenerate\w*|renew_?session|invalidate\w*|revoke\w*"
    r"|reset_session|clear_\w*sessions?|expire_(?!fragment|page|action|cache)\w+|flush_session|changeSessionId|session_regenerate_id|update_session_auth_hash)$"
)
"""Calls that renew or end a session or token."""

NO_RENEWAL = re.compile(
    r"(?i)\bcontrol\.revoke$|object_?url$|cache|quer(?:y|ies)|layout|tags?$|paths?$|(?:^|\.)(?:tasks?|jobs?)\."
)
"""Functions with such a name that end a task or delete stored results."""

ACCESS = re.compile(
    r"(?i)login_?required|permission|authori[sz]|authenticate|\bauth\b|requires?_(?!lib|py|pack)|_required$"
    r"|csrf|xsrf|(?-i:(?:require|ensure)\w*(?:Auth|Log|Admin|Owner|User|Role))"
    r"|role|staff|superuser|admin|protected\b|access_control|rate_?limit|throttle"
    r"|require_(?:POST|GET|http|safe)|never_cache|sensitive_|current_user|verify_|\bjwt|LoginRequired"
    r"|UserPasses|RequirePOST|Secured|UseGuards|IsGranted|ensureLogged|restricted|guard|enforce|policy"
)
"""Decorators, dependencies and base classes that decide who may call."""

NO_ACCESS = re.compile(
    r"(?i)csrf_exempt|deprecat|skip|mock|patch|fixture|mark\.|require[sd]?_(?:lib|version)"
    r"|\bvalidat(?:ion|ed)\b"
)

HARDENING = re.compile(
    r"(?i)^(?:resolve_entities|no_network|load_dtd|huge_tree|forbid_\w+|verify\w*|check_hostname|cert_reqs"
    r"|ca_certs?|max_\w+|no_log|\w*_?limit|limits?|timeout|perms?|permissions?|secure|httponly|samesite"
    r"|allow_(?!none)\w+|\w*unsafe\w*|safe_\w+|is_safe|strict\w*|autoescape|validate\w*|validators?|algorithms?|audience|issuer"
    r"|follow_redirects|allow_redirects|trust_env|expand_\w+|quote|escape\w*|permission\w*|policy|auth(?!or(?!i))\w*"
    r"|sanitiz\w*|csrf\w*|required_\w+|trusted\w*|whitelist\w*|blacklist\w*|\w*allowed\w*"
    r"|\w*_hosts?|cookie_\w+|weights_only|require_\w+"
    r"|max_length|min_length|max_digits|\w+_signature|signature\w*|is_admin|owner\w*|umask)$"
)
"""Names of arguments that limit or protect."""

STRONG_HARDENING = re.compile(
    r"resolve_entities|no_network|forbid_\w+|autoescape|check_hostname|cert_reqs|verify_\w+"
    r"|httponly|samesite|secure|weights_only"
)
"""Of those, arguments whose loss counts even if the whole call is removed."""

DISABLED = re.compile(r"(?i)false|none|null|nil|['\"]?(?:[\w.]+\.)?(?:cert_)?none['\"]?")
"""A value with which an argument that protects does not."""

EXPOSING = re.compile(
    r"(?i)resolve_entities|load_dtd|huge_tree|allow\w*|\w*unsafe\w*|\w*allowed\w*|follow_redirects"
    r"|trust\w*|expand_\w+|is_admin"
)
"""Of the names of arguments that limit or protect, those that do so when they are false."""

CONSTANT = re.compile(r"True|False|true|false|[\d_.]+|['\"].*['\"]|[A-Z][A-Z\d_.]*")
"""A literal, or the name of a constant."""

EXCLUDING = frozenset(
    [
        "ban",
        "banned",
        "black",
        "blacklist",
        "block",
        "blocked",
        "blocklist",
        "danger",
        "dangerous",
        "denied",
        "deny",
        "denylist",
        "disallow",
        "disallowed",
        "exclude",
        "excluded",
        "exclusion",
        "exclusions",
        "excludes",
        "forbid",
        "forbidden",
        "hidden",
        "hop",
        "illegal",
        "insecure",
        "mask",
        "masked",
        "prohibited",
        "redact",
        "redacted",
        "remove",
        "removed",
        "reserved",
        "restricted",
        "sanitize",
        "scrub",
        "secret",
        "secrets",
        "sensitive",
        "strip",
        "stripped",
        "unsafe",
        "untrusted",
    ]
)
"""Parts of names of deny lists."""

AUTHORITY = frozenset(
    {"admin", "allowed", "auth", "authenticated", "authorized", "csrf", "forbidden", "owner"}
    | {"permission", "permissions", "permitted", "privileged", "role", "roles", "signature"}
    | {"staff", "superuser", "trusted", "untrusted", "verified", "xsrf"}
)
"""Parts of names in conditions about permissions, in any language."""

DENYING = frozenset(
    {"banned", "blacklist", "blocklist", "dangerous", "denied", "deny", "denylist", "disallow"}
    | {"disallowed", "forbid", "forbidden", "illegal", "insecure", "prohibited", "redact"}
    | {"redacted", "sensitive", "unsafe"}
)
"""Of those, the parts that are specific enough for calls and variables."""

TOO_MUCH = re.compile(r"(?i)too[ _]?(?:large|many|long|big|deep)|exceed")
"""Names of rejections of too much."""

LIMITS = re.compile(r"[<>](?!=? ?[01]\b(?!\.))")
"""A comparison of sizes with something other than zero."""

LOCKING = re.compile(r"Lock|RLock|lock|synchronize|acquire|with_lock")
"""Calls that take a lock."""

CLAMPS = re.compile(r"(?i)min|clamp|take|substr(?:ing)?|slice|LimitReader|MaxBytesReader|truncate")
"""Calls that bound a number, or the amount that is read."""

MATCHES = re.compile(
    r"\.(?:match(?:es)?|fullmatch|search|findall|test|find|MatchString|Match|match\?)\(|preg_match\("
    r"|=~"
)
"""Comparisons with a pattern."""

WEAKER_CALLS: Mapping[str, frozenset[str]] = {
    "fullmatch": frozenset({"match", "search", "findall"}),
    "match": frozenset({"search", "findall"}),
    "startswith": frozenset(),
    "endswith": frozenset(),
}
"""Calls that match a whole text, and calls that accept more."""

LOCKS = re.compile(
    r"(?i)lock\b|_lock|mutex|semaphore|atomic|transaction|begin\(|critical|synchronized"
)

HEADERS = re.compile(
    r"(?i)x-frame-options|content-security-policy|x-content-type-options|strict-transport-security"
    r"|referrer-policy|cross-origin-\w+-policy|permissions-policy|cache-control|x-xss-protection"
)
"""Response headers that tell a browser what not to do."""

SENT_HEADERS = re.compile(
    r"(?i)x-frame-options|content-security-policy|x-content-type-options|strict-transport-security"
    r"|cross-origin-\w+-policy|content-disposition"
)
"""Of those, headers set by a call, and headers that make a browser download a file."""

CREDENTIAL_HEADERS = re.compile(
    r"(?i)authorization|cookie|\btoken|password|secret|location|credential|api-?key|['\"]args['\"]|environ"
)
"""Headers that must not be forwarded."""

SETTINGS = re.compile(
    r"(?i)(?:^|[._\]['\"])(?:(?<!CSRF_)trusted_\w+|verify\w*|verify_mode|check_hostname|http_?only|secure|same_?site"
    r"|expires\w*|(?<!_)max_\w+|\w+_limit|allowed_\w+|minimum_version|options|umask|autoescape|assert_\w+|permission\w*"
    r"|authentication_classes|throttle_\w+|SESSION_\w+|CSRF_(?!TRUSTED)\w+|SECURE_\w+)['\"\]]*$"
)
"""Protective attributes and settings."""


def split_words(words: frozenset[str] | set[str]) -> frozenset[str]:
    """The parts of names in lower case: ``checkHostName`` has check, host and name."""
    return frozenset(part.lower() for word in words for part in _PARTS.findall(word))


def is_hardening(name: str, value: str) -> bool:
    """Whether an argument limits or protects with that value."""
    return bool(
        HARDENING.match(name) and (not DISABLED.fullmatch(value) or EXPOSING.fullmatch(name))
    )


def is_check(name: str) -> bool:
    """Whether a call with that name checks or sanitizes a value."""
    if NO_CHECK.search(name):
        return False
    if CHECKS.search(name) or SAFE_CALL.search(name):
        return True
    return not split_words({name}).isdisjoint(SAFE)
