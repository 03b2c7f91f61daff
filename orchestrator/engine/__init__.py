"""The harness: a state machine, bounded agents, one guarded executor, a journal of effects.

- A run: ``state_machine``; the tasks of agents: ``agent_tasks``.
- An agent: ``agent_loop``, ``report_reading``; its context: ``agent_context``,
  ``context_compaction``, ``common_contract``; its ends: ``loop_detection``, ``budget``.
- A model call: ``model_routing``, ``model_call_events``, ``text_guards``.
- A tool call: ``executor``, with ``tool_registry``, ``tool_circuit_breaker``, ``tool_call_guards``,
  ``program_output_collection``, ``untrusted_text``.
- People: ``approvals``, ``human_questions``.
- The journal: ``journal``, ``journal_keys``, ``journal_log``, ``journal_hash_chain``,
  ``journal_verification``, ``secret_redaction``, ``secret_forms``.
- Read from the journal: ``tool_call_records``, ``journal_rows``, ``recorded_conversations``,
  ``trace_context``.
- Scores: ``rubric_scoring``.
- Used by all: ``types``, ``ports``, ``field_types``, ``canonical_json``, ``observer_events``,
  ``task_groups``.
"""
