"""Models (``config/models.yaml``): escalation stages, providers, context windows, and retries."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Meta, to_builtins

from orchestrator.catalog.data_sources import Source, versions
from orchestrator.catalog.layered_files import layered
from orchestrator.catalog.yaml_tree import Node
from orchestrator.catalog.yaml_validation import tree, unknown
from orchestrator.engine.field_types import (
    NonEmptyStr,
    PositiveFloat,
    PositiveInt,
    Strict,
    UnitFloat,
)
from orchestrator.engine.model_config import (
    HUMAN,
    MODELS_FILE,
    CallPolicy,
    Capabilities,
    ModelsConfig,
    Provider,
    Stage,
)
from orchestrator.errors import ConfigError

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Variable = Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")]

Tokens = Annotated[int, Meta(ge=2_000)]

_SECRET_BOUND = ("key", "base_url", "base_url_env", "api")


class StageEntry(Strict, frozen=True):
    """One escalation stage; each key is explained in ``config/models.yaml``."""

    name: NonEmptyStr
    model: NonEmptyStr | None = None
    strategy: str = ""
    effort: Effort | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=128_000)] = 16_000
    min_score: UnitFloat = 0.0

    @property
    def stage(self) -> Stage:
        """As the engine has it."""
        return Stage(
            self.name,
            self.model or self.name,
            self.strategy,
            self.effort,
            self.max_tokens,
            self.min_score,
        )


class CapabilityFlags(Strict, frozen=True):
    """What a server can do."""

    schemas: Literal["strict", "loose", "json", "none"]
    schemas_with_tools: bool
    tool_calls: Literal["native", "text"]
    parallel_calls: bool
    forced_calls: bool
    effort: bool
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    think_tags: bool = False
    returns_reasoning: bool = False
    asides: bool = True
    streams: bool = True


class ProviderEntry(Strict, frozen=True, kw_only=True):
    """One provider."""

    api: Literal["messages", "responses", "chat"]
    key: Variable
    key_required: bool = True
    base_url: str = ""
    base_url_env: Variable
    model_env: Variable | None = None
    models: dict[str, NonEmptyStr]
    can: CapabilityFlags

    def provider(self, name: str) -> Provider:
        """As the engine has it."""
        return Provider(
            name=name,
            api=self.api,
            key_env=self.key,
            key_required=self.key_required,
            base_url=self.base_url,
            base_url_env=self.base_url_env,
            model_env=self.model_env or "",
            models=MappingProxyType(dict(self.models)),
            can=Capabilities(**to_builtins(self.can)),
        )


class BreakerEntry(Strict, frozen=True):
    """When nobody calls for a while; ``cooldown`` in seconds."""

    failures: PositiveInt
    cooldown: PositiveFloat


class CallsEntry(Strict, frozen=True):
    """How patient a call is; times in seconds."""

    attempts: PositiveInt
    timeout: PositiveFloat
    deadline: PositiveFloat
    first_wait: PositiveFloat
    longest_wait: PositiveFloat
    breaker: BreakerEntry

    @property
    def policy(self) -> CallPolicy:
        """As the engine has it."""
        own = to_builtins(self)
        breaker = own.pop("breaker")
        return CallPolicy(
            **own, breaker_failures=breaker["failures"], breaker_cooldown=breaker["cooldown"]
        )


class WindowsEntry(Strict, frozen=True):
    """Tokens of a request and its answer together."""

    default: Tokens
    models: dict[str, Tokens]


class ModelsFile(Strict, frozen=True):
    """The whole of ``config/models.yaml``."""

    escalation: Annotated[tuple[StageEntry, ...], Meta(min_length=1)]
    providers: dict[str, ProviderEntry]
    windows: WindowsEntry
    calls: CallsEntry

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the escalation stages, cheapest first."""
        return tuple(entry.name for entry in self.escalation)

    @property
    def config(self) -> ModelsConfig:
        """As the engine has it."""
        return ModelsConfig(
            tuple(entry.stage for entry in self.escalation),
            MappingProxyType({name: own.provider(name) for name, own in self.providers.items()}),
            self.calls.policy,
            MappingProxyType(dict(self.windows.models)),
            self.windows.default,
        )


def load_models(sources: Sequence[Source]) -> ModelsConfig:
    """The escalation stages and the providers, all layers merged.

    Raises:
        ConfigError: the first fault; or a layer above the shipped one says where keys go.
    """
    faults: list[ConfigError] = []
    found = read_models(sources, faults)
    if found is None:
        raise faults[0]
    return found.config


def read_models(sources: Sequence[Source], faults: list[ConfigError]) -> ModelsFile | None:
    """``config/models.yaml`` of all layers; None when it has a fault.

    Args:
        faults: every fault is added here.
    """
    own = [fault for source in sources[1:] for fault in _redirections(source)]
    found = layered(sources, MODELS_FILE, ModelsFile, own)
    if found is not None:
        own += _stages_faults(*found)
    faults += own
    return found[1] if found and not own else None


def _stages_faults(node: Node, file: ModelsFile) -> Iterator[ConfigError]:
    """Stages that stand twice or out of place, and names of stages that are none."""
    names = [entry.name for entry in file.escalation]
    for at, entry in enumerate(file.escalation):
        if entry.name in names[:at]:
            yield node.fault(
                f"the stage {entry.name!r} stands twice; name it once", "escalation", at
            )
        if entry.name == HUMAN and at < len(names) - 1:
            message = f"the stage {HUMAN!r} is a person; allowed: as the last stage"
            yield node.fault(message, "escalation", at)
        if entry.model is not None and entry.model not in names:
            yield node.fault(unknown("stage", entry.model, names), "escalation", at, "model")
    for name, provider in file.providers.items():
        for stage in provider.models:
            # A repository's own list may lack stages that the shipped providers serve.
            served = node.at("providers", name, "models", stage)
            if stage not in names and served.file != MODELS_FILE:
                yield served.fault(unknown("stage", stage, names, f"providers.{name}.models"))


def _redirections(source: Source) -> Iterator[ConfigError]:
    """A repository may choose models; where a person's key is sent is the person's to say.

    Whoever reviews a stranger's repository would otherwise send their key wherever it asks.
    """
    for file in versions([source], MODELS_FILE):
        try:
            providers = tree(file.data, file.shown).at("providers").data
        except ConfigError:
            return  # not YAML, which whoever reads it says
        for name, node in providers.items() if isinstance(providers, Mapping) else ():
            for key in _SECRET_BOUND:
                if isinstance(node.data, Mapping) and key in node.data:
                    yield node.fault(
                        f"providers.{name}.{key} decides where a key goes, so a repository may "
                        "not set it; set the provider's environment variables instead",
                        key,
                    )
