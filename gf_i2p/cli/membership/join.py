"""`gf-i2p join`: brings this machine's new server into a farm, by a code from `gf-i2p members invite --code`.

The code comes from the terminal or from standard input, and not as an argument: other users of a machine see the
arguments of all programs.
"""

import argparse
import asyncio
import sys
import time
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
from gf_i2p.node.files.farm_setup import check_absent, new_server
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
    lines = [
        f"wrote {directory}: the farm {code.cluster} knows server {server.id} now, at {server.endpoint}.",
        "\nRun it, and it takes part as soon as it has the log:",
        f"  {start_command(directory)}",
    ]
    table = server_text(table_of_new(server), for_clients=True).strip()
    lines.append(
        "\nPrograms on other machines reach it, too, when the end of their admin-NAME.toml or client-NAME.toml has:\n\n"
        + table
    )
    if joined.left_out:
        lines.append(
            f"\nThese users log in by passwords, and the new server does not know them: {', '.join(joined.left_out)}. "
            "Copy their tables from another server's secrets.toml."
        )
    data = {"written": str(directory), "server": server.id, "endpoint": str(server.endpoint), "cluster": code.cluster}
    return Answer({**data, "left_out": list(joined.left_out), "client_table": table}, "\n".join(lines))


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
