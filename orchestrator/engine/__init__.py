"""The harness: a state machine, bounded agents, one guarded executor, a journal of effects."""
