"""The CI systems that are known, each by all of the values that its documentation promises.

``CI`` alone is no proof: people set it on their own machines, also to ``false``. What a CI job is
allowed (see ``orchestrator.app.configuration_consent``) must not follow from that.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from orchestrator.data_directories import read_table


class CiSystem(Struct, frozen=True):
    """A CI system.

    Attributes:
        name: what its makers call it.
        markers: environment variable → regular expression of its whole value; all must match.
        user: the variable that names who started a job; empty without one.
        request: the variable of the pull request, the expression of its value, and its name.
        branch: the variable of the branch; empty without one.
    """

    name: str
    markers: Mapping[str, str]
    user: str = ""
    request: tuple[str, str, str] = ("", "", "")
    branch: str = ""


CI_SYSTEMS = tuple(
    CiSystem(name, **given) for name, given in read_table(__file__, "ci_systems.yaml").items()
)


def find_ci_system(environment: Mapping[str, str]) -> CiSystem | None:
    """The CI system in a job of which this process runs; None outside of the known ones."""
    for system in CI_SYSTEMS:
        if all(re.fullmatch(value, environment.get(n, "")) for n, value in system.markers.items()):
            return system
    return None


def name_request(environment: Mapping[str, str]) -> str:
    """The pull request of a job, such as ``pull/7``, by its variable alone; empty without one."""
    for variable, value, name in (system.request for system in CI_SYSTEMS):
        if variable and (found := re.fullmatch(value, environment.get(variable, ""))):
            return found.expand(name)
    return ""
