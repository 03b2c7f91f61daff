"""Settings, tool policy and alerts (``defaults.yaml``, ``tools.yaml``, ``alerts.yaml``)."""

from typing import Annotated, Literal

from msgspec import Meta, field
from msgspec.structs import asdict, replace

from orchestrator.catalog.agents import Budget
from orchestrator.catalog.effort import Effort
from orchestrator.catalog.shared_literals import OFFLINE, Environment, Severity
from orchestrator.engine.field_types import (
    NonEmptyStr,
    PositiveFloat,
    PositiveInt,
    Strict,
    UnitFloat,
    shared_fields,
)
from orchestrator.engine.loop_detection import LoopPolicy
from orchestrator.engine.tool_registry import ToolAccess, ToolPolicy
from orchestrator.engine.types import Bounds, Level

LevelName = Literal["read", "write", "admin", "irreversible"]
CountedLines = Literal["added", "context", "file"]
ReportFormat = Literal[
    "auto", "sarif", "checkstyle", "eslint", "gitlab", "rdjson", "rdjsonl", "gcc"
]
AnalyzerName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
FILES, REPORT = "{files}", "{report}"
"""Placeholders in the command of a configured analyzer."""
PerTool = Literal["per_run", "per_minute", "failures", "pause"]


class TierBounds(Strict, frozen=True):
    """The bounds of a run for one tier of authors; None: as for all tiers."""

    iterations: PositiveInt | None = None
    tool_calls: PositiveInt | None = None
    tokens: PositiveInt | None = None
    usd: PositiveFloat | None = None
    minutes: PositiveFloat | None = None


class RunBounds(Strict, frozen=True):
    """The most one run may use, all agents together.

    Attributes:
        tiers: tier of the change's author → other bounds.
    """

    iterations: PositiveInt
    tool_calls: PositiveInt
    tokens: PositiveInt
    usd: PositiveFloat
    minutes: PositiveFloat
    tiers: dict[NonEmptyStr, TierBounds] = field(default_factory=dict)

    def for_tier(self, tier: str) -> "RunBounds":
        """The bounds that hold for an author of a tier."""
        other = asdict(self.tiers[tier]) if tier in self.tiers else {}
        return replace(self, **{name: most for name, most in other.items() if most is not None})


class SizeLimits(Strict, frozen=True):
    """Sizes.

    Attributes:
        max_file_bytes: a larger file is not analyzed; it is a named gap.
    """

    max_file_bytes: PositiveInt


class Tests(Strict, frozen=True):
    """How the change's tests are run.

    Attributes:
        command: the program, looked up in the system's directories, and its arguments.
        report: path of the JUnit report that it writes, below the tree; empty: none.
        seconds: time limit of one run; there are at most four.
        reads: absolute paths that it may read besides the system's programs.
        single: how one test file is run, with ``{test}`` and ``{report}`` for its path and that of
            its report; empty: told from ``command``.
    """

    command: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    report: str = ""
    single: tuple[NonEmptyStr, ...] = ()
    seconds: PositiveFloat = 60.0
    reads: tuple[Annotated[str, Meta(pattern="^/.")], ...] = ()


class Imports(Strict, frozen=True):
    """Which results of imported reports count, and for how much.

    Attributes:
        lines: at the lines that the change adds, near them as well, or anywhere in a changed file.
        severities: level (blocker, critical, major, minor, info) or pattern ``TOOL:RULE`` →
            severity; the first pattern that matches goes before the level.
    """

    lines: CountedLines = "added"
    severities: dict[NonEmptyStr, Severity] = field(default_factory=dict)


class Fixes(Strict, frozen=True):
    """Patches for findings.

    Attributes:
        proofs: for how many findings patches are proven at most; 0: for none.
        agent: with a model, who writes patches for open findings that have none; None: nobody.
    """

    proofs: Annotated[int, Meta(ge=0, le=1_000)]
    agent: NonEmptyStr | None = None


class FindingsAgent(Strict, frozen=True):
    """An agent that proves or verifies findings, with a model.

    Attributes:
        agent: its name; None: nobody.
        findings: how many findings at most, the most severe first.
    """

    agent: NonEmptyStr | None = None
    findings: Annotated[int, Meta(ge=1, le=100)] = 8


