"""Whether a router of the test network finds a destination."""

from bridges.errors import RouterError
from bridges.i2cp.host_lookup import has_lease_set
from bridges.i2cp.settings import I2cpSettings
from gf_i2p.netdb.private_keys import DestinationKeys
from integration.testnet.router import I2CP_PORT
from integration.testnet.router_network import RouterPlace


async def is_found(router: RouterPlace, keys: DestinationKeys) -> bool:
    """Return whether a router finds the current lease set of a destination; prints why a router does not answer."""
    try:
        return await has_lease_set(I2cpSettings(router.address, I2CP_PORT, allow_plain=True), keys.destination.hash)
    except RouterError as error:
        print(error)
        return False
