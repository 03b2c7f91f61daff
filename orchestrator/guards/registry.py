"""The guards by name. A new one is a module here, a line below, and its line in the config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType

from msgspec import Struct

from orchestrator.engine.text_guards import Action, TextGuard
from orchestrator.guards.check_claims import ClaimGuard, Rule
from orchestrator.guards.invisible_characters import InvisibleGuard
from orchestrator.guards.language import LanguageGuard
from orchestrator.guards.markup import MarkupGuard
from orchestrator.guards.prompt_injection import InjectionGuard
from orchestrator.guards.text_length import LengthGuard
from orchestrator.guards.toxicity import ToxicityGuard


class Setting(Struct, frozen=True):
    """What guards are set up with.

    Attributes:
        characters: of one text that a model is shown.
        languages: that prose may be in; none: any.
        claims: words that say a check went well.
        ran: the tools that have run so far, and went well.
        toxic: words that no report may have.
        entities: what presidio is asked for; none: it is not needed.
        score: how sure it must be.
    """

    characters: int
    languages: Sequence[str]
    claims: Sequence[Rule]
    ran: Callable[[], Set[str]]
    toxic: Sequence[str]
    entities: Sequence[str] = ()
    score: float = 0.5


def _personal(setting: Setting) -> TextGuard:
    # Its libraries come with an extra, for those who turn it on.
    from orchestrator.guards.personal_data import PersonalGuard  # noqa: PLC0415

    if not setting.entities:
        return PersonalGuard()
    from orchestrator.guards.presidio import detector  # noqa: PLC0415 - seconds, and another extra

    return PersonalGuard([detector(setting.entities, setting.score)])


GUARDS: Mapping[str, Callable[[Setting], TextGuard]] = MappingProxyType(
    {
        "personal": _personal,
        "injection": lambda setting: InjectionGuard(),
        "invisible": lambda setting: InvisibleGuard(),
        "language": lambda setting: LanguageGuard(setting.languages),
        "length": lambda setting: LengthGuard(setting.characters),
        "markup": lambda setting: MarkupGuard(),
        "claims": lambda setting: ClaimGuard(setting.claims, setting.ran),
        "toxicity": lambda setting: ToxicityGuard(setting.toxic),
    }
)


def guards(actions: Mapping[str, Action], setting: Setting) -> list[tuple[TextGuard, Action]]:
    """The guards that are on, in the order of the config, each with what is done.

    Raises:
        ImportError: the libraries of one are not installed; its ``name`` says which.
        InputError: one is asked for what it cannot do.
    """
    return [(GUARDS[name](setting), act) for name, act in actions.items() if act != "off"]