class ConfiguredProgram(Strict, frozen=True):
    """An analyzer that a review runs.

    Attributes:
        command: a program's name on ``PATH`` or its absolute path, and its arguments; ``{files}``
            stands for the changed files, ``{report}`` for the path of the report that it writes.
            Without ``{report}`` its standard output is the report.
        files: globs of the changed files that it reads.
        format: of the report, as with ``--import``; ``auto``: told from the content.
        timeout: seconds of one run; there is one for each side of the change.
        exit_codes: those that mean that it has done its work.
        config_files: globs of further files that are taken from base, since they configure it.
        reads: absolute paths that it may read besides the tree and the system's programs.
        dependencies: directories of the checkout that are not committed, such as ``node_modules``,
            which it finds at the same place of the tree.
        lines: as ``imports.lines``; None: that.
    """

    command: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    files: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    format: ReportFormat = "auto"
    timeout: PositiveFloat = 60.0
    exit_codes: Annotated[tuple[int, ...], Meta(min_length=1)] = (0, 1)
    config_files: tuple[NonEmptyStr, ...] = ()
    reads: tuple[Annotated[str, Meta(pattern="^/.")], ...] = ()
    dependencies: tuple[NonEmptyStr, ...] = ()
    lines: CountedLines | None = None

    def __post_init__(self) -> None:
        program, *arguments = self.command
        _check_program(program)
        if any(FILES in argument and argument != FILES for argument in arguments):
            raise ValueError(f"{FILES} must be a separate argument")


def _check_program(name: str) -> None:
    if "/" in name and not name.startswith("/"):
        raise ValueError(
            f"command must begin with the name of a program on PATH or with an absolute path, "
            f"not with {name!r}: a program in the repository could come from the change"
        )


class _Checker(Strict, frozen=True):
    """A type checker: the files that it reads, and its exit codes where it has done its work."""

    files: tuple[str, ...]
    exit_codes: tuple[int, ...]


TYPE_CHECKERS = {
    "mypy": _Checker(("*.py", "*.pyi"), (0, 1)),
    "pyright": _Checker(("*.py", "*.pyi"), (0, 1)),
    "tsc": _Checker(("*.ts", "*.tsx", "*.mts", "*.cts", "*.vue"), (0, 1, 2)),
}
_NAMES = {**{name: name for name in TYPE_CHECKERS}, "basedpyright": "pyright", "vue-tsc": "tsc"}


class TypeCheck(Strict, frozen=True):
    """How types are checked.

    Attributes:
        command: as for an analyzer; it checks the whole tree, its working directory.
        format: whose output it prints; ``auto``: that of the first checker that the command names.
        files: globs; it runs when a changed file matches one. Empty: those that the checker reads.
        seconds: time limit of one run; there are at most two.
        config_files, reads, dependencies: as for an analyzer.
    """

    command: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    format: Literal["auto", "mypy", "pyright", "tsc"] = "auto"
    files: tuple[NonEmptyStr, ...] = ()
    seconds: PositiveFloat = 120.0
    config_files: tuple[NonEmptyStr, ...] = ()
    reads: tuple[Annotated[str, Meta(pattern="^/.")], ...] = ()
    dependencies: tuple[NonEmptyStr, ...] = ()

    def __post_init__(self) -> None:
        _check_program(self.command[0])
        if any(mark in argument for mark in (FILES, REPORT) for argument in self.command):
            raise ValueError(
                f"command may not contain {FILES} or {REPORT}: types are checked in the whole "
                "tree, and errors are read from standard output"
            )
        if self.checker not in TYPE_CHECKERS:
            raise ValueError(
                f"command names none of {', '.join(_NAMES)}; name in `format` the "
                f"checker whose output it prints: {', '.join(TYPE_CHECKERS)}"
            )

    @property
    def checker(self) -> str:
        """Whose output the command prints; empty where it names no checker that is known."""
        if self.format != "auto":
            return self.format
        named = (_NAMES.get(argument.rpartition("/")[2]) for argument in self.command)
        return next(filter(None, named), "")

    @property
    def program(self) -> ConfiguredProgram:
        """The same as an analyzer."""
        checker = TYPE_CHECKERS[self.checker]
        return ConfiguredProgram(
            self.command,
            self.files or checker.files,
            timeout=self.seconds,
            exit_codes=checker.exit_codes,
            config_files=self.config_files,
            reads=self.reads,
            dependencies=self.dependencies,
        )


