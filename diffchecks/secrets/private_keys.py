"""Private keys: PEM and OpenPGP blocks, keys of PuTTY and OpenVPN, JSON and XML.

A marker without a key is not a finding.
"""

import hashlib
import re
from collections.abc import Iterator

from diffchecks.secrets.encoded_text import decode_value, key_code
from diffchecks.secrets.secret_plausibility import Hit

_BEGIN = re.compile(
    r"-----BEGIN ((?:[A-Z0-9]{1,12} ){0,3})PRIVATE KEY(?: BLOCK)?-----"
    r"|^PuTTY-User-Key-File-\d: ",
    re.MULTILINE,
)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY")
_PUTTY_BODY = re.compile(r"^Private-Lines: \d+\s+([A-Za-z0-9+/=\s]{64,})", re.MULTILINE)
# Allowed between the base64 of a block: raw or escaped line ends, quotes, string concatenation.
_FILLER = re.compile(r"\\[nr]|[\s\"'+,;\\#*>]+")
_HEADER = re.compile(r"^[A-Za-z-]{3,20}:[^\n]{0,200}$", re.MULTILINE)
_BASE64 = re.compile(r"[A-Za-z0-9+/=]{64,}")
MAX_LENGTH = 20_000
_EXAMPLE = "Private key in a test, an example, or documentation"
# Keys on one line: OpenVPN's shared key, a JSON Web Key, an RSA key of .NET.
_WHOLE = re.compile(
    r"-----BEGIN OpenVPN Static key V1-----(?P<openvpn>[0-9a-f\s]{512,600})"
    r"|\"kty\"\s{0,4}:\s{0,4}\"(?:RSA|EC|OKP|oct)\"[^{}]{0,2500}?\"[dk]\"\s{0,4}:\s{0,4}"
    r"\"(?P<json>[\w-]{43,1400})\""
    r"|<RSAKeyValue>[^\n]{0,1400}?<D>(?P<xml>[A-Za-z0-9+/=]{64,1400})</D>"
)


def _pem(text: str, start: int, kind: str) -> tuple[int, int, str, bool] | None:
    """The span, base64 and encryption of a block whose first marker ends at start."""
    other = text.find("-----BEGIN ", start, start + MAX_LENGTH)  # no key contains another
    last = other if other >= 0 else start + MAX_LENGTH
    end = _PEM_END.search(text, start, last)
    inside = text[start : end.start() if end else last]
    encrypted = "ENCRYPTED" in kind or "Proc-Type: 4,ENCRYPTED" in inside
    body = _BASE64.match(_FILLER.sub("", _HEADER.sub("", inside)))
    if not body or len(set(body[0])) < 16:
        return None
    if "OPENSSH" in kind:
        encrypted = key_code(decode_value(body[0])) == "encrypted-private-key"
    return start, (end.start() if end else start + len(body[0])), body[0], encrypted


def _putty(text: str, start: int) -> tuple[int, int, str, bool] | None:
    body = _PUTTY_BODY.search(text, start, start + MAX_LENGTH)
    if not body:
        return None
    encrypted = not re.search(r"^Encryption: none", text[start : body.start()], re.MULTILINE)
    return *body.span(1), "".join(body[1].split()), encrypted


def private_key(code: str, start: int, end: int, *, example: bool) -> Hit:
    """The hit for a key; example keys and encrypted keys have codes of their own."""
    if example:
        return Hit("example-private-key", _EXAMPLE, start, end)
    return Hit(code, code.capitalize().replace("-", " "), start, end)


def find_private_keys(text: str, *, example: bool) -> Iterator[Hit]:
    """Find all private keys.

    The span is from the first marker to the end of the key, usually over several lines.
    """
    for begin in _BEGIN.finditer(text):
        key = _putty(text, begin.end()) if begin[1] is None else _pem(text, begin.end(), begin[1])
        if key is None:
            continue
        start, end, body, encrypted = key
        identity = hashlib.sha256(body.encode("ascii")).hexdigest()[:16]
        code = "encrypted-private-key" if encrypted else "private-key"
        yield private_key(code, start, end, example=example)._replace(key=identity)
    if any(marker in text for marker in ("OpenVPN Static", '"kty"', "<RSAKeyValue>")):
        for whole in _WHOLE.finditer(text):
            start, end = whole.span(str(whole.lastgroup))
            yield private_key("private-key", start, end, example=example)
