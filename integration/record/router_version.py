"""The version of a router that a recording comes from."""

from bridges.i2pcontrol.access import I2pControlAccess
from bridges.i2pcontrol.router_status import I2pControl
from integration.testnet.router import I2PCONTROL_PORT
from integration.testnet.router_network import RouterNetwork, RouterPlace


async def router_version(network: RouterNetwork, router: RouterPlace) -> str:
    """Return kind and version, as i2pcontrol says the version. Raises `RouterError`."""
    url = f"https://{router.address}:{I2PCONTROL_PORT}/"
    control = I2pControl(I2pControlAccess(url, network.password, any_certificate=True))
    try:
        status = await control.local_router_status()
    finally:
        await control.close()
    name = {"i2pd": "i2pd", "java": "Java I2P"}[router.kind]
    return f"{name} {status.version}"
