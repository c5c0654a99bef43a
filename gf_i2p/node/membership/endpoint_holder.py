"""The rule about an endpoint that another server has: a new server takes the place of a server that has left the farm.

Files, codes and the log invite servers. All of them follow this one rule.
"""

from collections.abc import Callable, Collection, Iterable

from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.storage.errors import StorageError


def former_holder(
    listed: Iterable[tuple[int, str]],
    new: int,
    endpoint: str,
    members: Callable[[], Collection[int]],
    *,
    remove: str,
    place: str = "",
    if_unknown: str = "",
) -> int | None:
    """Return the id of the server that had this endpoint and has left the farm; None when no server has the endpoint.

    `listed`: ids and endpoints of the known servers. `new`: the id of the new server. `members` returns the ids of the
    farm's servers, and is called only when a server has the endpoint. For the error's text, `remove`: the command
    before the id, `place`: where the endpoint stands, `if_unknown`: the advice when the members are not known. Raises
    `ConfigError` when a member has the endpoint, or when the members are not known.
    """
    holders = [server for server, at in listed if at == endpoint and server != new]
    if not holders:
        return None
    try:
        present = members()
    except (ConfigError, StorageError) as error:
        why = str(error).rstrip(".")
        raise ConfigError(
            f"server {holders[0]} has the endpoint {endpoint}{place}, and it is not known whether that server is out "
            f"of the farm: {why}{if_unknown}"
        ) from error
    member = next((server for server in holders if server in present), None)
    if member is not None:
        raise ConfigError(
            f"server {member} has the endpoint {endpoint}{place}, and belongs to the farm: choose another endpoint. If "
            f"it is dead for good, remove it first{remove} {member} --force"
        )
    return holders[0]
