"""How often the guards are wrong, and how fast they and the search for our own secrets are.

    python bench/guards.py

Ordinary sentences and diff hunks with the words that guards look for, attacks, and the comments and
docstrings of Python's own library with such words. ``share`` is what would be blocked or changed.
"""

import importlib.util
import secrets
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from orchestrator.engine.secret_redaction import Redactor  # noqa: E402
from tests.guards.measure import SUGGESTED, Measured, elsewhere, every_guard, lines, measured  # noqa: E402


def told(what: str, found: Measured) -> None:
    by_guard = dict(Counter(name for name, _ in found.hit))
    print(f"{what}: {found.texts} texts, share {found.share:.2%} {by_guard or ''}")


def main() -> None:
    guards = every_guard()
    shown = {name: guard for name, guard in guards.items() if "observation" in guard.places}
    told("ordinary text, every guard", measured(lines("ordinary"), guards))
    told("Python's library, input guards", measured(list(elsewhere(100_000)), shown))
    told("attacks seen by the injection guard",
         measured(lines("attacks"), {"injection": guards["injection"]}))  # fmt: skip
    if importlib.util.find_spec("presidio_analyzer"):
        asked = {"personal": every_guard(entities=SUGGESTED)["personal"]}
        told("ordinary text, personal with presidio", measured(lines("ordinary"), asked))
        told("Python's library, personal with presidio", measured(list(elsewhere(100_000)), asked))
        guards = {**guards, "personal with presidio": asked["personal"]}
    else:
        print("presidio-analyzer is not installed: not measured")
    code = "".join(path.read_text("utf-8") for path in sorted(ROOT.glob("orchestrator/**/*.py")))
    for name, guard in guards.items():
        start = time.perf_counter()
        guard.detect(code)
        print(f"{name}: {len(code) / 1e6 / (time.perf_counter() - start):.2f} MB/s of our own code")
    page = "<p class='a'><b>one</b> &amp; <a href='/p?a=1&b=2'>two %20</a></p>\n" * 14_000
    russian = "Съешь ещё этих мягких французских булок, да выпей чаю.\n" * 18_000
    for what, text in (("our own code", code), ("HTML", page), ("Russian", russian)):
        for count in (1, 10, 50):
            redact = Redactor("sk-" + secrets.token_urlsafe(32) for _ in range(count))
            start = time.perf_counter()
            redact(text)
            speed = len(text) / 1e6 / (time.perf_counter() - start)
            print(f"own secrets, {count} of them: {speed:.1f} MB/s of {what}")


if __name__ == "__main__":
    main()
