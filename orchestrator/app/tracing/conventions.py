"""The names of OpenTelemetry's GenAI semantic conventions that a trace of a run uses.

The conventions are in development: names change between releases. All names that we write are here,
as of one release, and in the table of ``docs/traces.md``.

Source: https://github.com/open-telemetry/semantic-conventions-genai
"""

from collections.abc import Mapping
from typing import Final

from orchestrator.data_directories import read_table

CONVENTIONS: Final = "semantic-conventions-genai 0.1.0"
SCHEMA: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
SERVER, PORT = "server.address", "server.port"
ERROR: Final = "error.type"

# With content only.
SYSTEM: Final = "gen_ai.system_instructions"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"

EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_SCORE: Final = "gen_ai.evaluation.score.value"
EVALUATION_WHY: Final = "gen_ai.evaluation.explanation"

WORKFLOW, PLAN, INVOKE = "invoke_workflow", "plan", "invoke_agent"
CHAT, EXECUTE = "chat", "execute_tool"
"""Operations, which begin the names of spans."""

HEAD_REVISION: Final = "vcs.ref.head.revision"
BASE_REVISION: Final = "vcs.ref.base.revision"

_TABLES = read_table(__file__, "conventions.yaml")
PROVIDERS: Final[Mapping[str, str]] = _TABLES["providers"]
FINISHES: Final[Mapping[str, str]] = _TABLES["finishes"]
NOTES: Final[Mapping[str, str]] = _TABLES["notes"]
SHOWN, TOLD = frozenset(_TABLES["shown"]), frozenset(_TABLES["told"])
BODIES: Final[Mapping[str, str]] = _TABLES["bodies"]
