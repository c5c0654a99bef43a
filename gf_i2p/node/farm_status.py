"""What a node knows of publishing: what its log says, and what it does about it itself."""

from typing import Any

from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.member import Member


def farm_status(member: Member) -> dict[str, Any]:
    """Describe who publishes what, as this node's log has it, and what this node does about it.

    Times are seconds since the epoch. "mode" and "publish" are how this server is configured, "farm_mode" what the
    chosen one is to do. In "publishing", see `node/publish_progress.py` for the words.
    """
    state, choice, reporter = member.view.state, member.view.choice, member.reporter
    office = member.publisher
    return {
        "mode": "off" if reporter is None else reporter.mode,
        "publish": "off" if reporter is None else reporter.publish_config,
        "farm_mode": choice.mode,
        "publisher": choice.publisher,
        "why_not": {str(server): reason for server, reason in choice.why_not.items()},
        "leaves": [to_b32_address(leaf) for leaf in choice.leaves],
        "left_out": {to_b32_address(leaf): why for leaf, why in choice.left_out.items()},
        "excluded": len(state.administration.excluded),
        "publishing": None if office is None else office.shown(),
        "trouble": [
            trouble
            for part in (reporter, office, member.sensing, member.exporter)
            if part is not None and (trouble := part.trouble) is not None
        ],
    }
