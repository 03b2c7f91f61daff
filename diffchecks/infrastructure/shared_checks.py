"""Values that several kinds of documents have: names of images, and literal passwords and keys."""

import re
from collections.abc import Callable, Iterator

from diffchecks.check_io import RawFinding
from diffchecks.infrastructure.value_patterns import InfrastructureObject, cut_middle
from diffchecks.path_kinds import is_illustrative
from diffchecks.secrets.contexts import find_secret_word, is_password_word
from diffchecks.secrets.secret_plausibility import is_set, looks_chosen, looks_generated
from diffchecks.yaml_tree import TEMPLATED, TreePlace

# Substituted later: by a shell, by Helm, or by the build that also pushes the image.
_FILLED_IN = re.compile(r"[$<{%]|^ko://|REPLACE|PLACEHOLDER|^\W*$", re.IGNORECASE)
_NAME = re.compile(r"[\w.-]+(?::(?P<tag>[\w.-]+))?(?P<digest>@\S+)?")


def is_floating(image: str) -> bool:
    """Whether an image's name has no digest, and no tag or the tag ``latest``."""
    name = _NAME.fullmatch(image.strip().rpartition("/")[2])
    if _FILLED_IN.search(image):
        return False
    return bool(name and not name["digest"] and name["tag"] in {None, "latest"})


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
