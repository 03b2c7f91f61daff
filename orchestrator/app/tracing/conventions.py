"""The names of OpenTelemetry's GenAI semantic conventions that a trace of a run uses.

The conventions are in development: names change between releases. All names that we write are here,
as of one release, and in the table of ``docs/traces.md``.

Source: https://github.com/open-telemetry/semantic-conventions-genai
"""

from typing import Final

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

WORKFLOW, PLAN, INVOKE, CHAT, EXECUTE = (
    "invoke_workflow",
    "plan",
    "invoke_agent",
    "chat",
    "execute_tool",
)
"""Operations, which begin the names of spans."""

HEAD_REVISION: Final = "vcs.ref.head.revision"
BASE_REVISION: Final = "vcs.ref.base.revision"

PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Our names of providers → those of the conventions, where they differ."""

FINISHES: Final = {
    "end": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "refused": "content_filter",
    "filtered": "content_filter",
    "paused": "stop",
}
"""How a model's answer ended → the conventions' finish reason."""
