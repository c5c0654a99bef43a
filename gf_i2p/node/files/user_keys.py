"""The keys of a running node: its own, and those of the users that may log in, by its files and by the farm's log."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from gf_i2p.farm.admin_entries import ServerKey
from gf_i2p.node.files import committed_keys
from gf_i2p.node.files.config import Secrets
from gf_i2p.wire.digest import Verifier
from gf_i2p.wire.key_credentials import KeyCredentials, Login
from gf_i2p.wire.key_proof import PublicKey


class UserKeys:
    """The keys of one node's directory. Raises `ConfigError` when the file of committed keys is damaged."""

    def __init__(self, directory: Path, server: int, secrets: Secrets) -> None:
        self._directory = directory
        self._server = server
        self._secrets = secrets
        self._committed = committed_keys.load(directory)
        self._log = structlog.get_logger(__name__).bind(server=server)
        self.in_force: dict[str, Verifier] = committed_keys.in_force(secrets.verifiers, self._committed)
        """By name, the users that may log in now."""

    @property
    def login(self) -> Login:
        """All by which this node logs in at the other servers, the key that the log has first."""
        own = self._committed.get(self._server)
        return self._secrets.login(self._server, None if own is None else PublicKey(own.key))

    @property
    def secrets(self) -> Secrets:
        """The file as last loaded."""
        return self._secrets

    @property
    def committed(self) -> Mapping[int, ServerKey]:
        """By server id, the keys that replace those of the files."""
        return self._committed

    def reload(self, secrets: Secrets) -> list[str]:
        """Take over a changed file; return the users that were removed or changed."""
        self._secrets = secrets
        return self._change()

    def take(self, keys: Mapping[int, ServerKey]) -> list[str] | None:
        """Take over the keys of the applied part of the log; return the changed users, None when nothing is new.

        The keys are on the disk on return, if the disk takes them.
        """
        newest = committed_keys.newest(self._committed, keys)
        if newest == self._committed:
            return None
        self._committed = newest
        try:
            committed_keys.save(self._directory, newest)
        except OSError as error:
            # The keys count nevertheless. After a restart, replaced keys count until the log's entries are known.
            self._log.error("the servers' new keys could not be written", reason=str(error))
        return self._change()

    def renew(self, credentials: Iterable[KeyCredentials]) -> None:
        """Make these credentials of this node use the present keys, in their present order."""
        keys = self.login.keys
        for each in credentials:
            each.replace(keys)

    def _change(self) -> list[str]:
        old, self.in_force = self.in_force, committed_keys.in_force(self._secrets.verifiers, self._committed)
        return [user for user, verifier in old.items() if self.in_force.get(user) != verifier]
