"""Models (``config/models.yaml``): escalation stages, providers, context windows, and retries."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, field

from orchestrator.catalog.data_file_layers import Layer, check_merged, find_versions
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.catalog.yaml_validation import describe_unknown_name, parse_yaml
from orchestrator.engine.field_types import (
    NonEmptyStr,
    PositiveFloat,
    PositiveInt,
    Strict,
    UnitFloat,
)
from orchestrator.engine.model_routing import HUMAN
from orchestrator.errors import ConfigError

MODELS_FILE = "config/models.yaml"

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EnvName = Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")]
WindowTokens = Annotated[int, Meta(ge=2_000)]
T = TypeVar("T")

DEFAULT_STAGE = "strong"
"""The stage of an agent that names none, and of a model that is replaced and serves no stage."""

_SECRET_BOUND = ("key", "base_url", "base_url_env", "api")
_SNAPSHOT = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


class Stage(Strict, frozen=True):
    """One escalation stage: the model and settings that a task is tried with.

    Attributes:
        model: the stage whose models it uses; None: its own.
        strategy: an instruction that is added to the agent's prompt, empty for none.
        effort: the reasoning effort (``low``, ``medium``, ...), None for the model's default.
        max_tokens: the most tokens of one answer, reasoning included.
        min_score: a judge's score below it escalates to the next stage, 0 to 1.
    """

    name: NonEmptyStr
    model: NonEmptyStr | None = None
    strategy: str = ""
    effort: Effort | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=128_000)] = 16_000
    min_score: UnitFloat = 0.0


class Capabilities(Strict, frozen=True):
    """What a provider's server supports.

    Attributes:
        schemas: how it treats a report's JSON Schema: it enforces the schema (``strict``), uses it
            as guidance (``loose``), only knows JSON mode (``json``), or none of these (``none``).
            Unless ``strict``, the prompt states the schema too.
        schemas_with_tools: a request may have both a schema and tools.
        tool_calls: ``native``, or as marked ``text``.
        parallel_calls: one answer may hold several calls.
        effort: a request may set the reasoning effort.
        max_tokens_field: the name of that parameter (Chat Completions only).
        think_tags: thinking in front of an answer, as ``<think>...</think>``, is no part of it.
        returns_reasoning: the reasoning of an answer must be in the next request.
        cache_breakpoints: a request may mark where a cached prompt ends (Responses only).
        streams: answers are requested as a stream.
        traceparent: requests carry the trace context (W3C) of the model call.
    """

    schemas: Literal["strict", "loose", "json", "none"]
    schemas_with_tools: bool
    tool_calls: Literal["native", "text"]
    parallel_calls: bool
    effort: bool
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    think_tags: bool = False
    returns_reasoning: bool = False
    cache_breakpoints: bool = False
    streams: bool = True
    traceparent: bool = False


class Provider(Strict, frozen=True, kw_only=True):
    """A service that answers requests.

    Attributes:
        api: its HTTP API: Anthropic Messages, OpenAI Responses, or OpenAI Chat Completions.
        key_env: the environment variable that holds the API key (``key`` in the file).
        key_required: False for a server that works without a key.
        base_url: its address; empty when only ``base_url_env`` says it.
        base_url_env: the environment variable that overrides the address.
        model_env: the environment variable that names the model of every stage without one.
        models: stage → model.
    """

    api: Literal["messages", "responses", "chat"]
    key_env: EnvName = field(name="key")
    key_required: bool = True
    base_url: str = ""
    base_url_env: EnvName
    model_env: EnvName | None = None
    models: dict[str, NonEmptyStr]
    can: Capabilities


class BreakerPolicy(Strict, frozen=True):
    """When the circuit breaker of a model opens.

    Attributes:
        failures: consecutive failures that open it.
        cooldown: seconds until the next attempt.
    """

    failures: PositiveInt = 5
    cooldown: PositiveFloat = 20.0


class CallPolicy(Strict, frozen=True):
    """Timeouts and retries of a call. Times in seconds.

    Attributes:
        attempts: attempts of one call, the first included.
        timeout: of one attempt; for a streamed answer, the longest silence in it.
        deadline: of all attempts of one call and the waits between them.
        first_wait, longest_wait: waits grow from one to the other; jitter is added.
    """

    attempts: PositiveInt = 5
    timeout: PositiveFloat = 180.0
    deadline: PositiveFloat = 300.0
    first_wait: PositiveFloat = 1.0
    longest_wait: PositiveFloat = 30.0
    breaker: BreakerPolicy = BreakerPolicy()


class ContextWindows(Strict, frozen=True):
    """Tokens of a request and its answer together.

    Attributes:
        default: of a model that is not in ``models``.
    """

    default: WindowTokens = 128_000
    models: dict[str, WindowTokens] = field(default_factory=dict)


class ModelsConfig(Strict, frozen=True):
    """``config/models.yaml``: stages, cheapest first, providers, context windows, and retries."""

    stages: Annotated[tuple[Stage, ...], Meta(min_length=1)] = field(name="escalation")
    providers: dict[str, Provider]
    windows: ContextWindows = ContextWindows()
    calls: CallPolicy = CallPolicy()

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The names of the escalation stages, cheapest first."""
        return tuple(stage.name for stage in self.stages)

    def stage(self, name: str) -> Stage:
        """A stage by name."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = ", ".join(self.stage_names)
        raise ConfigError(f"there is no stage {name!r}; there is {names}", MODELS_FILE)

    def is_stage(self, name: str) -> bool:
        """Whether a name is a stage, and not a model's own name."""
        return name in self.stage_names

    def split(self, name: str, provider: str = "") -> tuple[str, str]:
        """Provider, and stage or model, of a name such as ``openai:strong`` or ``strong``.

        A colon in a model's own name, such as ``qwen3:8b``, is a part of it.

        Args:
            provider: that of a name without one.
        """
        before, _, model = name.partition(":")
        return (before, model) if model and before in self.providers else (provider, name)

    def name_error(self, name: str) -> str:
        """What is wrong with the name of an agent's model; empty for one that may exist."""
        before, colon, rest = name.partition(":")
        provider, model = self.split(name)
        if HUMAN in {model, self.split(model)[1]}:
            return f"{HUMAN!r} is a person, not a model"
        if OFFLINE in {name.strip().lower(), before.strip().lower()}:
            return f"{OFFLINE!r} is no model: a review is offline as a whole, by its provider"
        if (colon and not rest.strip()) or self.split(model)[0]:
            return f"{name!r} does not name a model; allowed: a stage or a model, or PROVIDER:NAME"
        if colon and not provider:
            from difflib import get_close_matches  # noqa: PLC0415 - few names need it

            near = get_close_matches(before.strip().lower(), self.providers, n=1, cutoff=0.8)
            if near or self.is_stage(rest.strip()):
                return describe_unknown_name("provider", before, self.providers)
        return ""

    def stage_of(self, provider: str, name: str) -> str:
        """The stage of a provider's model, by the name of either; any other model has the default.

        Empty when there is no such stage.
        """
        if not self.is_stage(name):
            models = self.provider(provider).models
            name = next((s for s in self.stage_names if models.get(s) == name), DEFAULT_STAGE)
        return name if self.is_stage(name) else ""

    def resolve(self, provider: str, name: str, env: Mapping[str, str]) -> str:
        """The model of a stage; any other name is a model's own name and is returned unchanged.

        Raises:
            ConfigError: the provider has no model for the stage; says where to name one.
        """
        model = self.find_model(provider, name, env)
        if not model:
            where = f"name one under providers.{provider}.models"
            model_env = self.provider(provider).model_env
            also = f", or set {model_env}" if model_env else ""
            raise ConfigError(f"{provider} has no model for {name!r}; {where}{also}", MODELS_FILE)
        return model

    def find_model(self, provider: str, name: str, env: Mapping[str, str]) -> str:
        """The model of a stage as of ``resolve``, empty when the provider has none for it."""
        if not self.is_stage(name):
            return name
        if name == HUMAN:
            return ""
        service, model = self.provider(provider), self.stage(name).model or name
        return service.models.get(model) or env.get(service.model_env or "", "").strip()

    def provider(self, name: str) -> Provider:
        """A provider by name."""
        if name not in self.providers:
            known = ", ".join(self.providers)
            raise ConfigError(f"there is no provider {name!r}; there is {known}", MODELS_FILE)
        return self.providers[name]

    def window(self, model: str) -> int:
        """Tokens of a request of this model and its answer together."""
        return find_by_model(self.windows.models, model) or self.windows.default


