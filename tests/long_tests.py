"""Which tests `make test` leaves to `make test-long`: those of long_tests.txt."""

from collections.abc import Iterable
from pathlib import Path

TABLE = Path(__file__).with_suffix(".txt")


def read_table(text: str) -> dict[str, tuple[str, ...]]:
    """A file or test, as the beginning of its ids, and the parts of ids that stay in `make test`."""
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {f"tests/{name}": tuple(words) for name, *words in filter(None, lines)}


class LongTests:
    """The table, and what of it no id has needed so far."""

    def __init__(self, text: str) -> None:
        self._table = read_table(text)
        self._unused = {
            (name, word) for name, words in self._table.items() for word in ("", *words)
        }

    def __contains__(self, id_: str) -> bool:
        """Whether the test with this id is long."""
        for name in (id_.partition("::")[0], id_.partition("[")[0]):
            if name in self._table:
                self._unused.discard((name, ""))
                kept = [word for word in self._table[name] if word in id_.removeprefix(name)]
                self._unused -= {(name, word) for word in kept}
                return not kept
        return False

    def stale(self, collected: Iterable[str]) -> list[str]:
        """What no id has needed, without files of which nothing was collected, but that exist."""
        files = set(collected)
        return sorted(
            " ".join(pair).strip()
            for pair in self._unused
            if (file := pair[0].partition("::")[0]) in files
            or not (TABLE.parents[1] / file).exists()
        )
