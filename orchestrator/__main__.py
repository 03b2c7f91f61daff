"""``python -m orchestrator`` is the ``diffcourt`` command."""

from orchestrator.cli.main import process

if __name__ == "__main__":
    process()
