"""``python -I -m orchestrator`` is the ``diffcourt`` command.

Without ``-I`` Python would import the modules of the working directory: often a checkout.
"""

import sys

from orchestrator.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
