"""`gf-i2p join`: brings this machine's new server into a farm, by a code from `gf-i2p members invite --code`.

The code comes from the terminal or from standard input, and not as an argument: other users of a machine see the
arguments of all programs.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gf_i2p.admin.api import NEWCOMERS_PATH
from gf_i2p.admin.client import ApiError, RemoteApi
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.fitting import tell
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.terminal import printable
from gf_i2p.farm.admission import INSIDE, Admission
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.checked_read import check_not_root
from gf_i2p.node.files.farm_setup import NewServer, check_absent, new_server
from gf_i2p.node.files.file_names import SECRETS_FILE
from gf_i2p.node.files.start_command import start_command
from gf_i2p.node.membership.invitation import server_text, table_of_new
from gf_i2p.node.membership.join_code import MAX_CODE, JoinCode, JoinCodeError, Joined, write
from gf_i2p.wire.endpoint import Endpoint

MAX_DIRECTORY_NAME: Final = 200
"""Most characters of DIR. A code has more: it belongs on standard input."""
_ANSWER_SECONDS: Final = 90.0
"""Seconds for the answer of one server, which waits until the farm has committed the admission."""
_ALL_SECONDS: Final = 300.0
"""Seconds for further attempts after an answer was lost: the farm may have admitted the server already."""
_PAUSE_SECONDS: Final = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="the directory to make for the new server (default: server-ID). The code itself is asked for, or read "
        "from standard input",
    )
    parser.add_argument(
        "--proxy",
        default="127.0.0.1:4444",
        metavar="IP:PORT",
        help="the HTTP proxy of this machine's I2P router, for a farm inside I2P (default: 127.0.0.1:4444)",
    )
    parser.add_argument(
        "--way", choices=["get", "connect", "socks5"], default="get", help="how the proxy is used (default: get)"
    )


def run(options: argparse.Namespace) -> Answer:
    """Join. Raises `CommandError` and `ConfigError`; then the directory was not made."""
    configure("error", "text")
    if options.directory is not None and len(str(options.directory)) > MAX_DIRECTORY_NAME:
        raise CommandError(
            "this looks like the code: leave it out, and paste it when it is asked for. Other users of this machine "
            "can see arguments",
            code=Exit.USAGE,
        )
    check_not_root(options.directory or Path.cwd())  # before the farm admits a server
    try:
        code = JoinCode.parse(_read_code())
        access = code.access(options.proxy, options.way)
    except (JoinCodeError, ValueError) as error:
        raise CommandError(str(error), code=Exit.USAGE) from error
    ticket = code.ticket
    directory: Path = options.directory or Path(f"server-{ticket.server}")
    check_absent(directory)
    if ticket.until_ms < now_ms():
        raise CommandError(f"the code was good for one hour, and is too old: ask {ticket.by} for a new one")
    server = new_server(ticket.server, None if ticket.endpoint == INSIDE else Endpoint.parse(ticket.endpoint))
    tell(f"asking server {', '.join(str(each.id) for each in code.servers)} of the farm {code.cluster} …")
    patient = access.inside_proxy is not None
    answer = asyncio.run(_admitted(RemoteApi(access), code.admission(server), ticket.by, patient=patient))
    try:
        joined = Joined.parse(answer)
    except JoinCodeError as error:
        raise CommandError(str(error)) from error
    write(directory, code, server, joined)
    table = server_text(table_of_new(server), for_clients=True).strip()
    data = {"written": str(directory), "server": server.id, "endpoint": str(server.endpoint), "cluster": code.cluster}
    text = joined_text(directory, code.cluster, server, joined.left_out, table)
    return Answer({**data, "left_out": list(joined.left_out), "client_table": table}, text)


def joined_text(directory: Path, cluster: str, server: NewServer, left_out: Sequence[str], table: str) -> str:
    """Say what was written, and the next steps in their order.

    `left_out`: the users whose tables the operator must copy. `table`: what clients' files need, as TOML. The table
    stands last, so that nothing behind it is taken for a part of it.
    """
    steps = []
    if left_out:
        users = "".join(f'\n     [users."{user}"]' for user in left_out)
        steps.append(
            f"Copy these tables from another server's secrets.toml to the end of {directory / SECRETS_FILE}. They are "
            f"secret, so the farm sends them to nobody. Until then the new server refuses these users:{users}"
        )
    clients = "Let programs on other machines reach the server, too. Add this table"
    if server.endpoint.is_i2p:
        clients = (
            "Programs on other machines find the server by themselves. To give them one more start, add this table"
        )
    steps += [
        f"Run the server. It takes part as soon as it has the log:\n     {start_command(directory)}",
        f"{clients} to the end of each admin-NAME.toml, viewer-NAME.toml and client-NAME.toml:\n\n{table}",
    ]
    return "\n".join(
        (
            f"wrote {directory}: the farm {cluster} knows server {server.id} now, at {server.endpoint}.",
            "\nNext:",
            *(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        )
    )


def _read_code() -> str:
    """Read the code from the terminal or from standard input. Raises `CommandError`."""
    if sys.stdin.isatty():
        tell("Paste the code from `gf-i2p members invite --code`, then press Enter:")
        return sys.stdin.readline(MAX_CODE + 2)
    return sys.stdin.read(2 * MAX_CODE)  # with the sentences that `members invite` prints below the code


async def _admitted(api: RemoteApi, admission: Admission, by: str, *, patient: bool) -> Any:
    """Have the farm admit the server; return the answer. Raises `CommandError`.

    When an answer was lost, the same question gets the same answer again. `patient`: also ask again while no server is
    reached. A router that has seen an address die needs minutes until it finds the address again.
    """
    end = time.monotonic() + _ALL_SECONDS
    while True:
        try:
            return await api.request("POST", NEWCOMERS_PATH, seconds=_ANSWER_SECONDS, body=admission.own_fields())
        except ApiError as error:
            if error.status == 401:
                raise CommandError(
                    f"the farm refuses the code: the code is too old, or the server that was asked does not know {by}, "
                    f"who made it. Ask {by} for a new one; clocks must agree within the hour"
                ) from error
            again = error.outcome == "unknown" or error.status == 503 or (patient and error.status is None)
            if not again or time.monotonic() >= end:
                raise CommandError(printable(str(error)), outcome=error.outcome) from error
            tell("no answer yet, asking again …")
            await asyncio.sleep(_PAUSE_SECONDS)
