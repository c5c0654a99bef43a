"""A farm's configuration in one file: what is written is read again, and differences become administrators' entries."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.pieces import whole
from gf_i2p.farm.state import FarmState
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.farm_file import FarmFile, differences
from gf_i2p.node.files.sealed import MIN_N, SealedTable
from gf_i2p.node.status.admin_status import describing
from tests.farm.strategies import NOW, leaf, record

STATUS = {"servers": [{"id": 1, "endpoint": "tcp://a:1"}, {"id": 2, "endpoint": "tcp://b:2"}]}
WHEN = datetime(2026, 11, 27, 21, tzinfo=UTC)
LEAF = to_b32_address(leaf(1).hash)


class Farm:
    """The state of a farm of two servers, which takes administrators' entries."""

    def __init__(self) -> None:
        self.state = FarmState("farm")
        self.state.configure([1, 2])
        self.index = 0
        for server in (1, 2):
            self.take(record(server, leaf(server), mode="meta").encode())

    def take(self, value: bytes) -> None:
        self.index += 1
        self.state.apply(value, self.index)

    def set(self, action: str, **fields: Any) -> None:
        self.take(AdminEntry("farm", NOW, "admin-ops", action, **fields).encode())

    @property
    def file(self) -> FarmFile:
        return FarmFile.of_answers({"cluster": "farm", **whole(describing(self.state))}, STATUS)


@pytest.fixture
def decided() -> Farm:
    """A farm about which administrators have decided something of each kind."""
    farm = Farm()
    farm.set("set", parameters={"margin": 100, "tree": "tree"})
    farm.set("exclude", hash=leaf(1).hash, reason="repairs")
    farm.set("cost", hash=leaf(2).hash, cost=7)
    farm.set("drain", server=2)
    farm.set("move", server=1)
    return farm


def read(tmp_path: Path, text: str) -> FarmFile:
    path = tmp_path / "farm.toml"
    path.write_text(text)
    return FarmFile.load(path)


def told(farm: FarmFile, wanted: FarmFile) -> list[str]:
    return [each.text for each in differences(farm, wanted, date_ms=NOW, by="admin-ops", reason=None)]


def test_an_exported_farm_is_read_again_as_it_was(decided: Farm, tmp_path: Path) -> None:
    text = decided.file.encode(1, WHEN)
    assert read(tmp_path, text) == decided.file
    assert text.startswith("# The farm 'farm' as server 1 knew it at 2026-11-27 21:00:00Z.\n")
    assert "margin = 100 # 0 to 1000" in text
    assert told(decided.file, read(tmp_path, text)) == []
    plain = Farm().file
    assert read(tmp_path, plain.encode(1, WHEN)) == plain
    assert "[parameters]" not in plain.encode(1, WHEN)
    sealed = plain.model_copy(update={"sealed": SealedTable.seal(b"data", "words", "farm", n=MIN_N)})
    assert read(tmp_path, sealed.encode(1, WHEN)) == sealed
    assert told(plain, sealed) == told(sealed, plain) == []


def test_an_import_brings_another_farm_to_the_same_decisions(decided: Farm) -> None:
    """The entries are applied by the code that all servers run."""
    for start, goal in ((Farm(), decided), (decided, Farm())):
        found = list(differences(start.file, goal.file, date_ms=NOW, by="admin-ops", reason="bulk"))
        assert len(found) == 5
        for each in found:
            assert each.entry is not None
            assert each.entry.reason in {"bulk", "repairs"}
            start.take(each.entry.encode())
        assert start.file == goal.file
        assert told(start.file, goal.file) == []


def test_each_difference_is_told_with_both_values(decided: Farm) -> None:
    assert told(Farm().file, decided.file) == [
        "parameters: margin default -> 100, tree default -> tree",
        f"leaf {LEAF}: included -> excluded (repairs)",
        f"leaf {to_b32_address(leaf(2).hash)}: cost computed -> 7",
        "server 2: not drained -> drained",
        "publisher: the farm's choice -> server 1",
    ]


def test_what_an_import_cannot_change_is_left_to_the_operator() -> None:
    farm = Farm().file
    one, two = farm.servers
    others = (
        one.model_copy(update={"endpoint": "tcp://c:3", "mode": "failover", "publish": "on"}),
        two.model_copy(update={"id": 3}),
    )
    found = list(
        differences(farm, farm.model_copy(update={"servers": others}), date_ms=NOW, by="admin-ops", reason=None)
    )
    assert [each.entry for each in found] == [None] * 5
    words = "\n".join(each.text for each in found)
    for part in (
        "tcp://c:3",
        "publish.mode=failover",
        "publish.publish=on",
        "server 2 is not in the file",
        "server 3 is",
    ):
        assert part in words
    silent = one.model_copy(update={"endpoint": "", "mode": None, "publish": None})
    assert told(farm, farm.model_copy(update={"servers": (silent, two)})) == [], "the file does not tell"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "format: is missing"),
        ("format = 2\ncluster = 'farm'", "format"),
        ("format = 1\ncluster = 'farm'\nmargin = 1", "margin: no such key"),
        ("format = 1\ncluster = 'farm'\n[parameters]\nmargin = 1001", "parameters: margin"),
        ("format = 1\ncluster = 'farm'\n[parameters]\nmergin = 1", "parameters: "),
        ("format = 1\ncluster = 'farm'\n[[leaves]]\naddress = 'x.b32.i2p'", "is no address"),
        ("format = 1\ncluster = 'farm'\npublisher = 4", "publisher: the file has no server 4"),
        (f"format = 1\ncluster = 'farm'\n[[leaves]]\naddress = '{LEAF}'\ncost = 256", "less than or equal to 255"),
        ("format = 1\ncluster = 'farm'\n" + f"[[leaves]]\naddress = '{LEAF}'\n" * 2, "stands there twice"),
        (
            "format = 1\ncluster = 'farm'\n" + "[[servers]]\nid = 1\nendpoint = 'tcp://a:1'\n" * 2,
            "1 stands there twice",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read(tmp_path, text)
