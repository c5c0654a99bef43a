"""A Java router's own words about itself, by i2pcontrol: such a router has no console here."""

from dataclasses import dataclass
from typing import Final

from bridges.errors import RouterError
from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from integration.testnet.router import I2PCONTROL_PORT

_KNOWN: Final = "i2p.router.netdb.knownpeers"
_STATUS: Final = "i2p.router.status"
_ACCEPTS: Final = "Accepting tunnels"


@dataclass(frozen=True, slots=True)
class JavaStatus:
    """A Java router that answers."""

    known: int
    """Number of routers that this router knows, without itself."""
    status: str
    """The router's sentence about the tunnels of others."""

    @property
    def carries_tunnels(self) -> bool:
        """Whether the router takes part in tunnels of others."""
        return _ACCEPTS in self.status


async def ask_java(address: str, password: str) -> JavaStatus | None:
    """Ask the router at this address; return None when the router does not answer."""
    url = f"https://{address}:{I2PCONTROL_PORT}/"
    control = I2pControl(I2pControlAccess(url, password, any_certificate=True))
    try:
        answer = await control.call("RouterInfo", {_KNOWN: None, _STATUS: None}, seconds=5.0)
    except RouterError:
        return None
    finally:
        await control.close()
    known, status = answer.get(_KNOWN), answer.get(_STATUS)
    return JavaStatus(known, status) if isinstance(known, int) and isinstance(status, str) else None
