"""A patch that would mend a finding, and what code found out about it."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import Strict

TEMPLATE = "template"
"""The source of a patch that a rule's template made."""

FixState = Literal["verified", "applies", "refused"]


class Fix(Strict, frozen=True, kw_only=True):
    """A patch for one finding. Code, and no model, decides its state."""

    state: Annotated[
        FixState,
        Meta(
            description="verified: with it, the analyzers that reported the finding report it no "
            "more, and nothing new; applies: it brings nothing new, and no analyzer can tell "
            "whether the finding is gone; refused: it is not to be used, see reason"
        ),
    ]
    patch: Annotated[str, Meta(description="a unified diff against head")]
    source: Annotated[str, Meta(description="the analyzer or agent that proposes it, or template")]
    proved_by: Annotated[
        tuple[str, ...], Meta(description="the tools that looked at head with the patch")
    ] = ()
    reason: Annotated[str, Meta(description="why it is refused, or no more than applies")] = ""
    excludes: Annotated[
        tuple[str, ...], Meta(description="ids of findings whose patch does not hold beside it")
    ] = ()

    @property
    def is_verified(self) -> bool:
        """Whether it is proven that the finding is gone with it."""
        return self.state == "verified"
