"""Models (``config/models.yaml``): the ladder, who serves it, and how patient a call is."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import Meta, to_builtins

from orchestrator.catalog.data_sources import Source, versions
from orchestrator.catalog.fields import Amount, Count, Strict, Unit, Words
from orchestrator.catalog.layered_files import layered
from orchestrator.catalog.yaml_tree import Node
from orchestrator.catalog.yaml_validation import tree, unknown
from orchestrator.engine.model_config import (
    HUMAN,
    MODELS_FILE,
    CallPolicy,
    Capabilities,
    ModelsConfig,
    Provider,
    Rung,
)
from orchestrator.errors import ConfigError

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Variable = Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")]

Tokens = Annotated[int, Meta(ge=2_000)]

_SECRET_BOUND = ("key", "base_url", "base_url_env", "api")


class RungEntry(Strict, frozen=True):
    """One step of the ladder; each key is explained in ``config/models.yaml``."""

    name: Words
    model: Words | None = None
    strategy: str = ""
    effort: Effort | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=128_000)] = 16_000
    floor: Unit = 0.0

    @property
    def rung(self) -> Rung:
        """As the engine has it."""
        return Rung(
            self.name,
            self.model or self.name,
            self.strategy,
            self.effort,
            self.max_tokens,
            self.floor,
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
    models: dict[str, Words]
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

    failures: Count
    cooldown: Amount


class CallsEntry(Strict, frozen=True):
    """How patient a call is; times in seconds."""

    attempts: Count
    timeout: Amount
    deadline: Amount
    first_wait: Amount
    longest_wait: Amount
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

    ladder: Annotated[tuple[RungEntry, ...], Meta(min_length=1)]
    providers: dict[str, ProviderEntry]
    windows: WindowsEntry
    calls: CallsEntry

    @property
    def rungs(self) -> tuple[str, ...]:
        """The names of the ladder's rungs, cheapest first."""
        return tuple(entry.name for entry in self.ladder)

    @property
    def config(self) -> ModelsConfig:
        """As the engine has it."""
        return ModelsConfig(
            tuple(entry.rung for entry in self.ladder),
            MappingProxyType({name: own.provider(name) for name, own in self.providers.items()}),
            self.calls.policy,
            MappingProxyType(dict(self.windows.models)),
            self.windows.default,
        )


def load_models(sources: Sequence[Source]) -> ModelsConfig:
    """The ladder and the providers, all layers merged.

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
        own += _ladder_faults(*found)
    faults += own
    return found[1] if found and not own else None


def _ladder_faults(node: Node, file: ModelsFile) -> Iterator[ConfigError]:
    """Rungs that stand twice or out of place, and names of rungs that are none."""
    names = [entry.name for entry in file.ladder]
    for at, entry in enumerate(file.ladder):
        if entry.name in names[:at]:
            yield node.fault(f"the rung {entry.name!r} stands twice; name it once", "ladder", at)
        if entry.name == HUMAN and at < len(names) - 1:
            message = f"the rung {HUMAN!r} is a person; allowed: as the last rung"
            yield node.fault(message, "ladder", at)
        if entry.model is not None and entry.model not in names:
            yield node.fault(unknown("rung", entry.model, names), "ladder", at, "model")
    for name, provider in file.providers.items():
        for rung in provider.models:
            # A ladder of the repository's own may lack rungs that the shipped providers serve.
            served = node.at("providers", name, "models", rung)
            if rung not in names and served.file != MODELS_FILE:
                yield served.fault(unknown("rung", rung, names, f"providers.{name}.models"))


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
