"""A patch for a finding, and whether code has proven that it works."""

from typing import Annotated, Literal

from msgspec import Meta

from orchestrator.engine.field_types import Strict

TEMPLATE = "template"
"""The source of a patch that a rule's template made."""

FixState = Literal["verified", "applies", "refused"]


class Fix(Strict, frozen=True, kw_only=True):
    """A patch for one finding. Code decides its state, not a model."""

    state: Annotated[
        FixState,
        Meta(
            description="verified: with the patch, the analyzers that reported the finding "
            "no longer report it, and report nothing new; applies: they report nothing "
            "new, but cannot tell whether the finding is gone; refused: do not use it, see "
            "reason"
        ),
    ]
    patch: Annotated[str, Meta(description="a unified diff against head")]
    source: Annotated[str, Meta(description="the analyzer or agent that proposed it, or template")]
    proved_by: Annotated[
        tuple[str, ...], Meta(description="the tools that ran on head with the patch")
    ] = ()
    reason: Annotated[str, Meta(description="why it is refused, or why it is not verified")] = ""
    excludes: Annotated[
        tuple[str, ...], Meta(description="ids of findings whose patch conflicts with this one")
    ] = ()

    @property
    def is_verified(self) -> bool:
        """Whether it is proven that the finding is gone with it."""
        return self.state == "verified"
