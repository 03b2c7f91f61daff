"""Text guards: each detects one kind of problem in a text (``engine.text_guards``)."""
