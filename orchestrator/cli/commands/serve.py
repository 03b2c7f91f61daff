"""``diffcourt serve``: the service's web server."""

import argparse

from orchestrator.cli.arguments import count
from orchestrator.cli.commands.work import add_config, require_service
from orchestrator.errors import EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_config(parser)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=count, default=8080)


def run(args: argparse.Namespace) -> int:
    """Serve until asked to end."""
    require_service()
    from logging import getLogger

    import uvicorn

    from orchestrator.service.database import prepare_database
    from orchestrator.service.http_server import server_config
    from orchestrator.service.service_log import log_to_stderr
    from orchestrator.service.settings import load_settings

    settings = load_settings(args.config)
    log_to_stderr()
    prepare_database(settings.database.read())
    for forge in settings.forges:
        getLogger("diffcourt").info(
            "webhooks of %s: http://%s:%d/webhooks/%s", forge, args.host, args.port, forge
        )
    uvicorn.Server(server_config(settings, args.host, args.port)).run()
    return EXIT_OK
