"""The status of publishing: the farm's choice from this node's log, and this node's part in publishing."""

from dataclasses import asdict
from typing import Any

from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.farm_tasks import FarmTasks
from gf_i2p.node.publish.keys_watch import KeysWatch


def publishing_status(tasks: FarmTasks) -> dict[str, Any]:
    """Describe the farm's choice of publisher and leaves, from this node's log, and this node's part in publishing.

    Times are seconds since the epoch. "mode" and "publish" are this server's settings, "farm_mode" is the mode of the
    chosen publisher. For the words in "publishing", see `farm/publishing/set_progress.py`. "leaf_loads" has the present
    figures of each leaf's forwarder (`ForwardLoad`), by the leaf's name in the settings. A forwarder that cannot listen
    is missing there.
    """
    state, choice, reporter = tasks.view.state, tasks.view.choice, tasks.reporter
    publisher = tasks.publisher
    return {
        "mode": "off" if reporter is None else reporter.mode,
        "publish": "off" if reporter is None else reporter.publish_config,
        "farm_mode": choice.mode,
        "publisher": choice.publisher,
        "router_up": None if reporter is None else reporter.router_up,
        "why_not": {str(server): reason for server, reason in choice.why_not.items()},
        "leaves": [to_b32_address(leaf) for leaf in choice.leaves],
        "left_out": {to_b32_address(leaf): why for leaf, why in choice.left_out.items()},
        "excluded": len(state.administration.excluded),
        "leaf_loads": {
            leaf.name: asdict(leaf.forward.load)
            for leaf in tasks.leaves
            if leaf.forward is not None and leaf.forward.trouble is None
        },
        "publishing": None if publisher is None else publisher.shown(),
        "trouble": [
            *(() if reporter is None else reporter.troubles),
            *(
                trouble
                for part in (publisher, tasks.router_info, tasks.sensing, tasks.exporter)
                if part is not None and (trouble := part.trouble) is not None
            ),
            *_trouble_with_keys(tasks),
        ],
        "keys": None if tasks.keys is None else _keys(tasks.keys),
    }


def _keys(watch: KeysWatch) -> dict[str, Any]:
    """Describe the keys with which this node publishes. `ends`: seconds since the epoch; null for the master's own."""
    keys = watch.keys
    return {
        "master": keys.destination.b32,
        "delegated": keys.delegated,
        "made": keys.delegated_at,
        "ends": keys.ends,
        "stage": str(watch.stage),
    }


def _trouble_with_keys(tasks: FarmTasks) -> list[str]:
    """Return the trouble with the keys, unless the publisher reports the same."""
    trouble = None if tasks.keys is None else tasks.keys.trouble
    reported = None if tasks.publisher is None else tasks.publisher.trouble
    return [] if trouble is None or trouble == reported else [trouble]
