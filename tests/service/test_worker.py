"""Workers on a real queue: reviews that survive their workers, and workers that lost their job."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

pytest.importorskip("procrastinate")

from orchestrator.cli.main import main
from tests.app.collector import collector
from tests.posting.forge_server import serving
from tests.posting.forgejo_server import ForgejoServer
from tests.service.sample import run_sample
from tests.service.service_kit import Service, children, is_gone
from tests.stores.postgres_server import Server


@pytest.fixture
def service(postgres: Server, tmp_path: Path) -> Iterator[Service]:
    with serving(ForgejoServer()) as forge:
        yield Service(postgres.fresh(f"service_{os.urandom(4).hex()}"), tmp_path, forge)


def test_the_review_of_a_killed_worker_is_finished_by_another(service: Service) -> None:
    service.push()
    with service.worker("a") as a, service.worker("b") as b:
        with service.journals_held():
            doing = service.reviewing(a, b)
            (a if doing in children(a.pid) else b).kill()
            service.wait(lambda: is_gone(doing))  # it ends with its worker
        service.wait(service.is_posted)
    assert service.rows("SELECT crashes FROM service_changes") == [{"crashes": 1}]
    assert len(service.rows("SELECT run FROM diffcourt_runs")) == 1
    assert len(service.forge.comments) == 1


def test_a_stopped_worker_that_wakes_has_lost_its_job_and_ends_its_child(service: Service) -> None:
    service.push()
    with service.worker("a") as a:
        with service.journals_held():
            doing = service.reviewing(a)
            os.kill(doing, signal.SIGSTOP)
            os.kill(a.pid, signal.SIGSTOP)
        with service.worker("b"):
            service.wait(lambda: service.jobs()[0]["attempts"] == 1)
            os.kill(a.pid, signal.SIGCONT)
            service.wait(lambda: is_gone(doing))
            service.wait(lambda: service.jobs()[0]["status"] == "succeeded")
    assert service.jobs()[0]["attempts"] >= 2  # on a busy machine "b" may lose it once as well
    assert "the review of forge:acme/shop#12 is another worker's now; its end" in service.log()


def test_a_newer_push_ends_the_review_of_the_older_and_only_it_is_reviewed(
    service: Service,
) -> None:
    service.push()
    service.repo.write({"app.py": "print(1)\n"})
    service.repo.git("commit", "-qam", "Mend")
    newer = service.repo.git("rev-parse", "HEAD")
    with service.worker() as worker:
        with service.journals_held():
            doing = service.reviewing(worker)
            service.repo.git("update-ref", "refs/pull/12/head", newer)
            service.forge.head = newer
            for _ in range(3):
                service.push(head=newer)
            service.wait(lambda: is_gone(doing), seconds=5)
        service.wait(service.is_posted)
    assert [job["status"] for job in service.jobs()] == ["aborted", "succeeded"]
    assert service.statuses() == ["success"]
    assert service.forge.comments == []
    assert service.rows("SELECT run_head FROM service_changes") == [{"run_head": newer}]


def test_a_review_that_dies_each_time_is_parked_and_its_check_says_why(service: Service) -> None:
    service.push()
    with service.worker() as worker, service.journals_held():
        for _ in range(3):
            doing = service.reviewing(worker)
            os.kill(doing, signal.SIGKILL)
            service.wait(partial(is_gone, doing))
        service.wait(lambda: service.jobs()[0]["status"] == "failed")
        service.wait(service.is_posted)
    (row,) = service.rows("SELECT crashes, problem FROM service_changes")
    assert row == {"crashes": 3, "problem": "the review ended with -9"}
    assert service.statuses() == ["error"]


def test_a_review_survives_a_restart_of_the_database(service: Service, postgres: Server) -> None:
    service.push()
    with service.worker() as worker:
        with suppress(psycopg.Error), service.journals_held():
            service.reviewing(worker)
            postgres.stop()
        postgres.start()
        service.wait(service.is_posted)
    assert len(service.rows("SELECT run FROM diffcourt_runs")) == 1
    assert len(service.forge.comments) == 1


def test_an_operator_parks_drains_and_retries(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVICE_DATABASE", service.address)

    def queue(*words: str) -> str:
        assert main(["queue", *words, "--config", str(service.config)]) == 0
        return capsys.readouterr().out

    assert queue("list") == "no jobs\n"
    change = service.push()
    assert change in queue("list")
    assert queue("park", change) == f"1 jobs of {change} are asked to end; it is parked\n"
    service.push()  # recorded, and not reviewed
    assert [job["status"] for job in service.jobs()] == ["cancelled"]
    assert queue("drain") == "workers take nothing new; 0 jobs run\n"
    assert queue("retry", change) == f"{change} will be reviewed again\n"
    with service.worker():
        service.wait(lambda: service.jobs()[1]["attempts"] > 0)  # given back
        assert service.rows("SELECT run FROM diffcourt_runs") == []
        queue("open")
        service.wait(service.is_posted)
    assert "draining" not in queue("list", "--all")
    assert queue("clean") == "0 jobs removed\n"
    assert main(["queue", "retry", "nobody", "--config", str(service.config)]) == 2
    assert "there is no change nobody" in capsys.readouterr().err


def test_a_request_goes_from_its_webhook_to_its_post(
    postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_sample(postgres.fresh("sample"), tmp_path, once=True)
    printed = capsys.readouterr().out
    assert "webhook: 202, forge:acme/shop#12 will be reviewed" in printed
    assert "shell=True" in printed


def test_a_push_is_reviewed_and_posted_once_in_one_trace(service: Service) -> None:
    with collector() as received:
        service.configure(f"traces: {received.url}")
        change = service.push()
        with service.worker():
            service.wait(lambda: received.named("push"))
    (job,) = service.jobs()
    assert (job["status"], job["attempts"]) == ("succeeded", 1)
    (row,) = service.rows("SELECT * FROM service_changes")
    assert (row["change"], row["run_head"], row["crashes"]) == (change, service.head, 0)
    assert service.rows("SELECT run FROM diffcourt_runs") == [{"run": row["run"]}]
    assert service.statuses() == ["failure"]
    assert len(service.forge.comments) == 1
    (push,) = received.named("push")
    spans = {name: received.named(name)[0] for name in ("wait", "review", "post")}
    assert {span["parent"] for span in spans.values()} == {push["id"]}
    (run,) = received.named("invoke_workflow review")
    assert (run["trace"], run["parent"]) == (push["trace"], spans["review"]["id"])
    assert push["attributes"]["diffcourt.change"] == "forge:acme/shop#12"
