"""Run real coding agents against the server: ``python -m tests.real_hosts [NAME ...]``.

Each is installed with npm, has a home and a repository of its own, finds the server by what
``diffcourt init --agents`` writes, and has a model by a script: it reviews with analyzers, wants a
patch applied, then answers the questions of a second review until there is a verdict. Then it
checks and installs the plugin of ``diffcourt init --plugin``, and reviews in a repository without
settings. In the end all work on one repository at once. What cannot be installed is skipped with
the reason.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.mcp_server.host_kit import Brain
from tests.providers.whole_kit import judges, reports
from tests.real_analyzers.__main__ import Case, commit, install, say
from tests.real_hosts.model import Model, Script, Step, serving

SILENT_SECONDS = 400
"""Without a request to its model; a busy machine is slow, but something happens."""

PROMPT = "Review what I did"
STEPS: tuple[Step, ...] = (
    ("review", {}), ("findings", {}), ("explain", {"finding": "F1"}), ("fix", {}), ("gate", {}),
    ("fix", {"findings": ["F1"], "apply": True}),
    ("review", {"reasoner": "host", "paths": ["a.py"], "wait_seconds": 45}),
)  # fmt: skip
PATIENT = "300000"  # milliseconds that a server may take to start on a busy machine
APPLY = 5
"""Which of the steps only a person may allow: in Claude Code a hook says yes, the others have none."""

PLUGIN: dict[str, tuple[str, ...]] = {
    "claude": (
        "claude plugin validate --strict {0}",
        "claude plugin validate --strict {0}/.claude-plugin/plugin.json",
        "claude plugin marketplace add {0}",
        "claude plugin install diffcourt@diffcourt",
    ),
    "codex": ("codex plugin marketplace add {0}", "codex plugin add diffcourt@diffcourt"),
    "gemini": ("gemini extensions validate {0}", "gemini extensions install {0} --consent"),
    "opencode": (),  # its settings name the directory
}
"""The commands with which a host checks and installs a plugin's directory."""

YES = {"hookEventName": "Elicitation", "action": "accept", "content": {"apply": True}}
DEFECTS = "import os\n\n\ndef run(text):\n    eval(text)\n    os.system('ls ' + text)\n"
TOOLS = {"review", "answer", "findings", "explain", "gate", "cancel", "fix", "dismiss"}
ALLOWED = ["mcp__diffcourt", "mcp__plugin_diffcourt_diffcourt"]
Start = Callable[[Path, Path, str], tuple[list[str], dict[str, str]]]
"""Home, repository and address of the model → the command and its environment."""


def write(path: Path, text: str) -> None:
    """Write a file of a host's settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def claude(home: Path, _: Path, address: str) -> tuple[list[str], dict[str, str]]:
    write(home / "yes.json", json.dumps({"hookSpecificOutput": YES}))
    hook = {"type": "command", "command": f"cat >/dev/null; cat {home / 'yes.json'}"}
    settings = {"enabledMcpjsonServers": ["diffcourt"], "permissions": {"allow": ALLOWED},
                "hooks": {"Elicitation": [{"hooks": [hook]}]}}  # fmt: skip
    write(home / ".claude/settings.json", json.dumps(settings))
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    quiet |= dict.fromkeys(("MCP_TIMEOUT", "MCP_CONNECT_TIMEOUT_MS"), PATIENT)
    given = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none", **quiet}
    return ["claude", "-p", PROMPT], given


def codex(home: Path, repository: Path, address: str) -> tuple[list[str], dict[str, str]]:
    trust = f'[projects."{repository}"]\ntrust_level = "trusted"\n'
    model = f'[model_providers.s]\nname = "s"\nbase_url = "{address}/v1"\nwire_api = "responses"\n'
    plugin = repository.with_name("plugin").exists()
    wait = "mcp_optional_startup_grace_ms = 0\n" * plugin  # no plugin can say it
    write(home / ".codex/config.toml", f'{wait}model = "m"\nmodel_provider = "s"\n{model}{trust}')
    return ["codex", "exec", PROMPT], {}


def gemini(home: Path, _: Path, address: str) -> tuple[list[str], dict[str, str]]:
    login = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}}
    write(home / ".gemini/settings.json", json.dumps({**login, **quiet}))
    how = ["-m", "gemini-2.5-flash", "--approval-mode", "yolo"]
    given = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": address}
    return ["gemini", "-p", PROMPT, *how], {**given, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def opencode(home: Path, repository: Path, address: str) -> tuple[list[str], dict[str, str]]:
    where = {"baseURL": f"{address}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": where, "models": {"m": {"name": "m"}}}  # fmt: skip
    settings = {"model": "s/m", "small_model": "s/m", "autoupdate": False, "provider": {"s": provider}}  # fmt: skip
    if (plugin := repository.with_name("plugin")).exists():
        settings["plugin"] = [str(plugin)]
    write(home / ".config/opencode/opencode.json", json.dumps(settings))
    return ["opencode", "run", PROMPT], {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


HOSTS: dict[str, tuple[str, Start]] = {
    "claude": ("@anthropic-ai/claude-code", claude),
    "codex": ("@openai/codex", codex),
    "gemini": ("@google/gemini-cli", gemini),
    "opencode": ("opencode-ai", opencode),
}


def read(result: str) -> dict[str, Any]:
    """The server's answer in a result, around which a host may have put words of its own."""
    found = re.search(r'\{"run".*\}', result)
    if not found:
        raise ValueError(f"no whole answer reached the model: {result[:300]} … {result[-100:]}")
    answer: dict[str, Any] = json.loads(found[0])
    return answer


