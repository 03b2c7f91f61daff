"""The text guards by name. A new one is a class here, an entry below, and one in the config."""

from collections.abc import Callable, Mapping, Sequence, Set

from msgspec import Struct

from orchestrator.catalog.plugins import GUARD_PLUGINS, load_plugin
from orchestrator.engine.text_guards import Action, TextGuard
from orchestrator.guards.plain_text_guards import (
    ClaimGuard,
    ClaimRule,
    InvisibleGuard,
    LanguageGuard,
    LengthGuard,
    MarkupGuard,
    ToxicityGuard,
)
from orchestrator.guards.prompt_injection import InjectionGuard


class GuardSettings(Struct, frozen=True):
    """The settings of all text guards.

    Attributes:
        characters: the most in one text that a model is shown.
        languages: allowed in prose; none: any.
        claims: words that claim a check passed.
        toxic: words that no report may contain.
        entities: what presidio detects; none: it is not used.
        score: its lowest score that counts, 0 to 1.
        note: called with what a guard cannot detect here, in one line.
    """

    characters: int
    languages: Sequence[str]
    claims: Sequence[ClaimRule]
    ran: Callable[[], Set[str]]
    note: Callable[[str], None]
    toxic: Sequence[str]
    entities: Sequence[str] = ()
    score: float = 0.5


def _personal(settings: GuardSettings) -> TextGuard:
    # Its libraries are in an extra, and imported only if it is enabled.
    from orchestrator.guards.personal_data import NO_NAMES, PERSON, PersonalGuard  # noqa: PLC0415

    if not settings.entities:
        return PersonalGuard()
    try:
        from orchestrator.guards.presidio import detector  # noqa: PLC0415 - seconds, another extra
    except ImportError:
        if {*settings.entities} != {PERSON}:
            raise
        settings.note(NO_NAMES)
        return PersonalGuard()
    return PersonalGuard([detector(settings.entities, settings.score, settings.note)])


GUARDS: Mapping[str, Callable[[GuardSettings], TextGuard]] = {
    "personal": _personal,
    "injection": lambda settings: InjectionGuard(),
    "invisible": lambda settings: InvisibleGuard(),
    "language": lambda settings: LanguageGuard(settings.languages),
    "length": lambda settings: LengthGuard(settings.characters),
    "markup": lambda settings: MarkupGuard(),
    "claims": lambda settings: ClaimGuard(settings.claims, settings.ran),
    "toxicity": lambda settings: ToxicityGuard(settings.toxic),
}


def make_guards(
    actions: Mapping[str, Action], settings: GuardSettings
) -> list[tuple[TextGuard, Action]]:
    """Make the enabled guards, in the order of the config, each with its action.

    Raises:
        ImportError: the libraries of one are not installed; its ``name`` says which.
        InputError: the settings of one are invalid.
        ConfigError: a plugin cannot be loaded.
    """
    return [
        (GUARDS[name](settings) if name in GUARDS else load_plugin(GUARD_PLUGINS, name), act)
        for name, act in actions.items()
        if act != "off"
    ]
