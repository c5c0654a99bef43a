"""`gf-i2p monitoring`: prints the alert rules and the dashboard that belong to a node's figures."""

import argparse
from importlib import resources
from typing import Final

from gf_i2p.cli.shared.command import Answer, Commands, Subcommand

_PACKAGE: Final = "gf_i2p.admin.monitoring"


def _print(name: str) -> Answer:
    text = resources.files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")
    return Answer({"file": name, "content": text}, text.removesuffix("\n"), is_file=True)


def alerts(_: argparse.Namespace) -> Answer:
    """Print the alert rules for Prometheus."""
    return _print("alerts.yaml")


def dashboard(_: argparse.Namespace) -> Answer:
    """Print the dashboard for Grafana."""
    return _print("dashboard.json")


COMMANDS: Final[Commands] = {
    "alerts": Subcommand("print alert rules for Prometheus, as a file for rule_files", lambda _: None, alerts),
    "dashboard": Subcommand("print a dashboard for Grafana, to import there", lambda _: None, dashboard),
}
