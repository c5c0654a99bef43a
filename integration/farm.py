"""`make farm`: three nodes on this machine, over TLS, until Ctrl-C.

With ONESHOT=1 it also kills the leader with -9, shows that another takes over and that nothing is lost, and ends.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from gf_i2p.cli import client
from gf_i2p.cli.errors import CommandError
from gf_i2p.cli.show import show_status
from integration.localfarm import LocalFarm, NotSeenError


def say(begun: float, text: str) -> None:
    """Print a step with the seconds since the start."""
    print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)


async def post(farm: LocalFarm, server: int, value: str) -> int:
    """Post through one server's local socket."""
    answer = await client.request(
        farm.node(server), "POST", "/v1/entries?timeout=20", seconds=25, body={"values": [value]}
    )
    return int(answer["index"])


def shown(path: Path) -> Path:
    """Shorten a path below the present directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


async def show(farm: LocalFarm, *, oneshot: bool) -> None:
    """Start the farm, show it at work, and wait for Ctrl-C unless `oneshot`."""
    begun = time.monotonic()
    say(begun, f"three nodes with keys, certificates and secrets in {farm.directory}")
    farm.start_all()
    say(begun, "started; waiting for an election")
    leader = await farm.leader()
    say(begun, f"server {leader} leads")
    follower = next(server for server in farm.ids if server != leader)
    index = await post(farm, follower, '{"hello": "farm"}')
    say(begun, f"an entry posted through server {follower} is committed at index {index}")
    if oneshot:
        killed = time.monotonic()
        farm.kill(leader)
        say(begun, f"server {leader} killed with -9")
        index = await post(farm, follower, '{"hello": "again"}')
        say(begun, f"the next entry is committed at index {index}, {time.monotonic() - killed:.1f} s after the kill")
        farm.start(leader)
        length = await farm.converged()
        say(begun, f"server {leader} is back; all three logs hold the same {length} entries")
    answer = await farm.status(follower)
    assert answer is not None
    print(f"\n{show_status(answer)}\n")
    if oneshot:
        return
    gf, node = shown(Path(sys.executable).with_name("gf-i2p")), shown(farm.node(follower))
    print(
        "Try in another terminal:\n"
        f"  {gf} status {node}\n"
        f'  {gf} post {node} \'{{"my": "entry"}}\'\n'
        f"  {gf} entries {node} --stale\n"
        f"  kill -9 {farm.pid(leader)}      (server {leader}, the leader)\n\nCtrl-C stops the farm."
    )
    await asyncio.Event().wait()


def main() -> int:
    """Run; 0 when all went well or Ctrl-C ended it."""
    oneshot = os.environ.get("ONESHOT", "") not in {"", "0"}
    with tempfile.TemporaryDirectory(prefix="gf-i2p-farm-") as directory, LocalFarm(Path(directory)) as farm:
        try:
            asyncio.run(show(farm, oneshot=oneshot))
        except KeyboardInterrupt:
            print("\nStopping the farm.")
        except (NotSeenError, CommandError) as error:
            print(f"make farm failed: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
