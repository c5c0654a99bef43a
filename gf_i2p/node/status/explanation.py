"""What `gf-i2p explain` shows of a node: the farm's choice with its reasons, and what this server does about it."""

from typing import Any

from gf_i2p.farm.choice.explanation import explain, lines
from gf_i2p.node.node import Node
from gf_i2p.node.status.node_status import membership_of
from gf_i2p.node.status.publishing_status import farm_status
from gf_i2p.wire.messages import NOBODY


def explanation(node: Node) -> dict[str, Any]:
    """Give it as JSON. "farm" and "lines" (the same as text) follow from the log, and are the same on every server.

    "this" is this server's part, as in its status, and so are "leader" and "membership".
    """
    state, core = node.member.view.state, node.driver.core
    return {
        "id": core.id,
        "leader": None if core.leader == NOBODY else core.leader,
        "membership": membership_of(node),
        "applied": node.member.view.applied,
        "farm": explain(state),
        "lines": lines(state),
        "this": farm_status(node.member),
    }
