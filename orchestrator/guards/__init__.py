"""Guards over text: each looks for one thing and says what it found (``engine.text_guards``)."""
