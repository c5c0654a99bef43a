"""The contents of a recorded farm's files, as the operator's commands and the storage read them.

A release writes down the contents (`integration.upgrades.record`). Later versions must find the same contents.
"""

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.commands import history, snapshot
from gf_i2p.cli.doctor.node_directory import NodeFiles
from gf_i2p.cli.shared.command import Answer
from gf_i2p.farm.state import FarmState
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_file import FarmFile
from gf_i2p.node.files.file_names import DATABASE_FILE
from gf_i2p.node.files.leaf_file import LEAF_FILE, LeafFile
from gf_i2p.node.files.stopped_log import examine_stopped_log
from gf_i2p.node.publish.publishing_keys import load_publishing_keys
from integration.load.log_comparison import read_export, read_log

SNAPSHOT_FILE: Final = "farm.snapshot"
FARM_FILE: Final = "farm.toml"
KEYS_FILE: Final = "publish-server-1.keys"
_STOPPED: Final = ("configuration", "secrets", "directory", "log", "certificate", "history")
"""Doctor's checks that need only the files of a stopped node."""


def contents(farm: Path) -> dict[str, Any]:
    """Read all files of a farm whose nodes are stopped; raises the errors of the reading code."""
    servers = sorted(farm.glob("server-*"))
    assert servers, f"no server's directory is in {farm}"
    return {
        "servers": {server.name: _server(server) for server in servers},
        "clients": {file.name: _client(ClientFile.load(file)) for file in sorted(farm.glob("*-*.toml"))},
        "leaves": {leaf.name: _client(LeafFile.load(leaf / LEAF_FILE)) for leaf in sorted(farm.glob("leaf-*"))},
        "snapshot": _answer(snapshot.inspect, file=farm / SNAPSHOT_FILE),
        "farm": FarmFile.load(farm / FARM_FILE).model_dump(mode="json"),
        "master": load_publishing_keys(farm / KEYS_FILE).destination.b32,
    }


def _server(directory: Path) -> dict[str, Any]:
    config = Config.load(directory)
    loaded = examine_stopped_log(directory, config)
    assert loaded.snapshot_fault is None, loaded.snapshot_fault
    assert loaded.snapshot is not None, "a recorded log has a snapshot"
    state = FarmState.decode(config.node.cluster, loaded.snapshot.data)
    return {
        "endpoints": {server.id: server.endpoint for server in config.servers},
        "users": sorted(Secrets.load(directory).users),
        "term": loaded.hard_state.term,
        "vote": loaded.hard_state.vote,
        "snapshot": [loaded.snapshot.index, loaded.snapshot.term, sorted(state.records), sorted(state.posters.by_id)],
        "parameters": asdict(state.parameters),
        "log": [
            f"{index} {term} {kind} {_digest(value)}" for index, (term, kind, value) in _log(directory, config).items()
        ],
        "history": _digest(repr(list(read_export(directory).values.items())).encode()),
        "verified": _answer(history.verify, directory=directory),
        "doctor": asyncio.run(_doctor(directory)),
    }


def _log(directory: Path, config: Config) -> dict[int, tuple[int, int, bytes]]:
    assert (directory / DATABASE_FILE).exists()
    return read_log(directory, config.node.id, config.node.cluster)


def _client(file: ClientFile) -> dict[str, Any]:
    return {
        "cluster": file.cluster,
        "user": file.user,
        "logs in": file.login.user,
        "servers": {server.id: [server.endpoint, server.fingerprint] for server in file.servers},
    }


async def _doctor(directory: Path) -> dict[str, str]:
    """Make doctor's checks of the files, without the time limits of a busy machine."""
    checks = {check.name: check for check in NodeFiles(directory).checks()}
    return {name: (await checks[name].look()).state for name in _STOPPED}


def _answer(command: Callable[[argparse.Namespace], Answer], **options: Path) -> Any:
    """Return a command's answer for `--json`, without the path that the caller has chosen."""
    data = command(argparse.Namespace(**options)).data
    return {name: value for name, value in data.items() if name != "file"}


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:16]
