"""The harness: a state machine, bounded agents, one guarded executor, a journal of effects.

Where to look::

    machine.py    the main loop: states, handlers, transitions
    agent.py      one agent's turns                  team.py      agents side by side
    executor.py   the steps of one tool call         guards.py    what may say no
    limits.py     reserve, then settle               journal.py   effects and replay, over log.py
    judge.py      a rubric's score                   stopping.py  iterate, or stop and why
"""
