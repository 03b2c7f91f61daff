"""Detect personal data by presidio-analyzer: by patterns, and the words before them in the line.

Needs the extra ``presidio``. Nothing is fetched: names of people, which only a model can recognize,
are found where a model of spaCy is installed.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import presidio_analyzer
import spacy
import tldextract
from presidio_analyzer import predefined_recognizers
from presidio_analyzer.nlp_engine import SpacyNlpEngine

from orchestrator.errors import InputError
from orchestrator.guards.personal_data import NO_NAMES, PERSON, Detector, PersonalDataSpan

LANGUAGE = "en"
_FULL_NAME = re.compile(
    r"[A-ZÀ-Þ][\w'’.-]*(?: (?:[A-ZÀ-Þ][\w'’.-]*|bin|da|de|del|den|der|di|la|van|von))*"
    r" [A-ZÀ-Þ][\w'’-]+"
)
"""A first and a last name: a model takes many a single word of code for a name."""
PIECE_CHARACTERS = 2000
"""Analyzed together: some of its patterns take quadratic time."""
_PIECES = re.compile(rf"[^\n]{{1,{PIECE_CHARACTERS}}}")
_EXAMPLE_DOMAINS = frozenset({"example.com", "example.net", "example.org"})


class _Language(SpacyNlpEngine):
    """Splits text into words, which presidio uses as context of a match, and finds names.

    Args:
        model: an installed model of spaCy; empty: no names are found.
    """

    def __init__(self, model: str) -> None:
        super().__init__()
        unused = ["tagger", "parser", "attribute_ruler", "lemmatizer"]
        try:
            read = spacy.load(model, exclude=unused) if model else spacy.blank(LANGUAGE)
        except (OSError, ValueError) as error:
            raise InputError(f"spaCy cannot load {model}, reinstall it: {error!s:.200}") from error
        self.nlp = {LANGUAGE: read}


class _Addresses(predefined_recognizers.EmailRecognizer):
    """Uses the bundled list of domains: presidio's own recognizer downloads one."""

    _domains = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())

    def validate_result(self, pattern_text: str) -> bool:
        found = self._domains(pattern_text)
        return bool(found.fqdn) and f"{found.domain}.{found.suffix}" not in _EXAMPLE_DOMAINS


def _recognizers() -> Iterator[Any]:
    """All recognizers that need no model, for every country, registered for one language."""
    yield _Addresses(supported_language=LANGUAGE)
    for name in predefined_recognizers.__all__:
        kind = getattr(predefined_recognizers, name)
        patterns = inspect.isclass(kind) and issubclass(kind, presidio_analyzer.PatternRecognizer)
        if (patterns or name == "PhoneRecognizer") and name != "EmailRecognizer":
            yield kind(supported_language=LANGUAGE)


def detector(entities: Collection[str], score: float, note: Callable[[str], None]) -> Detector:
    """Make a detector of these entities.

    Args:
        entities: by presidio's names, such as ``EMAIL_ADDRESS``.
        score: the lowest score that counts, 0 to 1.
        note: told, in one line, if no model is installed that finds names.
    """
    known = {it.supported_entities[0]: it for it in _recognizers()}
    if unknown := sorted({*entities} - known.keys() - {PERSON}):
        raise InputError(
            f"config/guards.yaml names entities unknown to presidio: {', '.join(unknown)}; "
            f"it detects {', '.join(sorted({*known, PERSON}))}"
        )
    model = next(iter(sorted(spacy.util.get_installed_models())), "") if PERSON in entities else ""
    if PERSON in entities and not model:
        note(NO_NAMES)
    patterns = [known[name] for name in entities if name in known]
    names = [predefined_recognizers.SpacyRecognizer(LANGUAGE, [PERSON])] if model else []
    if not patterns and not names:
        return lambda text: ()
    engine = presidio_analyzer.AnalyzerEngine(
        registry=presidio_analyzer.RecognizerRegistry(
            recognizers=[*patterns, *names], supported_languages=[LANGUAGE]
        ),
        nlp_engine=_Language(model),
        supported_languages=[LANGUAGE],
    )

    def detect(text: str) -> Iterator[PersonalDataSpan]:
        for piece in _PIECES.finditer(text):
            line = piece.group()
            # Words are read only where a pattern fits: that takes longer than all patterns.
            if (names and _FULL_NAME.search(line)) or any(
                it.analyze(line, it.supported_entities, None) for it in patterns
            ):
                for found in engine.analyze(line, LANGUAGE, score_threshold=score):
                    name = line[found.start : found.end].rstrip("'’")  # a closing quote
                    if found.entity_type != PERSON or _FULL_NAME.fullmatch(name):
                        start = piece.start() + found.start
                        kind = found.entity_type.replace("_", " ").lower()
                        yield PersonalDataSpan(start, start + len(name), kind)

    return detect
