"""The questions of `gf-i2p init` without arguments, and the farm of one server that the answers describe.

The farm begins with the server of this machine, and the others come in by codes. So no directory with keys is copied.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from gf_i2p.cli.commands.keys import DEFAULT_DAYS
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.farm_setup import OWNER, check_absent, make_farm
from gf_i2p.node.files.file_names import MASTER_FILE
from gf_i2p.node.files.settings_edit import change_settings
from gf_i2p.node.files.start_command import start_command
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.storage.private_files import write_private
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError

_KEY_FILE: Final = "service.master"
_T = TypeVar("_T")
_MODES: Final = {
    "off": "publishes nothing; can be changed at any time",
    "failover": "runs the service's one address on one server, and on the next one when that server dies",
    "meta": "publishes the list of the servers' own addresses; no client of today follows such a list",
    "dry-run": "chooses and signs, and gives nothing to a router",
}


@dataclass(frozen=True, slots=True)
class _Wishes:
    """The answers."""

    directory: Path
    endpoint: Endpoint | None
    """None: an address inside I2P."""
    servers: int
    mode: str
    service: str | None
    """Where the service listens on this machine, for mode failover."""


def run() -> Answer:
    """Ask, and make the farm. Raises `CommandError` and `ConfigError`; then nothing was made."""
    tell(
        "This makes a farm that begins with one server, on this machine. Other servers join by codes.\n"
        "Press Enter to take what stands in brackets; Ctrl-C ends this, and nothing is made.\n"
    )
    wishes = _questions()
    paths = make_farm(
        wishes.directory, {1: wishes.endpoint}, cluster="farm", profile="auto", clients=[], admins=[OWNER]
    )
    key = None if wishes.mode == "off" else _publish(wishes, paths[0])
    data = {"written": [str(path) for path in (*paths, *([] if key is None else [key]))], "mode": wishes.mode}
    return Answer(data, _next_steps(wishes, paths[0], paths[1], key))


def _questions() -> _Wishes:
    directory = _ask("Directory of the farm", "my-farm", _new_directory)
    endpoint = _ask(
        "How do the servers reach one another? i2p: through the I2P router beside each. Or, by TLS without I2P, "
        "the address of this machine, as 192.0.2.1:9001",
        "i2p",
        _place,
    )
    servers = _ask(
        "How many servers will the farm have, with this one? Three survive the loss of one, five of two",
        "3",
        _number,
    )
    tell("What do the servers publish for the service?")
    for mode, meaning in _MODES.items():
        tell(f"  {mode:<9} {meaning}")
    mode = _ask("Mode", "off", _mode)
    service = (
        _ask("Where does the service listen on this machine?", "127.0.0.1:8080", str) if mode == "failover" else None
    )
    return _Wishes(directory, endpoint, servers, mode, service)


def _ask(question: str, default: str, read: Callable[[str], _T]) -> _T:
    """Ask until `read` takes the answer. Raises `CommandError` at the end of the input."""
    while True:
        tell(f"{question} [{default}]: ", end="")
        line = sys.stdin.readline(1000)
        if not line:
            tell("")
            raise CommandError(
                "nothing was made: answer the questions on a terminal, or give DIR and --server (gf-i2p init --help)",
                code=Exit.USAGE,
            )
        try:
            return read(line.strip() or default)
        except (ValueError, EndpointError, ConfigError) as error:
            tell(str(error))


def _new_directory(text: str) -> Path:
    directory = Path(text)
    check_absent(directory / "server-1", directory / f"admin-{OWNER}.toml", directory / _KEY_FILE)
    return directory


def _place(text: str) -> Endpoint | None:
    if text.lower() == "i2p":
        return None
    endpoint = Endpoint.parse(text if "://" in text else f"tcp://{text}")
    if endpoint.is_i2p:
        raise ValueError("write i2p: the server's address inside I2P is made here")
    return endpoint


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:3]) <= 64 or len(text) > 2:
        raise ValueError("a whole number from 1 to 64")
    return int(text)


def _mode(text: str) -> str:
    if text not in _MODES:
        raise ValueError(f"one of {', '.join(_MODES)}")
    return text


def _publish(wishes: _Wishes, server: Path) -> Path:
    """Make the service's key, and keys for the server; turn publishing on. Return the path of the service's key."""
    master, now = DestinationKeys.generate(), int(time.time())
    key = wishes.directory / _KEY_FILE
    write_private(key, master.encode())
    delegated = PublishingKeys.delegate(master, now + DEFAULT_DAYS * 24 * 3600, now, server=1, service={})
    write_private(server / MASTER_FILE, delegated.encode())
    change_settings(server, _settings(wishes))
    return key


def _settings(wishes: _Wishes) -> dict[str, str | None]:
    settings: dict[str, str | None] = {"publish.mode": wishes.mode}
    if wishes.endpoint is not None:
        settings["router.i2cp"] = "127.0.0.1:7654"  # a server outside I2P has no router in its file yet
    if wishes.service is not None:
        settings["publish.service.target"] = wishes.service
    return settings


def _next_steps(wishes: _Wishes, server: Path, admin: Path, key: Path | None) -> str:
    lines = [
        f"wrote {server}, and {admin}, the administrator's file: keep it where you administer the farm.\n",
        "Here:",
        f"  {start_command(server)}",
    ]
    if wishes.servers > 1:
        place = "i2p" if wishes.endpoint is None else "tcp://HOST:PORT"
        others = "server 2" if wishes.servers == 2 else f"each of the servers 2 to {wishes.servers}"
        lines += [
            f"\nThen for {others}, a code from here:",
            f"  gf-i2p members invite {admin} 2={place} --code",
            "and on its machine, with the code pasted when it is asked for:",
            "  gf-i2p join",
            "  gf-i2p run server-2",
        ]
    if wishes.servers < 3:
        lines.append(f"\nA farm of {wishes.servers} survives the loss of no server; three survive one.")
    if key is not None:
        settings = " ".join(f"{name}={value}" for name, value in _settings(wishes).items())
        lines += [
            f"\n{key} is the service's own key: keep it away from all servers, and a copy in another safe place.",
            f"Server 1 can publish with keys of its own for {DEFAULT_DAYS} days. Before the start of another server:",
            f"  gf-i2p keys delegate {key} --server 2",
            f"bring that file to the server's directory as {MASTER_FILE}, and run there:",
            f"  gf-i2p set server-2 {settings}",
        ]
    return "\n".join(lines)
