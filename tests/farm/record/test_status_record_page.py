"""`docs/reference/status-record.md` names each content of proposal 150, and each field of the schema."""

import json
import re
from pathlib import Path
from typing import Any

from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.router_facts import RouterStatus
from gf_i2p.farm.record.status_record import router_numbers
from gf_i2p.farm.schema import text as schema_text
from tests.farm.choice.kinds import TOLD

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "status-record.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
PROPOSAL = {
    "top level": ["cluster", "date", "id"],
    "config": ["Any configuration parameters"],
    "meta": ["destination", "lastPublishedLS", "lastPublishedTime", "publishConfig", "publishing"],
    "router": [
        "lastPublishedRI", "uptime", "Job lag", "Exploratory tunnels", "Participating tunnels", "Configured bandwidth",
        "Current bandwidth",
    ],
    "destinations": [
        "destination", "uptime", "Configured tunnels", "Current tunnels", "Configured bandwidth", "Current bandwidth",
        "Configured connections", "Current connections", "Blacklist data",
    ],
    "remoteRouters": [
        "Last RI version seen", "LS Fetch time", "Connection test data", "Closest floodfills profile data",
    ],
    "remoteDestinations": [
        "Last LS version seen", "LS Fetch time", "Connection test data", "Closest floodfills profile data",
    ],
    "metaSensing": ["Last version seen", "Fetch time", "Closest floodfills profile data"],
}  # fmt: skip
"""The contents of proposal 150, in its order, by the object of the record."""
FROM_THE_FILE = frozenset({"lastPublishedRI"})
"""Fields of the router that no interface tells, and that have a source all the same."""
OBJECTS = {"config", "meta", "router", "destinations", "remoteRouters", "remoteDestinations", "metaSensing"}


def fields_of(schema: dict[str, Any]) -> dict[str, set[str]]:
    """Give the names of each object of the record."""
    properties = schema["properties"]
    names = {"top level": properties.keys() - OBJECTS}
    for name in OBJECTS:
        names[name] = set(properties[name].get("items", properties[name])["properties"])
    return names


def rows_of(name: str) -> list[list[str]]:
    return [row for row in ROWS if row[0].strip("`") == name and len(row) == 3]


def test_the_page_has_each_content_of_the_proposal() -> None:
    assert {name: [row[1] for row in rows_of(name) if row[1] != "-"] for name in PROPOSAL} == PROPOSAL


def test_the_page_has_each_field_of_the_schema() -> None:
    told = {
        name: set(re.findall(r"`(\w+)`", " ".join(row[2] for row in rows_of(name)))) - {"sensed"} for name in PROPOSAL
    }
    assert told == fields_of(json.loads(schema_text()))


def test_the_code_has_each_field_of_the_router_and_of_the_destinations() -> None:
    names = fields_of(json.loads(schema_text()))
    facts = dict.fromkeys(RouterStatus.__slots__, 1)
    assert router_numbers(RouterStatus(**facts)).keys() | {"up"} == names["router"]  # type: ignore[arg-type]
    full = Leaf(
        bytes(32), up=True, destination="d", type=7, below=(bytes(32),), depth=1, uptime_ms=1, configured_tunnels=1,
        current_tunnels=1, configured_bandwidth=1, current_bandwidth=1, configured_connections=1, current_connections=1,
        blacklisted=1,
    )  # fmt: skip
    assert full.encode().keys() == names["destinations"]


def test_the_page_has_a_source_of_each_field_of_the_router_and_of_the_destinations() -> None:
    """The page names each field once, or says that there is no source; a record tells exactly the named fields."""
    fields = fields_of(json.loads(schema_text()))
    for name in ("router", "destinations"):
        rows = [row for row in ROWS if row[0].strip("`") == name and len(row) == 4]
        told = [field for row in rows for field in re.findall(r"`(\w+)`", row[1])]
        assert sorted(told) == sorted(fields[name])
    for column, kind in ((2, "Java I2P"), (3, "i2pd")):
        sources = {
            field: row[column]
            for row in ROWS
            if row[0] == "`router`" and len(row) == 4
            for field in re.findall(r"`(\w+)`", row[1])
        }
        named = {field for field, source in sources.items() if not source.startswith("none")}
        assert named - {"up", *FROM_THE_FILE} == TOLD[kind], kind
    assert TOLD["no i2pcontrol"] == frozenset()
