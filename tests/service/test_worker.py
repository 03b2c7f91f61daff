"""Workers on a real queue: what they lose, park and post (`tests/torture` kills them and the database)."""

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("procrastinate")

from orchestrator.cli.main import main
from orchestrator.service.metrics import render_queue_metrics
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
    service.configure_worker(most_crashes=2)
    service.push()
    with service.worker() as worker, service.journals_held():
        for _ in range(2):
            doing = service.reviewing(worker)
            os.kill(doing, signal.SIGKILL)
            service.wait(partial(is_gone, doing))
        service.wait(lambda: service.jobs()[0]["status"] == "failed")
        service.wait(service.is_posted)
    (row,) = service.rows("SELECT crashes, problem FROM service_changes")
    assert row == {"crashes": 2, "problem": "the review ended with -9"}
    assert service.statuses() == ["error"]


class HangingForge(ForgejoServer):
    """Answers who reads the pull request only once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = 0, threading.Event()

    def was_asked(self, times: int) -> bool:
        return self.asked == times

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if (method, path[-9:]) == ("GET", "/pulls/12"):
            self.asked += 1
            self.may_answer.wait(60)
        return super().answer(method, path, query, body)


def test_a_finished_verdict_is_posted_however_often_workers_die_while_they_post_it(
    postgres: Server, tmp_path: Path
) -> None:
    forge = HangingForge()
    with serving(forge):
        service = Service(postgres.fresh(f"service_{os.urandom(4).hex()}"), tmp_path, forge)
        service.configure_worker(most_crashes=1)
        service.push()
        for death in (1, 2):  # one more than worker.most_crashes
            with service.worker() as worker:
                service.wait(partial(forge.was_asked, death))
                service.kill(worker)
        (row,) = service.rows("SELECT crashes, problem FROM service_changes")
        forge.may_answer.set()
        with service.worker():
            service.wait(service.is_posted)
    assert row == {"crashes": 0, "problem": ""}
    assert service.statuses() == ["failure"]
    assert ["shell=True" in comment["body"] for comment in forge.comments] == [True]
    assert len(service.rows("SELECT run FROM diffcourt_runs")) == 1
    assert "the post of forge:acme/shop#12 runs again: its worker died" in service.log()


def test_a_review_that_kills_its_worker_is_parked_and_its_neighbor_is_not(service: Service) -> None:
    service.configure_worker(most_crashes=2)
    service.repo.git("update-ref", "refs/pull/13/head", service.head)
    service.push()
    with service.worker() as worker, service.journals_held():
        service.reviewing(worker)
        service.push(13)
        service.wait(lambda: len(children(worker.pid)) == 2)
        service.kill(worker)
    assert service.rows("SELECT crashes FROM service_changes") == [{"crashes": 0}] * 2
    # Each goes on alone: the second one waits, although the worker takes two jobs.
    with service.worker("b") as worker, service.journals_held():
        service.reviewing(worker)
        service.wait(lambda: [job["status"] for job in service.jobs()] == ["doing", "doing"])
        assert len(children(worker.pid)) == 1
        (alone,) = service.rows("SELECT change FROM service_changes WHERE is_alone")
        service.kill(worker)
    with service.worker("c"):
        service.wait(lambda: {job["status"] for job in service.jobs()} == {"failed", "succeeded"})
    parked = service.rows("SELECT change, crashes, problem FROM service_changes WHERE problem > ''")
    assert parked == [{**alone, "crashes": 2, "problem": "the review's worker died 2 times"}]
    assert service.rows("SELECT max(crashes) FROM service_changes WHERE problem = ''") == [
        {"max": 1}
    ]
    assert f"{alone['change']} is parked: the review's worker died 2 times" in service.log()


def test_an_operator_parks_drains_retries_and_posts_again(
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
        # Of a parked job whose verdict is there, only the post is made again.
        service.rows("UPDATE service_changes SET problem = 'it died', posted_head = '' RETURNING 1")
        service.post(change)
        service.wait(service.is_posted)
    assert service.statuses() == ["failure"]
    assert service.log().count(" posted: NEEDS CHANGES by analyzers") == 2
    assert "draining" not in queue("list", "--all")
    assert queue("clean") == "0 jobs removed\n"
    assert main(["queue", "retry", "nobody", "--config", str(service.config)]) == 2
    assert "there is no change nobody" in capsys.readouterr().err


def test_a_list_of_jobs_says_what_it_leaves_out_and_shows_the_oldest(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVICE_DATABASE", service.address)
    for number in range(1, 6):
        service.push(number, debounce=60.0)  # its time to run is in the future

    def listed(*words: str) -> str:
        assert main(["queue", "list", *words, "--config", str(service.config)]) == 0
        return capsys.readouterr().out

    header, *jobs = listed("--limit", "3").splitlines()
    assert header.split() == ["STATE", "AGE", "QUEUE", "CHANGE,", "HEAD,", "RUN"]
    assert [line.rsplit("#")[-1][:1] for line in (*jobs[:3], jobs[-1])] == ["5", "4", "3", "1"]
    assert jobs[3:5] == ["and 2 more, older ones: --limit 5", "The oldest that waits:"]
    assert not re.search(r" -\d", "".join(jobs))
    document = json.loads(listed("--limit", "3", "--json"))
    assert (document["total"], document["oldest"]["change"]) == (5, "forge:acme/shop#1")
    assert min(job["seconds"] for job in document["jobs"]) >= 0
    assert "more" not in listed("--limit", "5")
    assert "oldest" not in listed()
    service.rows("UPDATE procrastinate_jobs SET status = 'failed' WHERE id = 1 RETURNING 1")
    assert "and 2 more, older ones: --limit 5; parked in all: 1" in listed("--limit", "3")


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
    said = [line.partition(" INFO ")[2] for line in service.log().splitlines()]
    where = f"run {row['run']}"
    result = "NEEDS CHANGES by analyzers · nobody read it for logic"
    seconds = r"\d+\.\d s"
    for line in (
        f"{change}: the review of {service.head[:12]} begins, {where}",
        f"{change}: reviewed in {seconds}, {where}: {result}, 1 finding",
        f"{change}: posted: {result} in {seconds}, {where}",
    ):
        assert [one for one in said if re.fullmatch(line, one)], line
    counts = {one["name"]: one["value"] for one in service.rows("SELECT * FROM service_counts")}
    metrics = render_queue_metrics([], counts)
    for sample in (
        'reviews_total{result="needs_changes"} 1.0',
        'posts_total{result="posted"} 1.0',
        'review_duration_seconds_bucket{le="3600"} 1.0',
        "review_duration_seconds_count 1.0",
        'review_duration_seconds_bucket{le="+Inf"} 1.0',
    ):
        assert f"diffcourt_queue_{sample}\n" in metrics
    assert 'bucket{le="1"} 0.0' in metrics
