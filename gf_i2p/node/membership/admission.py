"""Whether a server's files say enough of another one that is to join: what its certificate is, and its password."""

from collections.abc import Collection

from gf_i2p.node.files.config import Config
from gf_i2p.node.files.trust import knows_certificate
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.log_values import ClusterServer


def lacking(config: Config, users: Collection[str], server: ClusterServer) -> str | None:
    """Say why the server of these files could not speak with that one, and the way out; None when it could.

    `users`: whose passwords it can check. A certificate is known by its fingerprint, or vouched for by a CA; inside I2P
    the address says who it is.
    """
    listed = next((each for each in config.servers if each.id == server.id), None)
    try:
        endpoint = Endpoint.parse(server.endpoint)
    except EndpointError as error:
        return f"server {server.id} cannot be reached: {error}"
    if endpoint.is_i2p and config.router is None:
        return f"{endpoint} lies inside I2P, and this server's gf-i2p.toml names no router: add a table [router]"
    known = endpoint.is_i2p or knows_certificate(config, endpoint)
    trusted = f"server-{server.id}" in users
    if known and trusted:
        return None
    if trusted and listed is not None and listed.endpoint != str(endpoint):
        return f"this server's gf-i2p.toml has server {server.id} at {listed.endpoint}: give that endpoint"
    missing = [] if known else ["which certificate it has"]
    missing += [] if trusted else ["what checks its password"]
    return (
        f"this server's files do not say of server {server.id} {' and '.join(missing)}, and cannot let it in. Invite "
        f"it by a member's directory (gf-i2p members invite DIR {server.id}={endpoint} --into NEW), and let all "
        "servers know it (gf-i2p members accept DIR FILE on each): then it asks by itself"
    )
