"""Which changes of a node's files take effect only at the next start."""

from collections.abc import Collection

from gf_i2p.node.files.config import Config, Secrets


def needs_restart(old: tuple[Config, Secrets], new: tuple[Config, Secrets], members: Collection[int]) -> list[str]:
    """Return the changed keys that need a restart. `old`: as at the start. `members`: the farm's servers, by id."""
    (config, secrets), (new_config, new_secrets) = old, new
    pending = [
        f"node.{key}"
        for key in ("id", "cluster", "listen")
        if getattr(config.node, key) != getattr(new_config.node, key)
    ]
    # The log gives the endpoint of a server that joined later; the node needs only the fingerprint from the file.
    founders, new_founders = ({(s.id, s.endpoint) for s in each.servers if s.founder} for each in (config, new_config))
    # A server that has left the farm need not be reached any more.
    gone = {(server, endpoint) for server, endpoint in founders - new_founders if server not in members}
    if founders - gone != new_founders:
        pending.append("servers (id, endpoint)")
    pending += [
        name for name in ("history", "monitoring", "router") if getattr(config, name) != getattr(new_config, name)
    ]
    # A running node takes the permission to publish over, and nothing else of the table.
    if config.publish.model_copy(update={"publish": new_config.publish.publish}) != new_config.publish:
        pending.append("publish")
    if secrets.password != new_secrets.password:
        pending.append("password")
    passwords = new_secrets.router_passwords
    return pending + [name for name, password in secrets.router_passwords.items() if passwords[name] != password]
