"""Diffcourt: review a change with a lead, parallel specialists and a judge; decide in plain code.

``from orchestrator import ...`` gives the public API: nothing but these names is promised. Central
ones have examples in their docstrings. Each is imported when it is first used.
``docs/architecture.md`` has the layers.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing typing alone would double the start-up time
if TYPE_CHECKING:
    from typing import Any

    from orchestrator.engine.journal_verification import VerificationResult as VerificationResult
    from orchestrator.engine.observer_events import Event as Event
    from orchestrator.engine.observer_events import Observer as Observer
    from orchestrator.engine.ports import CallContext as CallContext
    from orchestrator.engine.ports import Clock as Clock
    from orchestrator.engine.ports import Guard as Guard
    from orchestrator.engine.ports import GuardedCall as GuardedCall
    from orchestrator.engine.ports import Model as Model
    from orchestrator.engine.ports import Ruling as Ruling
    from orchestrator.engine.state_machine import Flow as Flow
    from orchestrator.engine.state_machine import State as State
    from orchestrator.engine.text_guards import Detection as Detection
    from orchestrator.engine.tool_call_guards import RateGuard as RateGuard
    from orchestrator.engine.tool_call_guards import RepetitionGuard as RepetitionGuard
    from orchestrator.engine.tool_call_guards import SensitiveGuard as SensitiveGuard
    from orchestrator.engine.tool_registry import ToolPolicy as ToolPolicy
    from orchestrator.engine.types import Bounds as Bounds
    from orchestrator.engine.types import Level as Level
    from orchestrator.engine.types import LoggedCall as LoggedCall
    from orchestrator.engine.types import Observation as Observation
    from orchestrator.engine.types import Request as Request
    from orchestrator.engine.types import Response as Response
    from orchestrator.engine.types import Text as Text
    from orchestrator.engine.types import ToolCall as ToolCall
    from orchestrator.engine.types import ToolSpec as ToolSpec
    from orchestrator.engine.types import Usage as Usage
    from orchestrator.errors import ActionFailed as ActionFailed
    from orchestrator.errors import ApprovalPending as ApprovalPending
    from orchestrator.errors import ApprovalRequired as ApprovalRequired
    from orchestrator.errors import BudgetExhausted as BudgetExhausted
    from orchestrator.errors import ConfigError as ConfigError
    from orchestrator.errors import Denied as Denied
    from orchestrator.errors import DiffcourtError as DiffcourtError
    from orchestrator.errors import FlowError as FlowError
    from orchestrator.errors import GuardRefused as GuardRefused
    from orchestrator.errors import InputError as InputError
    from orchestrator.errors import Interrupted as Interrupted
    from orchestrator.errors import InvalidArguments as InvalidArguments
    from orchestrator.errors import ModelError as ModelError
    from orchestrator.errors import NotOffered as NotOffered
    from orchestrator.errors import NotPermitted as NotPermitted
    from orchestrator.errors import NotRegistered as NotRegistered
    from orchestrator.errors import ProviderRefused as ProviderRefused
    from orchestrator.errors import Refused as Refused
    from orchestrator.errors import ReplayMismatch as ReplayMismatch
    from orchestrator.errors import StoreError as StoreError
    from orchestrator.errors import ToolDown as ToolDown
    from orchestrator.library.agents import Agent as Agent
    from orchestrator.library.agents import AgentResult as AgentResult
    from orchestrator.library.external_model_calls import ModelCall as ModelCall
    from orchestrator.library.external_model_calls import ModelContext as ModelContext
    from orchestrator.library.harness import Harness as Harness
    from orchestrator.library.reviews import review as review
    from orchestrator.library.tools import FunctionTool as FunctionTool
    from orchestrator.library.tools import tool as tool
    from orchestrator.library.verdict_models import Verdict as Verdict

_PUBLIC = {
    "engine.tool_call_guards": "RateGuard RepetitionGuard SensitiveGuard",
    "engine.observer_events": "Event Observer",
    "engine.text_guards": "Detection",
    "engine.journal_verification": "VerificationResult",
    "engine.ports": "CallContext Clock Guard GuardedCall Model Ruling",
    "engine.state_machine": "Flow State",
    "engine.tool_registry": "ToolPolicy",
    "engine.types": (
        "Bounds Level LoggedCall Observation Request Response Text ToolCall ToolSpec Usage"
    ),
    "errors": (
        "ActionFailed ApprovalPending ApprovalRequired BudgetExhausted ConfigError Denied "
        "DiffcourtError FlowError GuardRefused InputError Interrupted InvalidArguments "
        "ModelError NotOffered NotPermitted NotRegistered ProviderRefused Refused "
        "ReplayMismatch StoreError ToolDown"
    ),
    "library.agents": "Agent AgentResult",
    "library.harness": "Harness",
    "library.external_model_calls": "ModelCall ModelContext",
    "library.reviews": "review",
    "library.tools": "FunctionTool tool",
    "library.verdict_models": "Verdict",
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 - the names are those of the table


def __getattr__(name: str) -> "Any":
    # Nothing is imported before it is asked for: the command's start-up counts.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - it would slow `--version` down

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
