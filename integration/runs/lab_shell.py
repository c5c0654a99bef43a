"""The shell of `make lab`: inside the private network of `make farm`, among its routers and nodes.

Commands of `gf-i2p` work there as they would on a real machine. The shell has two words of its own: `routers` shows
each router with its interfaces, and `beside DIR N` puts a server's directory beside router N.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gf_i2p.cli.doctor.remedies import LAB_VARIABLE
from integration.testnet.i2p_farm import I2pFarm
from integration.testnet.router import I2CP_PORT, PROXY_PORT, SAM_PORT, SOCKS_PORT, RouterProcess
from integration.testnet.router_network import RouterPlace

FIRST_PORT: Final = 4300
"""A server beside router N listens on this port plus N for the router's streams."""
_WORDS: Final = """\
routers() {{ cat {table}; }}
beside() {{
  local address; address=$(awk -v n="$2" '$1 == n {{ print $2 }}' {table})
  if [ -z "$1" ] || [ -z "$address" ]; then echo "usage: beside DIR N, N a router's number (see routers)"; return 2; fi
  gf-i2p set "$1" router.proxy=$address:{proxy} router.sam=$address:{sam} router.i2cp=$address:{i2cp} \\
    node.listen=tcp://127.0.0.1:$(({first} + $2))
}}
"""
_PROMPT: Final = "PS1='lab \\W$ '\n"
_GREETING: Final = """\
You are inside the private network. Nothing here reaches the real I2P, and all
of it goes when you leave (exit).

{table}
The farm's servers run beside the routers {beside}. Their directories are here:
{servers}. For instance:

  gf-i2p status server-1
  gf-i2p explain server-1
  gf-i2p doctor server-1

docs/tutorials/lab.md leads to a farm of your own, by these two:
  gf-i2p join --proxy ADDRESS:{proxy}
  beside DIR N

`routers` shows the table again.
"""
AnyRouter = RouterProcess | RouterPlace


async def lab_shell(directory: Path, farm: I2pFarm, routers: Sequence[RouterProcess]) -> None:
    """Run the shell; return when the shell ends."""
    environment = lab_environment(directory, routers)
    start = directory / "start"
    start.write_text(f". {environment['BASH_ENV']}\n{_PROMPT}")
    print(
        _GREETING.format(
            table=_table(routers),
            beside=", ".join(str(router.number) for router in farm.routers.values()),
            servers=", ".join(farm.node(server).name for server in farm.ids),
            proxy=PROXY_PORT,
        ),
        flush=True,
    )
    shell = await asyncio.create_subprocess_exec(
        "bash", "--rcfile", str(start), "-i", cwd=farm.directory, env={**os.environ, **environment}
    )
    try:
        await shell.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            shell.kill()
        await shell.wait()
        raise


def lab_environment(directory: Path, routers: Sequence[AnyRouter]) -> dict[str, str]:
    """Write the words of the shell into `directory`; return the variables for commands among these routers.

    A bash that runs a script reads the words by itself (BASH_ENV); one that asks its user must be told.
    """
    table, words = directory / "routers", directory / "words"
    table.write_text(_table(routers))
    words.write_text(_WORDS.format(table=table, proxy=PROXY_PORT, sam=SAM_PORT, i2cp=I2CP_PORT, first=FIRST_PORT))
    return {
        LAB_VARIABLE: str(directory),
        "BASH_ENV": str(words),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
    }


def _table(routers: Sequence[AnyRouter]) -> str:
    lines = [f"{'router':<8}{'address':<14}{'HTTP proxy':<12}{'SOCKS':<8}{'SAM':<8}{'I2CP':<8}"]
    lines += [
        f"{router.number:<8}{router.address:<14}{PROXY_PORT:<12}{SOCKS_PORT:<8}{SAM_PORT:<8}{I2CP_PORT:<8}"
        + ("floodfill" if router.floodfill else "")
        for router in routers
    ]
    return "\n".join(lines) + "\n"
