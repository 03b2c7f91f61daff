"""Ed25519 keys that sign journals; needs the extra ``audit``."""

import hashlib
from contextlib import suppress

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from orchestrator.errors import InputError


class Ed25519Key:
    """A key pair, or the public half of one, which checks and cannot sign."""

    algorithm = "ed25519"

    def __init__(self, public: Ed25519PublicKey, private: Ed25519PrivateKey | None = None) -> None:
        self._public, self._private = public, private
        self.can_sign = private is not None
        self.key_id = hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        assert self._private is not None
        return self._private.sign(message)

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is this key's, of exactly this message."""
        try:
            self._public.verify(signature, message)
        except InvalidSignature:
            return False
        return True


def from_pem(text: bytes, where: str) -> Ed25519Key:
    """The key that a PEM text holds.

    Raises:
        InputError: it is of another kind, or needs a password.
    """
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        if b"PUBLIC KEY" in text:
            public = load_pem_public_key(text)
            if isinstance(public, Ed25519PublicKey):
                return Ed25519Key(public)
        elif isinstance(private := load_pem_private_key(text, None), Ed25519PrivateKey):
            return Ed25519Key(private.public_key(), private)
    raise InputError(
        f"the audit key in {where} is not an Ed25519 key in PEM without a password; "
        "make one with: openssl genpkey -algorithm ed25519"
    )
