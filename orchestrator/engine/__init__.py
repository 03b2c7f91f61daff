"""The harness: a state machine, bounded agents, one guarded executor, a journal of effects.

Where to look::

    state_machine.py       the main loop: states, handlers, transitions
    agent.py               the turns of one agent
    parallel_agents.py     several agents at once
    agent_context.py       what an agent's model is sent
    executor.py            the steps of one tool call
    tool_call_guards.py    rules that may refuse a tool call
    budget.py              reserve, then settle
    journal.py             effects and replay, stored by journal_log.py
    rubric_scoring.py      the score of a rubric
"""