def find_by_model(entries: Mapping[str, T], model: str) -> T | None:
    """The entry of a model; a dated snapshot (``name-2026-09-29``) has that of its name."""
    return entries.get(model) or entries.get(_SNAPSHOT.sub("", model))


def load_models(layers: Sequence[Layer]) -> ModelsConfig:
    """Read the escalation stages and the providers, all layers merged.

    Raises:
        ConfigError: the first error; such as a layer above the shipped one that redirects keys.
    """
    errors: list[ConfigError] = []
    found = read_models(layers, errors)
    if found is None:
        raise errors[0]
    return found


def read_models(layers: Sequence[Layer], errors: list[ConfigError]) -> ModelsConfig | None:
    """``config/models.yaml`` of all layers; None when it has errors, added to ``errors``."""
    own = [error for layer in layers[1:] for error in _check_key_destinations(layer)]
    found = check_merged(layers, MODELS_FILE, ModelsConfig, own)
    if found is not None:
        own += _check_stages(*found)
    errors += own
    return found[1] if found and not own else None


def _check_stages(node: YamlNode, file: ModelsConfig) -> Iterator[ConfigError]:
    """Errors for stages that appear twice or out of order, and for unknown stages."""
    names = file.stage_names
    for at, entry in enumerate(file.stages):
        if entry.name in names[:at]:
            yield node.error(
                f"the stage {entry.name!r} appears twice; name it once", "escalation", at
            )
        if entry.name == HUMAN and at < len(names) - 1:
            message = f"the stage {HUMAN!r} is a person; allowed: as the last stage"
            yield node.error(message, "escalation", at)
        if entry.model is not None and entry.model not in names:
            yield node.error(
                describe_unknown_name("stage", entry.model, names), "escalation", at, "model"
            )
    for name, provider in file.providers.items():
        for stage in provider.models:
            # A repository's own list may lack stages that the shipped providers serve.
            served = node.at("providers", name, "models", stage)
            if stage not in names and served.file != MODELS_FILE:
                yield served.error(
                    describe_unknown_name("stage", stage, names, f"providers.{name}.models")
                )


def _check_key_destinations(layer: Layer) -> Iterator[ConfigError]:
    """Errors for settings of a repository that decide where a user's API key is sent.

    A review of a stranger's repository would otherwise send the key wherever it asks.
    """
    for file in find_versions([layer], MODELS_FILE):
        try:
            providers = parse_yaml(file.data, file.display_path).at("providers").data
        except ConfigError:
            return  # reported when the file is read
        for name, node in providers.items() if isinstance(providers, Mapping) else ():
            for key in _SECRET_BOUND:
                if isinstance(node.data, Mapping) and key in node.data:
                    yield node.error(
                        f"providers.{name}.{key} decides where a key goes, so a repository may "
                        "not set it; set the provider's environment variables instead",
                        key,
                    )
