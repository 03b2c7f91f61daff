"""What each guard does about what it finds (``config/guards.yaml``)."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Meta, field

from orchestrator.catalog.fields import Environment
from orchestrator.engine.field_types import NonEmptyStr, Strict, UnitFloat
from orchestrator.engine.text_guards import Action

GuardLayer = Literal["input", "tool", "output"]

ALL_ACTIONS: Collection[Action] = ("block", "warn", "modify", "off")
WITHOUT_MODIFY: Collection[Action] = ("block", "warn", "off")
WITHOUT_BLOCK: Collection[Action] = ("warn", "modify", "off")
"""A pattern is a suspicion and no proof."""

GUARDS: Mapping[GuardLayer, Mapping[str, Collection[Action]]] = MappingProxyType(
    {
        "input": {
            "personal": ALL_ACTIONS,
            "injection": WITHOUT_BLOCK,
            "invisible": ALL_ACTIONS,
            "language": WITHOUT_MODIFY,
            "length": ALL_ACTIONS,
        },
        "tool": dict.fromkeys(("rate", "repetition", "sensitive"), WITHOUT_MODIFY),
        "output": dict.fromkeys(("markup", "claims", "toxicity"), ALL_ACTIONS),
    }
)
"""Layer → guard → what it may do. Plain tables: a model of each would cost every start 50 ms."""


class TierOverride(Strict, frozen=True):
    """What another tier changes; None leaves it."""

    ci: Action | None = None
    local: Action | None = None


class GuardActions(Strict, frozen=True):
    """What one guard does, by environment and tier."""

    ci: Action
    local: Action
    tiers: dict[NonEmptyStr, TierOverride] = field(default_factory=dict)

    def of(self, environment: Environment, tier: str) -> Action:
        """What it does here."""
        special, ci = self.tiers.get(tier), environment == "ci"
        other = (special.ci if ci else special.local) if special else None
        return other or (self.ci if ci else self.local)


class GuardLimits(Strict, frozen=True):
    """Sizes and languages.

    Attributes:
        characters: of one text that a model is shown.
        languages: ISO 639-1 codes; none: any.
    """

    characters: Annotated[int, Meta(ge=2000)]
    languages: tuple[NonEmptyStr, ...]


class Presidio(Strict, frozen=True):
    """What the guard ``personal`` has presidio-analyzer look for.

    Attributes:
        entities: by its names; none: it is not used.
        score: how sure it must be at least.
    """

    entities: tuple[NonEmptyStr, ...]
    score: UnitFloat


class Claim(Strict, frozen=True):
    """Words that say a check went well.

    Attributes:
        tools: one of them must have run; none: no tool of ours can bear it out.
    """

    what: NonEmptyStr
    words: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    tools: tuple[NonEmptyStr, ...]


class GuardsFile(Strict, frozen=True):
    """The whole of ``config/guards.yaml``.

    Attributes:
        tiers: who the author of a change may count as; the first where nobody says.
    """

    tiers: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    input: dict[str, GuardActions]
    tool: dict[str, GuardActions]
    output: dict[str, GuardActions]
    limits: GuardLimits
    presidio: Presidio
    claims: tuple[Claim, ...]
    toxic: tuple[NonEmptyStr, ...]

    def layer(self, name: GuardLayer) -> Mapping[str, GuardActions]:
        """The guards of a layer, in the order in which they look."""
        layers: dict[GuardLayer, Mapping[str, GuardActions]] = {
            "input": self.input,
            "tool": self.tool,
            "output": self.output,
        }
        return layers[name]

    def actions(self, layer: GuardLayer, environment: Environment, tier: str) -> dict[str, Action]:
        """What every guard of a layer does here, by its name."""
        return {name: guard.of(environment, tier) for name, guard in self.layer(layer).items()}
