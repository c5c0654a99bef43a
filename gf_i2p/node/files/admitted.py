"""Servers that the farm's log has admitted, kept by the node in its directory, beside the operator's own files.

`Config.load` and `Secrets.load` add these servers to those of the files. The operator's files win: a server that stands
there, under `[[servers]]` or `[[removed]]`, is not taken from here. But a server that has left the farm gives its place
to an admitted server with its endpoint, as after `members accept`. The file holds public halves only.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, TypeAdapter, ValidationError

from gf_i2p.farm.admission import Admission
from gf_i2p.node.files.checked_read import ConfigError, Table, read_text
from gf_i2p.node.files.file_names import ADMITTED_FILE
from gf_i2p.node.files.router_settings import check_fingerprint
from gf_i2p.node.files.server_tables import (
    RemovedTable,
    ServerId,
    ServerTable,
    UserTable,
    check_endpoint,
    check_public_key,
)
from gf_i2p.storage.private_files import sync_directory, write_durably
from gf_i2p.wire.key_proof import PublicKey


class AdmittedServer(Table):
    """One server that was admitted by the log."""

    id: ServerId
    endpoint: Annotated[str, AfterValidator(check_endpoint)]
    fingerprint: Annotated[str, AfterValidator(check_fingerprint)] | None = None
    key: Annotated[str, AfterValidator(check_public_key)]
    replaces: tuple[ServerId, ...] = ()
    """Ids of the servers that had this endpoint, one after another, and have left the farm."""

    @classmethod
    def of(cls, admission: Admission) -> Self:
        """Return the server of an admission. Raises `ValueError` when its endpoint or fingerprint is none."""
        return cls(
            id=admission.ticket.server,
            endpoint=admission.endpoint,
            fingerprint=admission.fingerprint,
            key=str(PublicKey(admission.key)),
        )

    @property
    def user(self) -> str:
        """The name under which the server logs in."""
        return f"server-{self.id}"


_SERVERS = TypeAdapter(list[AdmittedServer])


def load(directory: Path) -> list[AdmittedServer]:
    """Read the servers; none without the file. Raises `ConfigError`."""
    path = directory / ADMITTED_FILE
    if not path.exists():
        return []
    try:
        return _SERVERS.validate_json(read_text(path))
    except ValidationError as error:
        raise ConfigError(
            f"{path} cannot be read: copy the file of another server, or remove it; without it, this server knows the "
            f"servers that the log has admitted as soon as it has read the log ({error.error_count()} faults)"
        ) from error


def save(directory: Path, servers: Iterable[AdmittedServer]) -> None:
    """Write the servers; the file is on the disk on return. Raises `OSError`."""
    fields: list[dict[str, Any]] = [server.model_dump(exclude_defaults=True) for server in servers]
    write_durably(directory / ADMITTED_FILE, (json.dumps(fields, indent=1) + "\n").encode(), force=True)


def drop(directory: Path, ids: Collection[int]) -> None:
    """Forget the servers of these ids. Raises `ConfigError` and `OSError`."""
    servers = load(directory)
    kept = [server for server in servers if server.id not in ids]
    if kept != servers:
        save(directory, kept)


def forget(directory: Path) -> None:
    """Forget all servers: in a farm that begins anew, none of them belongs to it. Raises `OSError`."""
    (directory / ADMITTED_FILE).unlink(missing_ok=True)
    sync_directory(directory)


def replaced(admitted: Iterable[AdmittedServer]) -> set[int]:
    """Return the ids of the servers whose places the admitted servers have."""
    return {former for each in admitted for former in each.replaces}


def tables(
    servers: Sequence[ServerTable], removed: Sequence[RemovedTable], admitted: Iterable[AdmittedServer]
) -> tuple[ServerTable, ...]:
    """Return the tables of the admitted servers that no table of the files contradicts."""
    ids = {server.id for server in servers} | {table.id for table in removed}
    endpoints = {server.endpoint for server in servers}
    return tuple(
        ServerTable(id=each.id, endpoint=each.endpoint, fingerprint=each.fingerprint, founder=False)
        for each in admitted
        if each.id not in ids and each.endpoint not in endpoints
    )


def users(admitted: Iterable[AdmittedServer]) -> dict[str, UserTable]:
    """Return the verifiers of the admitted servers, by user name."""
    return {each.user: UserTable(key=each.key) for each in admitted}
