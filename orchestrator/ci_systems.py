"""The CI systems that are known, each by all of the values that its documentation promises.

``CI`` alone is no proof: people set it on their own machines, also to ``false``. What a CI job is
allowed (see ``orchestrator.app.configuration_consent``) must not follow from that.
"""

import re
from collections.abc import Mapping

from msgspec import Struct


class CiSystem(Struct, frozen=True):
    """A CI system.

    Attributes:
        name: what its makers call it.
        markers: environment variable → regular expression of its whole value; all must match.
        user: the variable that names who started a job; empty without one.
    """

    name: str
    markers: Mapping[str, str]
    user: str = ""


_CI = {"CI": "true"}

CI_SYSTEMS = (
    # Forgejo and Gitea Actions set GitHub's variables as well.
    CiSystem("GitHub, Forgejo, Gitea Actions", {**_CI, "GITHUB_ACTIONS": "true"}, "GITHUB_ACTOR"),
    CiSystem("GitLab CI/CD", {**_CI, "GITLAB_CI": "true"}, "GITLAB_USER_LOGIN"),
    CiSystem("Azure Pipelines", {"TF_BUILD": "True"}, "BUILD_REQUESTEDFOR"),
    CiSystem("Jenkins", {**_CI, "BUILD_TAG": "jenkins-.+"}),
    CiSystem("CircleCI", {**_CI, "CIRCLECI": "true"}, "CIRCLE_USERNAME"),
    CiSystem("Travis CI", {**_CI, "TRAVIS": "true"}),
    CiSystem("Buildkite", {**_CI, "BUILDKITE": "true"}, "BUILDKITE_BUILD_CREATOR"),
    CiSystem("Bitbucket Pipelines", {**_CI, "BITBUCKET_BUILD_NUMBER": "[0-9]+"}),
    CiSystem("Woodpecker", {"CI": "woodpecker", "CI_SYSTEM_NAME": "woodpecker"}),
    CiSystem("Drone", {**_CI, "DRONE": "true"}),
    CiSystem("AppVeyor", {"CI": "[Tt]rue", "APPVEYOR": "[Tt]rue"}),
    CiSystem("Semaphore", {**_CI, "SEMAPHORE": "true"}),
    CiSystem("Cirrus CI", {**_CI, "CIRRUS_CI": "true"}),
    CiSystem("TeamCity", {"TEAMCITY_VERSION": "[0-9].*"}),
    CiSystem("AWS CodeBuild", {"CODEBUILD_BUILD_ARN": "arn:.+"}),
)


def find_ci_system(environment: Mapping[str, str]) -> CiSystem | None:
    """The CI system in a job of which this process runs; None outside of the known ones."""
    for system in CI_SYSTEMS:
        if all(re.fullmatch(value, environment.get(n, "")) for n, value in system.markers.items()):
            return system
    return None
