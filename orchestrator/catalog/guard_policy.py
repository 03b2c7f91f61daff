"""Guard policy (``config/guards.yaml``): the action of each guard."""

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from orchestrator.catalog.shared_literals import Environment
from orchestrator.engine.field_types import NonEmptyStr, Strict, UnitFloat
from orchestrator.engine.text_guards import Action
from orchestrator.errors import InputError

GuardLayer = Literal["input", "tool", "output"]

GuardAction = Action | Literal["confirm"]

ALL_ACTIONS: Collection[GuardAction] = ("block", "warn", "modify", "off")
WITHOUT_MODIFY: Collection[GuardAction] = ("block", "warn", "off")
CONFIRMABLE: Collection[GuardAction] = ("block", "confirm", "warn", "off")
"""``confirm``: the call waits for a person's approval."""
WITHOUT_BLOCK: Collection[GuardAction] = ("warn", "modify", "off")
"""For guards whose pattern is a suspicion and no proof."""

GUARDS: Mapping[GuardLayer, Mapping[str, Collection[GuardAction]]] = {
    "input": {
        "personal": ALL_ACTIONS,
        "injection": WITHOUT_BLOCK,
        "invisible": ALL_ACTIONS,
        "language": WITHOUT_MODIFY,
        "length": ALL_ACTIONS,
    },
    "tool": {"rate": WITHOUT_MODIFY, "repetition": WITHOUT_MODIFY, "sensitive": CONFIRMABLE},
    "output": {"markup": WITHOUT_MODIFY, "claims": ALL_ACTIONS, "toxicity": ALL_ACTIONS},
}
"""Layer → guard → allowed actions. Plain tables: structs would cost 50 ms at every start."""


class TierOverride(Strict, frozen=True):
    """The actions of a guard for one tier; None: as for all tiers."""

    ci: GuardAction | None = None
    local: GuardAction | None = None


class GuardActions(Strict, frozen=True):
    """The actions of one guard by environment and tier."""

    ci: GuardAction
    local: GuardAction
    tiers: dict[NonEmptyStr, TierOverride] = field(default_factory=dict)

    def action_for(self, environment: Environment, tier: str) -> GuardAction:
        """The action in an environment for an author of a tier."""
        special, ci = self.tiers.get(tier), environment == "ci"
        other = (special.ci if ci else special.local) if special else None
        return other or (self.ci if ci else self.local)


class GuardLimits(Strict, frozen=True):
    """The limits of the guards ``length`` and ``language``.

    Attributes:
        characters: the longest text that a model is shown.
        languages: ISO 639-1 codes; empty: any.
    """

    characters: Annotated[int, Meta(ge=2000)]
    languages: tuple[NonEmptyStr, ...]


class Presidio(Strict, frozen=True):
    """What the guard ``personal`` searches for with presidio-analyzer.

    Attributes:
        entities: names of its entity types; empty: it is not used.
        score: minimum confidence.
    """

    entities: tuple[NonEmptyStr, ...]
    score: UnitFloat


class Claim(Strict, frozen=True):
    """Phrases that claim the success of a check.

    Attributes:
        tools: one of them must have run; empty: no tool of ours can support the claim.
    """

    what: NonEmptyStr
    words: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    tools: tuple[NonEmptyStr, ...]


class GuardsFile(Strict, frozen=True):
    """The whole of ``config/guards.yaml``.

    Attributes:
        tiers: the tiers of authors; the first is the default.
        plugins: guards of other installed packages, by the names of their entry points.
    """

    tiers: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    input: dict[str, GuardActions]
    tool: dict[str, GuardActions]
    output: dict[str, GuardActions]
    limits: GuardLimits
    presidio: Presidio
    claims: tuple[Claim, ...]
    toxic: tuple[NonEmptyStr, ...]
    plugins: tuple[NonEmptyStr, ...] = ()

    def layer(self, name: GuardLayer) -> Mapping[str, GuardActions]:
        """The guards of a layer in the order in which they run."""
        found: Mapping[str, GuardActions] = getattr(self, name)
        return found

    def resolve_tier(self, given: str) -> str:
        """The tier of that name; the first where none is given."""
        if given and given not in self.tiers:
            raise InputError(
                f"DIFFCOURT_TIER is {given!r}; config/guards.yaml has {', '.join(self.tiers)}"
            )
        return given or self.tiers[0]

    def actions(
        self, layer: GuardLayer, environment: Environment, tier: str
    ) -> dict[str, GuardAction]:
        """Guard → its action, for all guards of a layer."""
        return {
            name: guard.action_for(environment, tier) for name, guard in self.layer(layer).items()
        }
