"""`gf-i2p members rotate-key`: the steps, and what is told when one of them fails."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.cli.membership import rotate_key
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.node.files.config import Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_proof import PublicKey


class Node:
    """Stands in for a running node: loads the file when it is told to, and commits what is posted."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.steps: list[str] = []
        self.keys: dict[str, str] = {}
        self.loaded: Secrets | None = None
        self.fails_at = ""

    def __call__(self, _directory: Path, method: str, path: str, *, seconds: float = 0, body: Any = None) -> Any:
        del seconds
        name = path.partition("?")[0].removeprefix("/v1/")
        if method == "POST":
            self.steps.append(name)
        if name == self.fails_at:
            raise CommandError("the node was killed", outcome="unknown")
        match name:
            case "reload":
                self.loaded = Secrets.load(self.directory)
                return {"error": None, "needs_restart": []}
            case "entries":
                entry = AdminEntry.parse(body["values"][0].encode())
                assert (entry.action, entry.by, entry.server) == ("serverKey", "server-1", 1)
                assert entry.key is not None
                assert self.loaded is not None
                assert entry.key in [key.public.raw for key in self.loaded.login_keys()], "known before"
                self.keys["1"] = str(PublicKey(entry.key))
                return {"index": 9}
            case _:
                return {"server_keys": self.keys, "applied": 9}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    make_farm(tmp_path, {1: Endpoint("127.0.0.1", 4001)}, cluster="farm", profile="lan", clients=[], admins=["ops"])
    for module in ("gf_i2p.cli.membership.rotate_key", "gf_i2p.cli.shared.local_client"):
        monkeypatch.setattr(f"{module}.holder", lambda _: "7")
    return Node(tmp_path / "server-1")


def run(node: Node, admin: Path | None = None) -> Any:
    return rotate_key.rotate(argparse.Namespace(directory=node.directory, admin=admin, json=True), node)


def test_the_node_knows_the_key_before_the_farm_and_uses_it_afterwards(node: Node) -> None:
    (old,) = Secrets.load(node.directory).login_keys()
    answer = run(node)
    assert node.steps == ["reload", "entries", "reload"]
    assert node.loaded is not None
    new, former = node.loaded.login_keys()
    assert (former, node.loaded.new_key) == (old, None)
    assert json.loads(json.dumps(answer.data)) == {"server": 1, "key": str(new.public), "index": 9}
    assert str(new.public) in answer.text
    assert new.text not in answer.text


@pytest.mark.parametrize("step", ["reload", "entries", "administration"])
def test_a_command_that_was_stopped_goes_on_with_the_same_key(node: Node, step: str) -> None:
    node.fails_at = step
    with pytest.raises(CommandError):
        run(node)
    _, new = Secrets.load(node.directory).login_keys()
    node.fails_at = ""
    run(node)
    assert Secrets.load(node.directory).login_keys()[0] == new


def test_a_committed_key_is_not_posted_again(node: Node) -> None:
    node.fails_at = "entries"
    with pytest.raises(CommandError):
        run(node)
    node.fails_at = ""
    node.keys["1"] = str(Secrets.load(node.directory).login_keys()[1].public)
    node.steps.clear()
    assert run(node).data["index"] is None
    assert node.steps == ["reload", "reload"]


def test_without_a_node_an_administrators_file_is_needed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotate_key, "holder", lambda _: None)
    with pytest.raises(CommandError, match=r"nothing was changed: no node runs .* --admin admin-NAME\.toml"):
        run(node)
    assert len(Secrets.load(node.directory).login_keys()) == 1


def test_the_file_of_another_farm_is_refused(node: Node, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_farm(other, {1: Endpoint("127.0.0.1", 4002)}, cluster="another", profile="lan", clients=[], admins=["ops"])
    with pytest.raises(CommandError, match="is for the farm 'another', and this server belongs to 'farm'"):
        run(node, other / "admin-ops.toml")


def test_an_older_node_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def older(*words: Any, **options: Any) -> Any:
        answer = node(*words, **options)
        return {} if words[2] == "/v1/administration" else answer

    with pytest.raises(CommandError, match="of an older version: restart the node"):
        rotate_key.rotate(argparse.Namespace(directory=node.directory, admin=None, json=True), older)