class StagnationPolicy(Strict, frozen=True):
    """When a run counts as stagnant.

    Attributes:
        same_failure: this many iterations in a row with the same failure.
        flat_rounds: this many iterations in a row that raise the score by less than ``epsilon``.
        epsilon: score, 0 to 1.
        similarity: two outputs with at least this similarity count as the same, 0 to 1.
    """

    same_failure: Annotated[int, Meta(ge=2)] = 2
    flat_rounds: PositiveInt = 2
    epsilon: UnitFloat = 0.01
    similarity: UnitFloat = 0.98


class PathInstruction(Strict, frozen=True):
    """What agents should know when they review some files.

    Attributes:
        path: a glob; it is shown when a changed file matches.
    """

    path: NonEmptyStr
    text: NonEmptyStr


class AgentOverrides(Budget, frozen=True):
    """Model and limits of one agent that replace those of its file; None: the file's."""

    model: NonEmptyStr | None = None
    turns: PositiveInt | None = None


class AutoPattern(Strict, frozen=True):
    """What the pattern ``auto`` decides by.

    Attributes:
        tokens_per_agent: of numbered diff and analyzers' findings that one agent reads at once.
        max_agents: the most agents that share a larger change; at least one for each specialist.
        beside: specialists that also read a risky change that the single agent reads at once.
    """

    tokens_per_agent: PositiveInt
    max_agents: Annotated[int, Meta(ge=1, le=256)]
    beside: tuple[str, ...] = ()


class EffortSettings(Strict, frozen=True):
    """How much effort a review with a model makes.

    Attributes:
        level: ``auto``: by the tier that code computes (``config/effort.yaml``).
        minimum: the least, whatever ``level`` says.
        paths: glob of ``.gitignore`` → the least where a changed file matches.
    """

    level: Literal["auto"] | Effort = "auto"
    minimum: Effort = "quick"
    paths: dict[NonEmptyStr, Effort] = field(default_factory=dict)


class ReviewSettings(Strict, frozen=True, kw_only=True):
    """The settings of a review; ``config/defaults.yaml`` explains each key."""

    provider: NonEmptyStr
    pattern: Literal["auto", "team", "single"]
    auto: AutoPattern
    effort: EffortSettings = EffortSettings()
    judge: bool
    rubric: NonEmptyStr
    lead: NonEmptyStr
    specialists: Annotated[tuple[NonEmptyStr, ...], Meta(min_length=1)]
    single: NonEmptyStr
    model: NonEmptyStr | None = None
    agents: dict[str, AgentOverrides]
    concurrency: Annotated[int, Meta(ge=1, le=256)]
    bounds: RunBounds
    stagnation: StagnationPolicy
    loops: LoopPolicy
    limits: SizeLimits
    coverage: tuple[NonEmptyStr, ...]
    imports: Imports
    advisories: NonEmptyStr | None = None
    analyzers: dict[AnalyzerName, ConfiguredProgram]
    guidance: bool
    instructions: tuple[PathInstruction, ...]
    tests: Tests | None = None
    typecheck: TypeCheck | None = None
    fixes: Fixes
    proofs: FindingsAgent
    verify: FindingsAgent
    sandbox: Literal["auto", "bubblewrap", "landlock", "off"]
    fail_on: Literal["needs_changes", "block"]

    @property
    def programs(self) -> dict[str, ConfiguredProgram]:
        """The analyzers and the type checker, by where the settings name them."""
        named = {f"analyzers.{name}": program for name, program in self.analyzers.items()}
        return {**named, "typecheck": self.typecheck.program} if self.typecheck else named

    @property
    def has_model(self) -> bool:
        """Whether models take part in the review."""
        return self.provider != OFFLINE

    @property
    def run_bounds(self) -> Bounds:
        """The run's bounds, with minutes converted to seconds."""
        return Bounds(**shared_fields(self.bounds, Bounds), seconds=self.bounds.minutes * 60)


class EnvironmentTools(ToolAccess, frozen=True, kw_only=True):
    """The tools of an environment: ``allow`` and ``deny`` hold for all agents.

    Attributes:
        max_level: the most that any tool may do.
    """

    max_level: LevelName


