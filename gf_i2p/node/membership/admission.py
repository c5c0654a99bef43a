"""Admissions at a running node: takes a newcomer's request, and takes over the servers that the log has admitted.

A newcomer shows its ticket to any server. That server checks the admission and posts it, and the leader checks it
again. When the entry is committed, each server checks it once more, and knows the newcomer's endpoint, certificate and
key from then on. The newcomer gets the same of all other servers, and then asks the leader to be taken in (`joining`).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import ValidationError

from gf_i2p.farm.admin_entries import AdminEntry
from gf_i2p.farm.admission import Admission, Admitted, Ticket
from gf_i2p.node.access.tickets import objection_to_admission, objection_to_ticket
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files import admitted
from gf_i2p.node.files.admitted import AdmittedServer
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config
from gf_i2p.node.membership.endpoint_holder import former_holder
from gf_i2p.wire.digest import Verifier
from gf_i2p.wire.key_proof import PublicKey

logger = structlog.get_logger()

POST_SECONDS: Final = 60.0
"""Most seconds until the farm has committed an admission."""


class AdmissionRefusedError(Exception):
    """The newcomer is not admitted; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Known:
    """The knowledge of a node about its farm, as of now."""

    config: Config
    users: Mapping[str, Verifier]
    """The users that may log in."""
    own_verifier: Callable[[], Verifier]
    """Returns the value by which others verify this server."""
    members: Mapping[int, str]
    """By id, the endpoints of the servers in the newest Configuration."""
    committed: Collection[int]
    """The ids of the servers in the newest committed Configuration that the node has applied."""
    admitted: Mapping[int, Admitted]
    """The admissions in the log."""


class Admissions:
    """The admissions of one farm at one node."""

    def __init__(
        self, directory: Path, known: Callable[[], Known], post: Callable[[Sequence[bytes]], Awaitable[None]]
    ) -> None:
        """`post` appends entries in this server's name, and returns when all are committed and `known` shows them."""
        self._directory = directory
        self._known = known
        self._post = post
        self._done: set[int] = set()
        """Indexes of the entries that were taken over, or refused."""

    async def admit(self, admission: Admission) -> dict[str, Any]:
        """Have the farm admit a newcomer; return what the newcomer must know of the farm.

        A newcomer that asks again gets the same answer. Raises `AdmissionRefusedError`, `NotCommittedError` and
        `OutcomeUnknownError`.
        """
        known, server = self._known(), admission.ticket.server
        cluster = known.config.node.cluster
        earlier = known.admitted.get(server)
        if earlier is None or earlier.admission != admission:
            self._check(known, admission)
            entry = AdminEntry(cluster, now_ms(), f"server-{known.config.node.id}", "admit", admission=admission)
            await self._post([entry.encode()])
            known = self._known()
            if server not in known.admitted or known.admitted[server].admission != admission:
                raise AdmissionRefusedError(
                    f"another newcomer has become server {server} in this moment: ask {admission.ticket.by} for a code "
                    "for another id"
                )
            _former(known, _listed(known), server, admission)  # another newcomer may have got the endpoint meanwhile
        return description(known, server)

    def _check(self, known: Known, admission: Admission) -> None:
        server, config = admission.ticket.server, known.config
        why_not = objection_to_admission(config.node.cluster, known.users, admission, now_ms())
        if why_not is not None:
            raise AdmissionRefusedError(why_not)
        used = _ids(config) | known.members.keys() | known.admitted.keys()
        if server in used:
            raise AdmissionRefusedError(
                f"server {server} exists already, and ids are never used twice: ask {admission.ticket.by} for a code "
                f"for another id, such as {max(used) + 1}"
            )
        _former(known, _listed(known), server, admission)

    def key_of(self, user: str) -> PublicKey | None:
        """Return the key of a newcomer's ticket while the ticket is good; None for any other name of a user."""
        try:
            ticket = Ticket.of_user(user)
        except ValueError:
            return None
        known = self._known()
        why_not = objection_to_ticket(known.config.node.cluster, known.users, ticket, now_ms())
        return PublicKey(ticket.key) if why_not is None else None

    def take(self) -> list[AdmittedServer]:
        """Write the servers that the log has newly admitted into the node's file; return all of the file.

        Returns no server when nothing is new. Raises `ConfigError` when the file is damaged.
        """
        known = self._known()
        new = [each for each in known.admitted.values() if each.index not in self._done]
        if not new:
            return []
        self._done.update(each.index for each in new)
        ids, listed = _ids(known.config), _listed(known)
        everything = {each.id: each for each in admitted.load(self._directory)}
        changed = False
        for each in sorted(new, key=lambda entry: entry.index):  # of two with one endpoint, the first counts
            if each.admission.ticket.server in ids or (checked := self._checked(known, listed, each)) is None:
                continue
            server, former = checked
            if former is not None:
                earlier = everything.pop(former, None)
                replaces = (former, *(() if earlier is None else earlier.replaces))
                server = server.model_copy(update={"replaces": replaces})
            everything[server.id], listed[server.id], changed = server, server.endpoint, True
        if not changed:
            return []
        try:
            admitted.save(self._directory, everything.values())
        except OSError as error:
            logger.error("the admitted servers could not be written", reason=str(error))
        return list(everything.values())

    def look_again(self) -> None:
        """Check all admissions of the log again: the files have changed, and may know another administrator now."""
        self._done.clear()

    def _checked(
        self, known: Known, listed: Mapping[int, str], entry: Admitted
    ) -> tuple[AdmittedServer, int | None] | None:
        """Return the server of an entry, and the id of the server whose place it takes, if any.

        Return None, with a line in the log, when the entry has no right signatures, or a member has the endpoint.
        """
        why_not = objection_to_admission(known.config.node.cluster, known.users, entry.admission, entry.date_ms)
        if why_not is None:
            try:
                server = AdmittedServer.of(entry.admission)
                former = _former(known, listed, server.id, entry.admission)
            except ValidationError:
                why_not = f"the fingerprint of server {entry.admission.ticket.server} is none"
            except AdmissionRefusedError as error:
                why_not = str(error)
            else:
                by = entry.admission.ticket.by
                logger.info("server admitted", id=server.id, endpoint=server.endpoint, by=by, replaces=former)
                return server, former
        logger.warning("a server of the log is not admitted here", index=entry.index, reason=why_not)
        return None


