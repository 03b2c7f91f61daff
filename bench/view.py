"""How long the pages of a run with 5,000 rows take, beside the list of runs.

Each page is asked for by HTTP on loopback. The first page of a run reads and verifies its journal;
the next ones are what scrolling takes.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, open_shop(Path(folder)) as shop:
        person = Person(shop.site)
        print(f"first page of 5,000 rows  {measure(person, f'/runs/{LONG}/journal'):6.0f} ms")
        for name, path in PAGES.items():
            times = [measure(person, path.format(number)) for number in range(1, 21)]
            print(f"{name:24}  {median(times):6.1f} ms median, {max(times):6.1f} ms most")
        person.http.close()


if __name__ == "__main__":
    main()
