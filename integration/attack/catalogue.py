"""All attacks, in the order of a run."""

from typing import Final

from integration.attack import clients, failover_streams, seized_server, served_bridge, strangers
from integration.attack.attack import Attack

WITHOUT_FARM: Final = (*failover_streams.ATTACKS, *served_bridge.ATTACKS)
"""Attacks on a part of a node, which runs in the attacker's process."""
ATTACKS: Final[tuple[Attack, ...]] = (
    *strangers.ATTACKS,
    *WITHOUT_FARM,
    *clients.ATTACKS,
    *seized_server.ATTACKS,
)
BY_NAME: Final = {attack.name: attack for attack in ATTACKS}