RUNNING = '"state":"running"'


def ended(results: Sequence[str]) -> list[str]:
    """The results without those of reviews that take longer than a call."""
    return [one for one in results if RUNNING not in one]


def polling(script: Script) -> Script:
    """A script of results that have ended, which waits for the others."""

    def next_step(results: Sequence[str]) -> Step:
        if results and RUNNING in results[-1]:
            return "review", {"run": read(results[-1])["run"], "wait_seconds": 45}
        return script(ended(results))

    return next_step


def session(wrong: list[str]) -> Script:
    """The steps, then answers to the questions of the last review until it has a verdict."""
    brain = Brain({"generalist": [reports(checked=["a.py"])] * 3, "judge": [judges()] * 3})
    said: dict[int, Step] = {}  # a host may send a request again

    def next_step(results: Sequence[str]) -> Step:
        done = len(results)
        if done < len(STEPS) and done != APPLY:
            return STEPS[done]
        if done not in said:
            said[done] = ("say", "Done.")
            try:
                if done == APPLY:
                    tool, given = STEPS[done]
                    said[done] = tool, {**given, "run": read(results[0])["run"]}
                elif (found := read(results[-1]))["state"] == "asks":
                    said[done] = "answer", {**brain.answer(found), "wait_seconds": 45}
            except (ValueError, LookupError, AssertionError) as error:
                wrong.append(str(error))
        return said[done]

    return polling(next_step)


def make_repository(place: Path, *names: str, plugin: bool = False) -> Path:
    """A repository with a change, the settings of hosts, and a program that they find.

    Args:
        plugin: the directory ``plugin`` beside it is a plugin.
    """
    repository = place / "repository"
    place.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    commit(repository, {"a.py": "X = 1\n"})
    program = str(Path(sys.executable).with_name("diffcourt"))
    init = partial(subprocess.run, cwd=repository, check=True, stdout=subprocess.DEVNULL)
    if plugin:
        init([program, "init", "--plugin", "../plugin"])
    if names:
        init([program, "init", "--agents", *names])
        commit(repository, {})
    write(repository / "b.py", DEFECTS)
    write(repository / "a.py", "import json\n\nX = 1\n")
    counted = f'#!/bin/sh\necho "$@" >> {shlex.quote(str(place / "starts"))}\nexec {program} "$@"\n'
    write(place / "bin/diffcourt", counted)
    (place / "bin/diffcourt").chmod(0o755)
    return repository


def run_host(name: str, repository: Path, path: str, script: Script) -> tuple[str, Model]:
    """Run a session in a home of its own: why it did not reach its model or end, and the model."""
    home = repository.with_name(f"home-{name}")
    home.mkdir()
    with serving(script) as model:
        command, given = HOSTS[name][1](home, repository, model.address)
        search = f"{repository.with_name('bin')}{os.pathsep}{path}"
        env = {"HOME": str(home), "PATH": search, "TERM": "dumb", **given}
        plugin = repository.with_name("plugin")
        for line in PLUGIN[name] if plugin.exists() else ():
            run = shlex.split(line.format(plugin))
            done = subprocess.run(run, cwd=repository, env=env, capture_output=True, text=True, check=False)  # fmt: skip
            if done.returncode:
                return f"{line}: {done.stdout}{done.stderr}", model
        with (
            open(home / "output", "w+", encoding="utf-8") as output,
            subprocess.Popen(
                command, cwd=repository, env=env, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT,
            ) as process,
        ):  # fmt: skip
            seen = -1
            while process.poll() is None and len(model.requests) != seen:
                seen = len(model.requests)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SILENT_SECONDS)
            if process.poll() is None:
                process.kill()
                return f"after {seen} requests it was silent for {SILENT_SECONDS} s", model
            output.seek(0)
            return "" if model.requests else f"it asked no model: {output.read()[-300:]}", model


def not_offered(model: Model) -> list[str]:
    """What a model lacks of the tools and the skill."""
    tools = {tool for tool in TOOLS if any(re.search(rf"(^|_){tool}$", one) for one in model.tools)}
    wrong = [f"the model was not offered {tool}" for tool in sorted(TOOLS - tools)]
    if "Reviews the change in this repository with Diffcourt" not in json.dumps(model.requests[-1]):
        wrong.append("the skill did not reach the model")
    return wrong


