"""What the local interface and the commands that use it say alike."""

from typing import Final

NO_LEADER: Final = (
    "no server leads, as far as this one knows. Wait a moment: an election may be under way. If it does not end, start "
    "the servers that are down (`gf-i2p members list DIR` shows which); when a majority is gone for good, make a farm "
    "of one that is left: `gf-i2p recover DIR`"
)
LAST_SERVER: Final = (
    "the last server cannot leave its farm: stop it, and the farm has ended. Its directory keeps the log"
)
