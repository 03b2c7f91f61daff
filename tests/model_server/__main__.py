"""``python -m tests.model_server``."""

from tests.model_server.server import main

raise SystemExit(main())
