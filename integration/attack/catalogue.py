"""All attacks, in the order of a run."""

from typing import Final

from integration.attack import clients, failover_streams, seized_server, strangers
from integration.attack.attack import Attack

ATTACKS: Final[tuple[Attack, ...]] = (
    *strangers.ATTACKS,
    *failover_streams.ATTACKS,
    *clients.ATTACKS,
    *seized_server.ATTACKS,
)
BY_NAME: Final = {attack.name: attack for attack in ATTACKS}
