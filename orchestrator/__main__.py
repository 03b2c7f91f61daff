"""``python -m orchestrator`` is the ``diffcourt`` command."""

from orchestrator.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
