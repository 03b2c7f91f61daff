"""Load the key that signs journals, and keep it from child processes."""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.engine.journal_hash_chain import HmacKey, SigningKey
from orchestrator.errors import InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.sandbox import kernel_calls

KEY, KEY_FILE = "DIFFCOURT_AUDIT_KEY", "DIFFCOURT_AUDIT_KEY_FILE"
SECRET_BYTES = 32
MAX_BYTES = 64 << 10


def load_signing_key(environment: Mapping[str, str]) -> SigningKey | None:
    """Load the signing key of the environment; None without one.

    Raises:
        InputError: it cannot be read, is not a key, or is a public key.
    """
    found = _from_environment(environment)
    if found is None:
        return None
    text, where = found
    key = _parse(text, where)
    if not key.can_sign:
        raise InputError(f"{where} is a public key; signing needs the private key")
    kernel_calls.hide_from_other_processes()
    return key


def read_key_text(environment: Mapping[str, str]) -> str:
    """Read the text of the audit key, so that it can be redacted; empty without one."""
    found = _from_environment(environment)
    return found[0].decode(errors="surrogateescape").strip() if found else ""


def load_verification_keys(
    environment: Mapping[str, str], files: Sequence[Path]
) -> dict[str, SigningKey]:
    """Load the keys to verify signatures with, by id, from the environment and from files.

    Raises:
        InputError: one cannot be read or is not a key.
    """
    texts = [(_read(path), str(path)) for path in files]
    own = _from_environment(environment)
    keys = [_parse(text, where) for text, where in [*texts, *([own] if own else [])]]
    return {key.key_id: key for key in keys}


def _from_environment(environment: Mapping[str, str]) -> tuple[bytes, str] | None:
    value, path = environment.get(KEY), environment.get(KEY_FILE)
    if value is not None and path is not None:
        raise InputError(f"both {KEY} and {KEY_FILE} are set; set one of them")
    if value is not None:
        return os.fsencode(value), KEY
    if path is not None:
        if not path:
            raise InputError(f"{KEY_FILE} is empty; name a file, or unset it")
        return _read(Path(path)), path
    return None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "invalid file name"
        raise InputError(f"the audit key {path} cannot be read: {why}") from None
    if stat.S_ISREG(mode) and mode & 0o077 and b"PUBLIC KEY" not in text:
        raise InputError(f"the audit key {path} is readable by other users; run chmod 600 on it")
    return text


def _parse(text: bytes, where: str) -> SigningKey:
    if b"-----BEGIN" in text:
        try:
            # 45 ms to import, and optional.
            from orchestrator.app.audit.ed25519_signatures import from_pem  # noqa: PLC0415
        except ImportError:
            raise InputError(
                f"the Ed25519 key in {where} needs cryptography; run: {install_command('audit')}"
            ) from None
        return from_pem(text, where)
    secret = text.strip()
    if len(secret) < SECRET_BYTES:
        raise InputError(
            f"the audit key in {where} is shorter than {SECRET_BYTES} characters; "
            "make one with: openssl rand -hex 32"
        )
    return HmacKey(secret)
