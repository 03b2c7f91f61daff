"""``diffcourt work``: a worker of the service."""

import argparse
from pathlib import Path

from orchestrator.errors import EXIT_OK, InputError


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the service's configuration."""
    parser.add_argument("--config", type=Path, default=Path("/etc/diffcourt/service.yaml"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_config(parser)


def require_service() -> None:
    """Check that what the service needs is installed.

    Raises:
        InputError: it is not; says how to install it.
    """
    from importlib.util import find_spec

    from orchestrator.optional_dependencies import install_command

    needed = ("procrastinate", "psycopg", "starlette", "uvicorn")
    if not all(map(find_spec, needed)):
        raise InputError(f"the service needs Procrastinate; run: {install_command('service')}")


def run(args: argparse.Namespace) -> int:
    """Work until asked to end."""
    import asyncio
    from logging import getLogger

    require_service()
    from orchestrator.service.database import prepare_database
    from orchestrator.service.service_log import log_to_stderr
    from orchestrator.service.settings import load_settings
    from orchestrator.service.traces import check_exporter
    from orchestrator.service.worker import run_worker

    settings = load_settings(args.config)
    log_to_stderr()
    if settings.traces:
        check_exporter(settings.traces)
    prepare_database(settings.database.read())
    getLogger("diffcourt").info("taking jobs, at most %d at a time", settings.worker.concurrency)
    asyncio.run(run_worker(settings))
    return EXIT_OK
