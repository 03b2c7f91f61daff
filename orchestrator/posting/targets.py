"""Which request of which forge is posted to: as given, else from the CI's variables."""

from collections.abc import Mapping

from msgspec import Struct

from orchestrator.errors import InputError


class Target(Struct, frozen=True):
    """What the user gave; empty or 0 where it is left to the CI's variables."""

    project: str
    request: int
    url: str
    environment: Mapping[str, str]

    def variable(self, given: str, name: str, option: str) -> str:
        """A value that was given, else that of a variable.

        Args:
            option: what to suggest where there is neither.

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
