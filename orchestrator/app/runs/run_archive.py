"""Export runs to directories of text files, and import them.

``journal.jsonl`` is the run: a line for the run, then each row as a line. The other files are for
people and are not imported, except for the patch that was reviewed.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import ValidationError, convert, to_builtins

from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.state_directory import PATCH
from orchestrator.app.runs.stored_runs import build_timeline, parse_verdict
from orchestrator.app.runs.verdict_recording import VERDICT, is_verdict, last_row
from orchestrator.app.statistics.all_runs import figures_of
from orchestrator.app.statistics.run_facts import read_run
from orchestrator.app.types import TimelineEntry, check_entry, is_program_run, is_readable
from orchestrator.code_review.fixes.patch_files import write_patch_files
from orchestrator.code_review.tools.program_output_files import DIRECTORY as OUTPUTS
from orchestrator.code_review.tools.program_output_files import KeptFile
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal import IMPORTED
from orchestrator.engine.journal_hash_chain import GENESIS, row_hash, verify_chain
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import Outcome, read_row
from orchestrator.engine.ports import Row, RunMeta, SystemClock
from orchestrator.engine.state_machine import recorded_states
from orchestrator.engine.types import Json
from orchestrator.errors import InputError, OutputError, StoreError
from orchestrator.foreign_json import parse_json
from orchestrator.stores.sql_store import RunStore, run_exists

FORMAT = "diffcourt-run/1"
JOURNAL = "journal.jsonl"
STATE_KEY = "state/"
MAX_LINE = 1 << 28
"""Bytes of one line at most: a row holds one answer or one tool's output."""

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


def export_run(repo: Path | None, run_id: str, target: Path) -> str:
    """Export a run to a directory; returns its full id.

    Args:
        target: the directory to create; an existing one must be empty.

    Raises:
        RunNotFound: no run has that name.
        InputError: the directory exists and is not empty.
        OutputError: it cannot be written; partial output is removed.
        StoreError: the journal cannot be read, or was altered.
    """
    folder, target = state_directory.state_dir(repo), target.absolute()
    with state_directory.open_store(repo) as store:
        run, rows = anyio.run(_read, store, run_id)
    verify_chain(rows)
    beside = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        is_other = target.exists() and not target.is_dir()
        if target.is_symlink() or is_other or (target.exists() and any(target.iterdir())):
            raise InputError(f"{target} already exists; name a new directory")
        patch = state_directory.load_patch(folder, run.run_id) if _has_patch(run) else None
        beside.mkdir(parents=True)
        _write(beside, run, rows, patch)
        _copy_outputs(folder / "runs" / run.run_id, beside, rows)
        _write_patches(beside, rows)
        beside.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return run.run_id


async def _read(store: RunStore, run_id: str) -> tuple[RunMeta, list[Row]]:
    run = state_directory.find_run(run_id, await store.runs())
    return run, await store.rows(run.run_id)


def _write(folder: Path, run: RunMeta, rows: Sequence[Row], patch: bytes | None) -> None:
    """Write the files of an export."""
    with (folder / JOURNAL).open("w", encoding="ascii") as file:
        entry = {
            "format": FORMAT,
            "run": run.run_id,
            "started": run.started,
            "meta": run.meta,
            "rows": len(rows),
            "head": rows[-1].hash if rows else GENESIS,
            "patch": hashlib.sha256(patch).hexdigest() if patch is not None else None,
        }
        file.writelines(f"{json.dumps(line)}\n" for line in [entry, *map(_line, rows)])
    if patch is not None:
        (folder / PATCH).write_bytes(patch)
    (folder / "progress.txt").write_text(_progress(run, rows), encoding="ascii")
    for name, text in summary_files(run, rows).items():
        (folder / name).write_text(text, encoding="ascii")
    for name in ("checkpoints", "results", "data"):
        (folder / name).mkdir()
    width, requests = len(str(len(rows))), dict[str, Json]()
    for row in rows:
        body = json.loads(row.body)
        if row.kind == "intent":
            requests[row.key] = body.get("asked")
        elif row.key.startswith(STATE_KEY):
            reached = {**body, "rows": row.seq, "head": row.hash}
            _put(folder / "checkpoints" / f"{row.seq:0{width}}-{_plain(body['state'])}", reached)
        elif row.kind == "data":
            _put(folder / "data" / _plain(row.key), body["value"])
        elif row.key == VERDICT:
            _put(folder / VERDICT, body)
        else:
            result = {"key": row.key, "kind": row.kind, "asked": requests.get(row.key), **body}
            _put(folder / "results" / f"{row.seq:0{width}}-{_plain(row.key)}", result)


