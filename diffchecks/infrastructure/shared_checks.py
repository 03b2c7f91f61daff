"""Values that several kinds of documents have: literal passwords and keys."""

from collections.abc import Callable, Iterator

from diffchecks.check_io import RawFinding
from diffchecks.infrastructure.value_patterns import InfrastructureObject, cut_middle
from diffchecks.path_kinds import is_illustrative
from diffchecks.secrets.contexts import find_secret_word, is_password_word
from diffchecks.secrets.secret_plausibility import is_set, looks_chosen, looks_generated
from diffchecks.yaml_tree import TEMPLATED, TreePlace

_REFERENCES = ("$", "secret:", "vault:", "projects/", "/run/secrets/")


def find_literal(
    found: InfrastructureObject,
    code: str,
    name: str,
    place: TreePlace,
    *,
    any_password: bool = False,
) -> Iterator[RawFinding]:
    """Find a literal value of a variable whose name says that it is a secret."""
    value, word = place.value, find_secret_word(name)
    text = value.text.strip()
    if not word or value.kind != "text" or value.is_computed or is_illustrative(found.path):
        return
    if text.startswith(_REFERENCES) or TEMPLATED in text or not text:
        return
    if not (any_password and is_password_word(word)) and not _judge(found, word)(text):
        return
    message = f"{cut_middle(name)} is written out as a literal"
    yield found.finding(code, message, place, redact=(text,))


def _judge(found: InfrastructureObject, word: str) -> Callable[[str], bool]:
    """The confidence: Compose files and pipelines often start development or test services."""
    if not is_password_word(word):
        return looks_generated
    return looks_chosen if found.kind in {"service", "pipeline"} else is_set
