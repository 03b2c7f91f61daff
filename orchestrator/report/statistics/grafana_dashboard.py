"""The Grafana dashboard of the metrics: ``config/grafana-dashboard.json``."""

from orchestrator.data_directories import data_root


def read_dashboard() -> str:
    """The dashboard's JSON, to import in Grafana; its data source is a variable."""
    return (data_root() / "config" / "grafana-dashboard.json").read_text("utf-8")