def _copy_outputs(source: Path, target: Path, rows: Sequence[Row]) -> None:
    """Copy the files with programs' output whose digests match the journal's rows."""
    bodies = (json.loads(row.body) for row in rows if row.kind == "outcome")
    values = (body.get("value") for body in bodies)
    outputs = (value.get("output") for value in values if isinstance(value, dict))
    given_files = (output.get("file") for output in outputs if isinstance(output, dict))
    files: list[KeptFile] = []
    for file in given_files:
        with suppress(ValidationError):  # of another effect, or of a journal that somebody made
            files.append(convert(file, KeptFile))
    if not files or not source.is_dir():
        return
    with SafeDirectory(source) as given, SafeDirectory(target) as kept:
        kept.make_directory(OUTPUTS)
        for file in files:
            folder, _, name = file.path.partition("/")
            with suppress(OSError):
                data = given.read(f"{OUTPUTS}/{name}", file.bytes + 1)
                if folder == OUTPUTS and hashlib.sha256(data).hexdigest() == file.sha256:
                    kept.write(f"{OUTPUTS}/{name}", data, 0o600)


def _write_patches(target: Path, rows: Sequence[Row]) -> None:
    """Write the verified patches of the run's verdict, which has them."""
    verdicts = [row for row in rows if row.key == VERDICT]
    with suppress(InputError):  # of another version of this program
        for row in verdicts[-1:]:
            write_patch_files(target, parse_verdict(row))


def _line(row: Row) -> dict[str, Json]:
    # A body that is not ASCII was altered; then the chain is broken.
    fixed = {name: getattr(row, name) for name in ("seq", "kind", "key", "at", "hash")}
    return {**fixed, "body": row.body.decode("ascii")}


def _plain(name: str) -> str:
    """A safe file name from a key or a tool's name."""
    return _ODD.sub(".", name).strip(".")[:120]


def _put(place: Path, document: Json) -> None:
    place.with_name(f"{place.name}.json").write_text(_json(document), encoding="ascii")


def _progress(run: RunMeta, rows: Sequence[Row]) -> str:
    """The timeline as text, one line for each effect."""
    lines = [f"run {run.run_id}: {len(rows)} rows, head {rows[-1].hash if rows else GENESIS}", ""]
    lines += map(_happened, build_timeline(rows))
    return "".join(f"{line.encode('ascii', 'backslashreplace').decode()}\n" for line in lines)


def _happened(entry: TimelineEntry) -> str:
    took = f"{entry.seconds:8.3f} s" if entry.seconds is not None else " " * 10
    summary = " ".join(entry.summary.split())
    return f"{entry.seq:6} {entry.at:9.3f} {took}  {entry.kind:8} {entry.key}  {summary}".rstrip()


def import_run(repo: Path | None, source: Path) -> str:
    """Import an exported run into the store; returns its id.

    The run then belongs to this repository. The hash chain proves that its rows are complete, but
    not who wrote them: for that, see ``diffcourt audit verify``. Its approvals and denials do not
    count, since this machine does not know who made them.

    Args:
        source: an export's directory, or its ``journal.jsonl`` alone.

    Raises:
        InputError: it is not an exported run, is damaged, or lacks a file.
        StoreError: a run with that id exists, or the store cannot be written.
    """
    folder = state_directory.state_dir(repo)
    journal, run, rows, patch = _read_export(source)
    withdraw_consents(run, repo)
    with state_directory.open_store(repo) as store:
        anyio.run(_store_run, store, folder, run, rows, patch)
    scratch = state_directory.make_scratch_dir(folder, run.run_id)
    _copy_outputs(journal.parent, scratch, rows)  # but no patches: they are claims here
    return run.run_id


