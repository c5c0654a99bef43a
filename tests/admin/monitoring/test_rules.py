"""The alert rules and the dashboard name only figures that exist."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from gf_i2p.admin.monitoring import metrics

FOLDER = resources.files("gf_i2p.admin.monitoring")
SOURCE = Path(metrics.__file__).read_text(encoding="utf-8")


def known() -> set[str]:
    """Return the names of all samples that the metrics can have."""
    names = set()
    for kind, name in re.findall(r'to\.(gauge|counter)\(\s*"(gf_i2p_\w+)"', SOURCE):
        names.add(name if kind == "gauge" else f"{name}_total")
    for name in re.findall(r'\.histogram\(\s*"(gf_i2p_\w+)"', SOURCE):
        names.add(f"{name}_bucket")
    return names


def named(text: str) -> set[str]:
    return set(re.findall(r"\bgf_i2p_\w+", text))


def test_each_alert_has_a_reason_and_an_advice_and_names_figures_that_exist() -> None:
    (group,) = yaml.safe_load(FOLDER.joinpath("alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description"}
        assert named(rule["expr"])
        assert named(rule["expr"]) <= known(), rule["alert"]


def test_each_panel_names_figures_that_exist() -> None:
    dashboard: dict[str, Any] = json.loads(FOLDER.joinpath("dashboard.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 15
    for expression in expressions:
        assert named(expression)
        assert named(expression) <= known(), expression
    assert len({panel["title"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