def _ids(config: Config) -> set[int]:
    """Return the ids of the servers in a node's files, also of those that have left the farm."""
    return {server.id for server in config.servers} | {table.id for table in config.removed}


def _listed(known: Known) -> dict[int, str]:
    """Return the endpoints of the servers that the node knows, by id; the endpoints of its files win."""
    return {**known.members, **{server.id: server.endpoint for server in known.config.servers}}


def _former(known: Known, listed: Mapping[int, str], server: int, admission: Admission) -> int | None:
    """Return the id of the server whose place the newcomer takes; None when no server has its endpoint.

    The log may lag behind: a server that is a member by any Configuration, or is about to join, keeps its place. Raises
    `AdmissionRefusedError`.
    """
    by, endpoint = admission.ticket.by, admission.endpoint
    present = {known.config.node.id, *known.members, *known.committed}
    waiting = known.admitted.keys() - present - {server}
    joining = [each for each, at in listed.items() if at == endpoint and each in waiting]
    if joining:
        raise AdmissionRefusedError(
            f"server {joining[0]} is to join at {endpoint}: run that server, or ask {by} for a code with another "
            "endpoint. If that server is dead for good, invite the new one with `members invite --into`"
        )
    try:
        return former_holder(
            listed.items(), server, endpoint, lambda: present, remove=f": gf-i2p members remove {by}.toml"
        )
    except ConfigError as error:
        raise AdmissionRefusedError(str(error)) from error


def description(known: Known, newcomer: int) -> dict[str, Any]:
    """Return what a newcomer must know: the farm, its servers, and the public halves of its users' keys.

    Users of foreign programs log in by passwords, and are left out: what verifies a password is as secret as it.
    """
    config = known.config
    users = {**known.users, f"server-{config.node.id}": known.own_verifier()}
    keys = {name: str(verifier) for name, verifier in users.items() if isinstance(verifier, PublicKey)}
    return {
        "cluster": config.node.cluster,
        "profile": config.timing.profile,
        "servers": [
            {"id": each.id, "endpoint": each.endpoint, "fingerprint": each.fingerprint, "founder": each.founder}
            for each in config.servers
            if each.id != newcomer
        ],
        "removed": [each.id for each in config.removed],
        "users": {name: key for name, key in keys.items() if name != f"server-{newcomer}"},
        "left_out": sorted(users.keys() - keys.keys()),
    }