def _read_export(source: Path) -> tuple[Path, RunMeta, list[Row], bytes | None]:
    """The journal file of an export and its verified contents."""
    source = Path(os.path.realpath(source))
    journal = source / JOURNAL if source.is_dir() else source
    try:
        with SafeDirectory(journal.parent) as beside:
            run, entry, rows = _parse(beside, journal.name)
            verify_chain(rows)
            patch = _patch(beside, run, entry)
    except FileNotFoundError:
        raise InputError(
            f"{source} is not an exported run: it has no {JOURNAL}; export one with: "
            "diffcourt runs export RUN DIR"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {journal}: {error.strerror}") from None
    except StoreError as error:
        raise InputError(f"{journal} is damaged: {error}; export the run again") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{journal} is not an exported run, or is damaged") from None
    return journal, run, rows, patch


def withdraw_consents(run: RunMeta, repo: Path | None) -> None:
    """Make an exported run one of this repository, without the consents of its exporter."""
    if is_program_run(run):
        run.meta["root"] = None  # its tools changed files elsewhere
        return
    given = run.meta["options"]
    for consent in ("run_tests", "run_analyzers", "allow_spending"):
        given[consent] = None  # consents of the exporter do not apply here
    given["repo"] = os.fspath((repo or Path()).absolute()) if given["repo"] else None


def read_export(source: Path, edited: Path | None) -> tuple[RunMeta, list[Row], bytes | None]:
    """An exported run, its rows and its patch; only one of its files may be edited.

    Raises:
        InputError: it is not an exported run, is damaged, or another file was edited or added.
    """
    journal, run, rows, patch = _read_export(source)
    with tempfile.TemporaryDirectory() as temporary:
        original = Path(temporary)
        _write(original, run, rows, patch)
        _copy_outputs(journal.parent, original, rows)
        _write_patches(original, rows)
        names = (
            os.path.relpath(os.path.join(above, name), source)
            for above, _, files in os.walk(source)
            for name in files
        )
        other = [name for name in sorted(names) if _differs(source, original, name)]
    allowed = os.path.realpath(edited) if edited else ""
    refused = [name for name in other if os.path.realpath(source / name) != allowed]
    if refused:
        raise InputError(
            f"{source}: edited without being asked for: {', '.join(refused)}; name an edited "
            "plan with "
            "--plan, drop findings with --drop, and restore the rest from the run"
        )
    return run, rows, patch


def _differs(folder: Path, original: Path, name: str) -> bool:
    with SafeDirectory(folder) as given:
        try:
            return given.read(name) != (original / name).read_bytes()
        except OSError:
            return True  # not part of the export, or a link


async def _store_run(
    store: RunStore, folder: Path, run: RunMeta, rows: Sequence[Row], patch: bytes | None
) -> None:
    if any(known.run_id == run.run_id for known in await store.runs()):
        raise run_exists(run.run_id)
    if patch is not None:
        state_directory.save_patch(folder, run.run_id, patch)
    # In one transaction with the rows: their decisions must not count, even after a crash.
    await store.restore(run, [*rows, _imported(rows)])


def _imported(rows: Sequence[Row]) -> Row:
    """The note after the rows of an import, which records that they were imported."""
    number = 1 + sum(Key.parse(row.key).part == IMPORTED for row in rows)
    body = canonical({"who": current_user(), "at": SystemClock().now()})
    last = rows[-1] if rows else Row(0, "", "", 0.0, b"", GENESIS)
    # At the time of the last row, so that the import does not count as time worked.
    seq, kind, key, at = last.seq + 1, "note", str(Key(IMPORTED, number=number)), last.at
    return Row(seq, kind, key, at, body, row_hash(last.hash, seq, kind, key, at, body))


def _parse(folder: SafeDirectory, name: str) -> tuple[RunMeta, dict[str, Any], list[Row]]:
    """Parse a ``journal.jsonl`` into the run, its first line, and its rows.

    Raises:
        ValueError, KeyError, TypeError: it is no such file.
    """
    with os.fdopen(folder.open(name), "rb") as file:
        lines = (parse_json(line) for line in iter(partial(file.readline, MAX_LINE), b""))
        entry: dict[str, Any] = next(lines, {})
        rows = list(_rows(lines))
    run = RunMeta(entry["run"], float(entry["started"]), entry["meta"])
    if (
        entry["format"] != FORMAT
        or not _RUN_ID.fullmatch(entry["run"])
        or not is_readable(run)
        or entry["rows"] != len(rows)
        or entry["head"] != (rows[-1].hash if rows else GENESIS)
    ):
        raise ValueError
    return run, entry, rows


def _has_patch(run: RunMeta) -> bool:
    check_entry(run)
    return not is_program_run(run) and bool(run.meta["options"]["has_diff"])


def _rows(lines: Iterator[Mapping[str, Any]]) -> Iterator[Row]:
    for line in lines:
        body = line["body"].encode("ascii")
        parse_json(body)
        yield Row(
            int(line["seq"]), str(line["kind"]), str(line["key"]), float(line["at"]), body,
            str(line["hash"]),
        )  # fmt: skip


def _patch(folder: SafeDirectory, run: RunMeta, entry: Mapping[str, Any]) -> bytes | None:
    """The patch that the run reviews; None if it reviews commits."""
    if not _has_patch(run):
        return None
    if not folder.is_file(PATCH):
        raise InputError(
            f"the run reviews a patch, but {PATCH} is missing; import the whole directory"
        )
    patch = folder.read(PATCH)
    if hashlib.sha256(patch).hexdigest() != entry["patch"]:
        raise InputError(f"the run's {PATCH} is damaged; export the run again")
    return patch


def summary_files(run: RunMeta, rows: Sequence[Row]) -> dict[str, str]:
    """File name → text of the files for people: plan, findings, what is left, what was used."""
    left = (" ".join(line.split()).encode("unicode_escape").decode() for line in _left(rows))
    files = {"left.txt": "".join(f"{line}\n" for line in left)}
    try:
        facts = read_run(run, rows)
    except StoreError:  # of another version; its rows are exported nevertheless
        facts = None
    if facts is not None:
        used = to_builtins(figures_of([facts]))
        names = (
            "tasks", "steps", "tool_calls", "model_calls", "input_tokens", "cached_tokens",
            "output_tokens", "usd",
        )  # fmt: skip
        document = {name: used[name] for name in names}
        files["usage.json"] = _json({**document, "usd_by_agent": facts.usd_by_agent})
    if (plan := _last_plan(rows)) is not None:
        files["plan.json"] = _json(plan)
    if (verdict := _last_verdict(rows)) is not None:
        names = ("id", "fingerprint", "severity", "state", "rule", "title", "path", "start_line")
        found = [{name: getattr(one, name) for name in names} for one in verdict.findings]
        files["findings.json"] = _json(found)
    return {} if is_program_run(run) else files


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def _last_plan(rows: Sequence[Row]) -> object:
    for row in reversed(rows):
        key = Key.parse(row.key)
        if key.part == "plan" and key == key.task and isinstance(body := read_row(row), Outcome):
            return msgspec.json.decode(body.result.report)
    return None


def _last_verdict(rows: Sequence[Row]) -> Verdict | None:
    row = last_row(rows, is_verdict)
    with suppress(InputError):  # of another version
        return parse_verdict(row) if row else None
    return None


def _left(rows: Sequence[Row]) -> Iterator[str]:
    """What is left to do, one line each."""
    verdict = _last_verdict(rows)
    if verdict is None:
        yield from _under_way(rows)
        return
    yield verdict.stop.next_human_action
    waiting = (one for one in verdict.questions if not one.answer)
    yield from (f"to answer ({one.name}): {one.question}" for one in waiting)
    for call in verdict.approvals:
        yield f"to approve ({call.approval}): {call.tool} {call.arguments}"
    yield from (f"not reviewed: {one.path}: {one.why}" for one in verdict.skipped if one.gap)
    open_checks = (one for one in verdict.required_checks if not one.is_satisfied)
    yield from (f"check {one.name}: {one.status} {one.detail}" for one in open_checks)


def _under_way(rows: Sequence[Row]) -> Iterator[str]:
    """Where a run without a verdict stopped, and the effects that had begun."""
    if states := list(recorded_states(rows)):
        yield f"go on in {states[-1][1].state}: there is no verdict yet"
    begun = dict.fromkeys(row.key for row in rows if row.kind == "intent")
    for row in rows:
        if row.kind in {"outcome", "refusal"}:
            begun.pop(row.key, None)
    yield from (f"under way when it stopped: {key}" for key in begun)
