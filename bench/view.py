"""How long the pages of a run with 5,000 rows take, beside the list of runs, and a scrape of metrics.

Each page is asked for by HTTP on loopback. The first page of a run reads and verifies its journal;
the next ones are what scrolling takes. The metrics are those of a store with as many runs as are
given (default: 1,000, which take 200 MB), all of the last day: the first scrape reads them, the next
ones only what is new.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import anyio
import httpx2
from msgspec.structs import replace

from orchestrator.app.run_review import run_review
from orchestrator.app.runs import state_directory
from orchestrator.engine.observer_events import ignore_event
from orchestrator.web.access import Access
from orchestrator.web.repository_pages import make_statistics_part
from orchestrator.web.site import Site, running
from tests.plain_http import PLAIN
from tests.review.review_kit import change, options
from tests.web.view_kit import LONG, Person, open_shop

PAGES = {
    "list of runs": "/",
    "journal, a page": f"/runs/{LONG}/journal?page={{}}",
    "timeline, whole": f"/runs/{LONG}/timeline?page={{}}",
    "timeline, a tenth": f"/runs/{LONG}/timeline?from=100&to=150&page={{}}",
    "one call": f"/runs/{LONG}/calls/2003",
}


def measure(person: Person, path: str) -> float:
    """Milliseconds until a page is there."""
    began = time.perf_counter()
    assert person.get(path).status_code == 200
    return 1000 * (time.perf_counter() - began)


def measure_scrapes(folder: Path, count: int) -> None:
    """A scrape that reads all runs, those where nothing is new, and those after a new run."""
    repo = change(folder / "repo", {}, {"app.py": "import os\n"}).path
    run_review(options(repo), ignore_event)
    with state_directory.open_store(repo) as store:
        (run,) = anyio.run(store.runs)
        rows = anyio.run(store.rows, run.run_id)

    def add(numbers: range) -> None:
        with state_directory.open_store(repo) as store:
            for number in numbers:
                at = run.started - number
                anyio.run(store.restore, replace(run, run_id=f"run-{number}", started=at), rows)

    add(range(1, count))
    people = Access("dana", metrics_token="0123456789abcdef")
    with (
        running(Site(people, [make_statistics_part([repo])])),
        httpx2.Client(
            base_url=people.origin,
            headers={"Authorization": "Bearer 0123456789abcdef"},
            timeout=600,
            verify=PLAIN,
        ) as http,
    ):

        def scrape() -> float:
            began = time.perf_counter()
            assert http.get("/metrics").status_code == 200
            return 1000 * (time.perf_counter() - began)

        first = scrape()
        same = median(scrape() for _ in range(20))
        new = []
        for number in range(count, count + 20):
            add(range(number, number + 1))
            new.append(scrape())
    print(f"first scrape of {count:,} runs  {first:6.0f} ms")
    for name, took in (("nothing is new", same), ("one run is new", median(new))):
        print(f"  where {name}     {took:6.1f} ms median, 1/{first / took:.0f} of the first")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        measure_scrapes(Path(folder), count)
    with tempfile.TemporaryDirectory() as folder, open_shop(Path(folder)) as shop:
        person = Person(shop.site)
        print(f"first page of 5,000 rows  {measure(person, f'/runs/{LONG}/journal'):6.0f} ms")
        for name, path in PAGES.items():
            times = [measure(person, path.format(number)) for number in range(1, 21)]
            print(f"{name:24}  {median(times):6.1f} ms median, {max(times):6.1f} ms most")
        person.http.close()


if __name__ == "__main__":
    main()
