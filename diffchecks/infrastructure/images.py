"""Names of container images."""

import re

# Substituted later: by a shell, by Helm, or by the build that also pushes the image.
_FILLED_IN = re.compile(r"[$<{%]|^ko://|REPLACE|PLACEHOLDER|^\W*$", re.IGNORECASE)
_NAME = re.compile(r"[\w.-]+(?::(?P<tag>[\w.-]+))?(?P<digest>@\S+)?")


def is_floating(image: str) -> bool:
    """Whether an image's name has no digest, and no tag or the tag ``latest``."""
    name = _NAME.fullmatch(image.strip().rpartition("/")[2])
    if _FILLED_IN.search(image):
        return False
    return bool(name and not name["digest"] and name["tag"] in {None, "latest"})
