"""What a node needs of the I2P router beside it, put together from its configuration."""

from pathlib import Path

from bridges.sam import Sam
from bridges.sam_inbound import SamInbound
from gf_i2p.netdb.errors import NetDbError
from gf_i2p.netdb.keys import DestinationKeys
from gf_i2p.node.config import Config, check_private
from gf_i2p.node.errors import ConfigError
from gf_i2p.node.router_tables import place
from gf_i2p.transport.i2p import I2pTransport, ProxySettings, Way
from gf_i2p.transport.i2p_listener import Inbound, ServerTunnel
from gf_i2p.wire.endpoint import Endpoint


def i2p_transport(directory: Path, config: Config) -> I2pTransport | None:
    """Make the way into I2P, and out of it when this node is reached there; None without a router.

    Raises `ConfigError`.
    """
    router = config.router
    if router is None:
        return None
    inbound: Inbound | None = None
    if config.own_endpoint.is_i2p:
        if router.inbound == "sam":
            keys = read_keys(directory / router.destination)
            if keys.destination.b32 != config.own_endpoint.host:
                raise ConfigError(
                    f"{directory / router.destination} holds the keys of {keys.destination.b32}, but by the list of "
                    f"servers this node is {config.own_endpoint.host}: put the right file or the right address there."
                )
            inbound = SamInbound(Sam(*place(router.sam)), keys, router.session)
        else:
            inbound = ServerTunnel()
    listen = Endpoint.parse(config.node.listen)
    proxy = ProxySettings(*place(router.proxy), Way(router.way))
    return I2pTransport(proxy, inbound=inbound, host=listen.host, port=listen.port)


def master_keys(directory: Path, config: Config) -> DestinationKeys | None:
    """Read the keys with which this node may publish; None when it may not. Raises `ConfigError`."""
    return None if config.publish.mode == "off" else read_keys(directory / config.publish.keys)


def read_keys(path: Path) -> DestinationKeys:
    """Read a private key file of a router's. Raises `ConfigError`, also when others could read it."""
    check_private(path)
    try:
        return DestinationKeys.parse(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except NetDbError as error:
        raise ConfigError(f"{path} is no private key file of an I2P destination: {error}.") from error
