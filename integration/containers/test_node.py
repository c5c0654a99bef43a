"""A node of its own beside an existing router: `docker/compose.node.yaml`, as in docs/how-to/containers.md."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.containers.container_farm import DIRECTORY, ContainerFarm
from integration.containers.engine import Engine, EngineError
from integration.containers.images import LIMITS, NODE_COMPOSE
from integration.containers.project import ASK_SECONDS, Project
from integration.harness.waiting import wait_for

USER = "10001:10001"
NODE = "node"
BESIDE = "router-0"
"""A router with interfaces on loopback: no other host reaches these interfaces."""
SECONDS = 600.0


@pytest.fixture
def node(engine: Engine, farm: ContainerFarm, tmp_path: Path) -> Iterator[Project]:
    """A farm of one server, made by the image, in the network of a router's container."""
    directory = tmp_path / "farm"
    directory.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(directory, *map(int, USER.split(":")))
        user = USER
    else:
        user = f"{os.getuid()}:{os.getgid()}"
    volume, made = f"{directory}:/farm", ["init", "/farm/new", "--server", "1=i2p"]
    engine.run("run", "--rm", "--network", "none", "--user", user, "--volume", volume, "gf-i2p-node", *made)
    variables = {
        "NODE_DIRECTORY": str(directory / "new" / "server-1"),
        "NODE_USER": user,
        "ROUTER_NETWORK": f"container:{farm.container(BESIDE)}",
    }
    with Project(engine, "gf-i2p-beside", NODE_COMPOSE, variables) as beside:
        beside.up()
        yield beside
        beside.down()
        assert beside.left() == []


def doctor(node: Project) -> str:
    """Return the doctor's output in the container, whatever the doctor finds."""
    try:
        return node.exec(NODE, "gf-i2p", "doctor", DIRECTORY, seconds=120)
    except EngineError as error:
        return str(error)


def test_a_node_beside_a_router_that_is_there(node: Project) -> None:
    def healthy(when: str) -> float:
        what = f"the node leads its farm of one {when}"
        return wait_for(what, SECONDS, lambda: node.healthy(NODE), poll=ASK_SECONDS, else_say=lambda: node.logs(NODE))

    assert node.limits() == {NODE: LIMITS}
    print(f"\nhealthy after {healthy('for the first time'):.1f} s", flush=True)
    node.kill(NODE)
    node.start(NODE)
    print(f"killed, and healthy again after {healthy('again'):.1f} s", flush=True)
    well = "Nothing is wrong"
    seconds = wait_for(
        "the doctor finds nothing wrong", SECONDS, lambda: well in doctor(node), else_say=lambda: doctor(node)
    )
    print(f"after {seconds:.1f} s more: {doctor(node).splitlines()[-1]}", flush=True)
