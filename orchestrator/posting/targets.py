"""The target of posting: the given request, else that of the CI's variables."""

from collections.abc import Mapping

from msgspec import Struct

from orchestrator.errors import InputError


class PostingTarget(Struct, frozen=True):
    """The user's values; empty or 0 for those of the CI's variables."""

    project: str
    request: int
    url: str
    environment: Mapping[str, str]

    def variable(self, given: str, name: str, option: str) -> str:
        """The given value, else that of a variable.

        Args:
            option: the option to suggest if there is neither.

        Raises:
            InputError: there is neither.
        """
        found = given or self.environment.get(name, "")
        if not found:
            raise InputError(f"give {option}, or set {name}")
        return found

    def token(self, name: str) -> str:
        """The token of a variable.

        Raises:
            InputError: it is not set.
        """
        found = self.environment.get(name, "").strip()
        if not found:
            raise InputError(f"{name} is not set; it must hold a token that may write comments")
        return found