class Environments(Strict, frozen=True):
    """The environments: ``ci`` has no person to ask, ``local`` has one."""

    ci: EnvironmentTools
    local: EnvironmentTools

    def __post_init__(self) -> None:
        if self.ci.max_level == "irreversible":
            raise ValueError(
                "ci.max_level may not be irreversible, since nobody can approve in CI; "
                "allowed: read, write, admin"
            )


class CallLimits(Strict, frozen=True):
    """How often a tool may be called.

    Attributes:
        per_run, per_minute: calls of one tool, all agents together.
        repeat: calls of one tool by one agent with the very same arguments.
        failures: consecutive failures of one tool that disable it.
        pause: number of calls that are then refused before the next one is tried.
    """

    per_run: PositiveInt
    per_minute: PositiveInt
    repeat: PositiveInt
    failures: PositiveInt
    pause: PositiveInt


class ToolOverride(Strict, frozen=True):
    """One tool's own limits; None: the default, or the limit that the tool declares.

    Attributes:
        timeout: seconds.
        max_output: characters that reach a model.
    """

    per_run: PositiveInt | None = None
    per_minute: PositiveInt | None = None
    failures: PositiveInt | None = None
    pause: PositiveInt | None = None
    timeout: PositiveFloat | None = None
    max_output: PositiveInt | None = None


HttpHost = Annotated[str, Meta(pattern=r"^(https?://)?[A-Za-z0-9.\[\]:-]+$")]


class HttpHosts(Strict, frozen=True):
    """What the tool ``http_get`` may read.

    Attributes:
        hosts: ``docs.python.org`` (https), ``https://host:8443``, ``http://host``; none: it is off.
        private: names of listed hosts that may have a private or loopback address.
    """

    hosts: tuple[HttpHost, ...] = ()
    private: tuple[NonEmptyStr, ...] = ()


class ToolsConfig(Strict, frozen=True):
    """Who may call what, where, and how often (``config/tools.yaml``).

    Attributes:
        sensitive: tags; a call of a tool with one of them needs a person's approval.
        http: what ``http_get`` may read.
        plugins: tools of other installed packages, by the names of their entry points.
    """

    environments: Environments
    agents: dict[str, ToolAccess]
    limits: CallLimits
    tools: dict[str, ToolOverride]
    sensitive: tuple[NonEmptyStr, ...]
    plugins: tuple[NonEmptyStr, ...] = ()
    http: HttpHosts = HttpHosts()

    def for_environment(self, environment: Environment) -> ToolPolicy:
        """The policy that holds in one environment."""
        where = self.environments.ci if environment == "ci" else self.environments.local
        return ToolPolicy(
            environment=environment,
            max_level=Level[where.max_level.upper()],
            everyone=where,
            agents=self.agents,
            failures=self.per_tool("failures"),
            pause=self.per_tool("pause"),
            sensitive=frozenset(self.sensitive),
        )

    def per_tool(self, limit: PerTool) -> dict[str, int]:
        """One limit: tool → number, ``*`` for any other."""
        own = {name: value for name, tool in self.tools.items() if (value := getattr(tool, limit))}
        return {"*": getattr(self.limits, limit), **own}


ALERTS_FILE = "config/alerts.yaml"


class AlertThresholds(Strict, frozen=True, kw_only=True):
    """When to alert; None switches an alert off.

    Attributes:
        window_days: the newest runs, which are judged.
        baseline_days: the days before them, which they are compared with.
        min_reviews: fewer in the window or the baseline say nothing.
        review_p95_above: seconds.
        steps_per_task_above, tokens_per_task_above, cost_per_task_above, guard_blocks_above: times
            the mean of the baseline.
    """

    window_days: PositiveFloat
    baseline_days: PositiveFloat
    min_reviews: PositiveInt
    completion_below: UnitFloat | None = None
    tool_errors_above: UnitFloat | None = None
    loops_above: UnitFloat | None = None
    person_asked_above: UnitFloat | None = None
    review_p95_above: PositiveFloat | None = None
    steps_per_task_above: PositiveFloat | None = None
    tokens_per_task_above: PositiveFloat | None = None
    cost_per_task_above: PositiveFloat | None = None
    guard_blocks_above: PositiveFloat | None = None
