"""The files in deploy/ are what their systems take, and confine what they run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.app.run_review import run_review
from orchestrator.engine.observer_events import ignore_event
from tests.review.review_kit import change, options

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_manifests_match_kubernetes_schema(path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for document in documents(path):
        if document["apiVersion"].startswith("keda.sh/"):
            continue  # defined by an extension
        validate.validate(document, "1.33", strict=True)


def test_containers_are_confined_limited_and_probed() -> None:
    pods = [
        document["spec"]["template"]["spec"]
        for path in KUBERNETES
        for document in documents(path)
        if document["kind"] == "Deployment"
    ]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
        assert "livenessProbe" in container
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("server", "worker"):
        assert compose[name]["read_only"]
        assert compose[name]["cap_drop"] == ["ALL"]
        assert compose[name]["deploy"]["resources"]["limits"]["memory"]
        assert compose[name]["healthcheck"]
        assert "database" in compose[name]["secrets"]


def test_diffcourts_own_review_finds_nothing_in_them(tmp_path: Path) -> None:
    files = {
        str(path.relative_to(DEPLOY.parent)): path.read_text()
        for path in (*KUBERNETES, DEPLOY / "compose.yaml", DEPLOY.parent / "Containerfile")
    }
    repo = change(tmp_path / "repo", {}, files)
    verdict = run_review(options(repo.path), ignore_event)
    found = [(one.path, one.rule, one.title) for one in verdict.findings if one.severity != "info"]
    assert found == []
