"""Diffcourt: review a change with a lead, parallel specialists and a judge; decide in plain code.

The package is layered; imports point down only (``import-linter`` holds it)::

    cli - report - app            screens and wiring
      review, tuning              the application
        catalog, providers, stores, sandbox    adapters behind the engine's ports
          engine                  the harness
            errors, resources
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
