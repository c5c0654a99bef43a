"""What `gf-i2p explain` shows of a node: the farm's choice with its reasons, and what this server does about it."""

from typing import Any

from gf_i2p.farm.explain import explain, lines
from gf_i2p.node.farm_status import farm_status
from gf_i2p.node.node import Node


def explanation(node: Node) -> dict[str, Any]:
    """Give it as JSON. "farm" and "lines" (the same as text) follow from the log, and are the same on every server.

    "this" is this server's part, as in its status.
    """
    state = node.member.view.state
    return {
        "id": node.driver.core.id,
        "applied": node.member.view.applied,
        "farm": explain(state),
        "lines": lines(state),
        "this": farm_status(node.member),
    }
