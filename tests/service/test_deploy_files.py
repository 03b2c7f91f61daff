"""The files in deploy/ are what their systems take, and confine what they run."""

import os
import re
import subprocess
import time
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
    pods = list(_pods().values())
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


def _pods() -> dict[str, dict[str, Any]]:
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for path in KUBERNETES
        for document in documents(path)
        if document["kind"] == "Deployment"
    }


def _probes() -> list[list[str]]:
    """The commands of the workers' probes, as their systems run them."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    kind, text = compose["worker"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    (container,) = _pods()["diffcourt-worker"]["containers"]
    return [["/bin/sh", "-c", text], container["livenessProbe"]["exec"]["command"]]


@pytest.mark.parametrize("place", [0, 1], ids=["compose", "kubernetes"])
def test_the_probe_of_a_worker_fails_where_it_has_stopped_showing_that_it_is_alive(
    tmp_path: Path, place: int
) -> None:
    alive = tmp_path / "alive"
    settings = yaml.safe_load((DEPLOY / "service.yaml").read_text())
    named = settings["worker"]["alive_file"]
    command = [word.replace(named, str(alive)) for word in _probes()[place]]
    assert str(alive) in " ".join(command)

    def probe() -> int:
        return subprocess.run(command, check=False, capture_output=True).returncode

    assert probe() != 0
    alive.touch()
    assert probe() == 0
    os.utime(alive, (time.time() - 7200,) * 2)
    assert probe() != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("name", ["diffcourt-server", "diffcourt-worker"])
def test_the_user_of_a_pod_reads_its_secrets_with_the_modes_that_kubernetes_writes(
    tmp_path: Path, name: str
) -> None:
    pod = _pods()[name]
    (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    security = pod["securityContext"]
    tmp_path.chmod(0o755)
    (tmp_path / "database").write_text("postgresql://db\n")
    (tmp_path / "database").chmod(secret["defaultMode"])  # of root
    groups = []
    if group := security.get("fsGroup"):  # Kubernetes gives files to it, and it to the process
        os.chown(tmp_path / "database", 0, group)
        groups.append(group)
    user = security["runAsUser"]
    read = subprocess.run(
        ["/bin/cat", "database"], cwd=tmp_path, user=user, group=user, extra_groups=groups,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (read.stdout, read.stderr) == ("postgresql://db\n", "")
    others = subprocess.run(
        ["/bin/cat", "database"], cwd=tmp_path, user=12345, group=12345, extra_groups=[],
        capture_output=True, check=False,
    )  # fmt: skip
    assert others.returncode != 0


def test_the_image_has_the_directory_of_clones_with_its_owner_for_an_empty_volume() -> None:
    settings = yaml.safe_load((DEPLOY / "service.yaml").read_text())
    place = settings["worker"]["cache"]
    image = (DEPLOY.parent / "Containerfile").read_text().rpartition("\nFROM ")[2]
    assert f"install -d -o diffcourt -g diffcourt {place}\n" in image
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert compose["worker"]["volumes"] == [f"clones:{place}"]
    (container,) = _pods()["diffcourt-worker"]["containers"]
    assert place in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_pods_may_reach_what_the_documented_configuration_names() -> None:
    (policy,) = [
        document
        for path in KUBERNETES
        for document in documents(path)
        if document["kind"] == "NetworkPolicy"
    ]
    allowed = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    page = (DEPLOY.parent / "docs" / "service.md").read_text()
    (traces,) = re.findall(r"^traces: http://[^:]+:(\d+)", page, re.MULTILINE)
    assert {53, 443, 5432, int(traces)} <= allowed


def test_diffcourts_own_review_finds_nothing_in_them(tmp_path: Path) -> None:
    files = {
        str(path.relative_to(DEPLOY.parent)): path.read_text()
        for path in (*KUBERNETES, DEPLOY / "compose.yaml", DEPLOY.parent / "Containerfile")
    }
    repo = change(tmp_path / "repo", {}, files)
    verdict = run_review(options(repo.path), ignore_event)
    found = [(one.path, one.rule, one.title) for one in verdict.findings if one.severity != "info"]
    assert found == []