def try_plugin(name: str, place: Path, path: str) -> tuple[str, str]:
    """A review through the plugin alone: what is wrong, or empty; and what was seen."""
    repository = make_repository(place, plugin=True)

    def next_step(results: Sequence[str]) -> Step:
        return ("say", "Done.") if results else ("review", {})

    why, model = run_host(name, repository, path, polling(next_step))
    results = ended(model.results)
    if why or not results:
        return f"{why or 'it ended early'}: {'; '.join(results)[-600:]}", ""
    wrong, starts = not_offered(model), len((place / "starts").read_text().splitlines())
    if starts != 1:
        wrong.append(f"the server was started {starts} times")
    try:
        seen = f"{read(results[0])['verdict']} through the plugin, one server"
    except ValueError as error:
        return "; ".join([*wrong, str(error)]), ""
    return "; ".join(wrong), seen


def try_host(name: str, place: Path, path: str) -> tuple[str, str]:
    """A session: what is wrong, or empty; and what was seen."""
    repository, wrong = make_repository(place, name), list[str]()
    why, model = run_host(name, repository, path, session(wrong))
    results = ended(model.results)
    if why or len(results) <= len(STEPS):
        return f"{why or 'it ended early'}: {'; '.join([*wrong, *results])[-600:]}", ""
    wrong += not_offered(model)
    applied = (repository / "b.py").read_text() != DEFECTS
    if applied != (name == "claude"):
        wrong.append(f"a patch was {'' if applied else 'not '}applied: {results[APPLY]}")
    try:
        first, last = read(results[0]), read(results[-1])
        if first["verdict"] != "needs_changes" or last["reasoned_by"][0] != "host":
            wrong.append(f"the verdicts are {first} and {last}")
        seen = f"{len(TOOLS)} tools, {first['verdict']}, then {last['verdict']} by {last['reasoned_by'][1]}"  # fmt: skip
    except (ValueError, LookupError) as error:
        return "; ".join([*wrong, str(error)]), ""
    return "; ".join(wrong), seen


def try_together(paths: Mapping[str, str], place: Path) -> tuple[str, str]:
    """Sessions of all hosts at once in one repository: what is wrong, or empty; what was seen."""
    repository, wrong = make_repository(place, *paths), list[str]()

    def work(name: str) -> None:
        number = [*paths].index(name)
        files = {"paths": ["ab"[number % 2] + ".py"]}
        why = {"finding": f"F{number % 3 + 1}", "why": f"A reason that {name} gives."}
        steps: tuple[Step, ...] = (
            ("review", {}), ("findings", {}), ("dismiss", why), ("review", files), ("findings", {}),
        )  # fmt: skip

        def next_step(results: Sequence[str]) -> Step:
            return steps[len(results)] if len(results) < len(steps) else ("say", "Done.")

        failed, model = run_host(name, repository, paths[name], polling(next_step))
        try:
            whole, listed, _, part, last = ended(model.results)
            runs = [read(one)["run"] for one in (whole, listed, part, last)]
            if runs[0] != runs[1] or runs[2] != runs[3] or runs[0] == runs[2]:
                wrong.append(f"{name} was shown the runs {runs}")
            if [read(one)["open"] for one in (whole, part)] != [3, 2 if number % 2 else 1]:
                wrong.append(f"{name} was shown {whole} and {part}")
        except ValueError as error:
            wrong.append(f"{name}: {failed} {error} {model.results}")

    with ThreadPoolExecutor(len(paths)) as pool:
        list(pool.map(work, paths))
    file = repository / ".diffcourt/memory/dismissed.yaml"
    text = file.read_text() if file.exists() else ""
    if text.count("fingerprint:") != min(len(paths), 3):
        wrong.append(f"the dismissals are {text}")
    return "; ".join(wrong), f"{len(paths)} hosts, each with its own runs"


def tell(name: str, work: Callable[..., tuple[str, str]], *given: Any) -> bool:
    """Do it and say how it went; whether it failed."""
    begin = time.monotonic()
    wrong, seen = work(*given)
    took = f"{time.monotonic() - begin:.1f} s"
    say(f"FAILED {name}: {wrong}" if wrong else f"passed {name}: {seen}, {took}")
    return bool(wrong)


def main(arguments: list[str]) -> int:
    """Run the hosts that were asked for, all by default; the exit code says whether one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_hosts", allow_abbrev=False)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(HOSTS)}")
    parser.add_argument("--tools", help="a directory that keeps what is installed")
    given = parser.parse_args(arguments)
    failed, paths = 0, dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="real-hosts-") as directory:
        for name in given.name or HOSTS:
            tools = Path(given.tools or directory).absolute() / "tools" / name
            path = f"{tools / 'node_modules/.bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            here = shutil.which(name, path=str(tools / "node_modules/.bin"))
            why = "" if here else install(Case("", "", "", "", npm=(HOSTS[name][0],)), tools)
            if why:
                say(f"skipped {name}: {why}")
                continue
            paths[name] = path
            place = Path(directory)
            failed += tell(name, try_host, name, place / name, path)
            failed += tell(f"{name}, plugin", try_plugin, name, place / f"{name}-plugin", path)
        if len(paths) > 1:
            failed += tell("together", try_together, paths, Path(directory) / "together")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
