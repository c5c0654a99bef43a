"""The newest record of one server or leaf member, and its numbers over time, from one node's log."""

from typing import Any

from gf_i2p.farm.record_series import Sample
from gf_i2p.node.node import Node


def record(node: Node, server: int, most: int) -> dict[str, Any]:
    """Describe a server or a leaf member by its id, with up to `most` samples. "record" is null when there is none.

    A leaf member has no samples.
    """
    view = node.farm_tasks.view
    newest = view.state.records.get(server) or view.state.leaf_members.get(server)
    return {
        "server": server,
        "record": None if newest is None else newest.fields(),
        "columns": list(Sample._fields),
        "samples": [list(sample) for sample in view.series.of(server, most)],
    }
