"""One server of a farm: files, connections, and the driver of the consensus core."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import Final

import structlog
from structlog.contextvars import get_contextvars

from bridges.hosting_protocol import ServiceHosting
from bridges.router_protocol import RouterBridge
from gf_i2p.farm.admin_entries import ServerKey
from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.farm.state import snapshot_fault
from gf_i2p.node.access.budgets import Budgets
from gf_i2p.node.access.login_keys import is_signed
from gf_i2p.node.access.posts import Posts
from gf_i2p.node.access.refusals import Refusal, Refusals
from gf_i2p.node.access.rights import Rights
from gf_i2p.node.access.roles import User, concerned
from gf_i2p.node.access.tickets import objection_to_admission
from gf_i2p.node.clock import now_ms
from gf_i2p.node.consensus.driver import BROKEN, Driver
from gf_i2p.node.consensus.leader_log import LeaderLog
from gf_i2p.node.consensus.timing import Timeouts
from gf_i2p.node.consensus.waiting_times import handshake_seconds, redial_seconds, request_seconds
from gf_i2p.node.disk_use import DiskUse
from gf_i2p.node.farm_tasks import FarmTasks, farm_tasks_of
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import DATABASE_FILE, HISTORY_DIRECTORY
from gf_i2p.node.files.restart_needed import needs_restart
from gf_i2p.node.files.trust import dialled, lacking, tls_settings
from gf_i2p.node.files.user_keys import UserKeys
from gf_i2p.node.history.exporter import Exporter
from gf_i2p.node.history.remote_history import HistoryProcess, StartProcess
from gf_i2p.node.listener import SharedListener
from gf_i2p.node.membership.admission import POST_SECONDS, Admissions, Known
from gf_i2p.node.membership.joining import Joiner
from gf_i2p.node.membership.removal_check import RemovalCheck
from gf_i2p.node.publish.publishing_keys import PublishingKeys
from gf_i2p.node.report.leaf_farm import LeafFarm
from gf_i2p.node.view import FarmView
from gf_i2p.raft.configurations import majority
from gf_i2p.raft.core import Core
from gf_i2p.raft.settings import Timing
from gf_i2p.storage.database import Storage
from gf_i2p.storage.history_writer import check_owner
from gf_i2p.transport.endpoint_transport import MixedTransport
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.i2p.i2p_transport import I2P_REQUEST_SECONDS
from gf_i2p.transport.interface import Transport
from gf_i2p.transport.peer_link import PeerLink
from gf_i2p.transport.served import AuthenticatedConnection, Replier, Served
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from gf_i2p.transport.tls.tls_transport import TlsSettings, TlsTransport
from gf_i2p.wire.digest import Authenticator, Credentials
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.key_credentials import KeyCredentials
from gf_i2p.wire.log_values import ClusterServer
from gf_i2p.wire.messages import NOBODY, MessageType, Request

logger = structlog.get_logger()

STOP_SECONDS: Final = 5.0
"""Seconds for which a stopping node still answers the requests that were accepted."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of the last attempt to take over changed files while the node runs."""

    number: int
    """Number of the attempt; the first is 1."""
    error: str | None
    """Why the node kept the old settings; None when the new ones were taken over."""
    needs_restart: tuple[str, ...] = ()
    """Changed keys that take effect at the next start."""


class Node:
    """A server of a farm in this process.

    `i2p` dials peers inside I2P; when this node's own endpoint is inside I2P, `i2p` also listens. `bridge` leads to the
    router. `keys` are the master's, when this node may publish for the master. `listener` is shared with other farms of
    this process; without `listener`, the node makes its own. `leaf_farm` is the farm whose master is a leaf of this
    server, if there is one. `hosting` serves the master in mode `failover`. `start_history` starts what writes the
    history's files. When the node cannot go on, the node calls `on_halt` with the error, and the caller then stops the
    node.
    """

    def __init__(
        self,
        directory: Path,
        config: Config,
        secrets: Secrets,
        *,
        i2p: Transport | None = None,
        bridge: RouterBridge | None = None,
        keys: PublishingKeys | None = None,
        listener: SharedListener | None = None,
        leaf_farm: LeafFarm | None = None,
        hosting: ServiceHosting | None = None,
        start_history: StartProcess = HistoryProcess.start,
        on_halt: Callable[[BaseException], None],
    ) -> None:
        self._directory = directory
        self._start_history = start_history
        self._config = config  # as at the start, for settings that a reload cannot change
        self._reloaded = config
        self._user_keys = UserKeys(directory, config.node.id, secrets)
        self._secrets = secrets  # as at the start, too
        self._users: dict[str, User] = {}
        self.rights = Rights(
            config.node.cluster,
            lambda: {each.id for each in self.driver.core.configuration.servers},
            lambda admission: objection_to_admission(self.cluster, self._user_keys.in_force, admission, now_ms()),
        )
        self.admissions = Admissions(directory, self._known, self._post_and_apply)
        self._started = False
        self.on_administration: Callable[[AuthenticatedConnection], asyncio.Protocol | None] | None = None
        """Answers requests to the administration API, see `Served`. Set this before `start`; None: there is no API."""
        self.last_reload: Reload | None = None
        """Result of the last reload. The caller of `reload` sets this attribute; None before the first reload."""
        self._tasks: list[asyncio.Task[None]] = []
        # A shared listener calls this node outside the node's logging context.
        self._log = logger.bind(**get_contextvars(), server=config.node.id)
        timeouts = Timeouts(config.plan, servers=len(config.servers))
        check_snapshot = partial(snapshot_fault, config.node.cluster)
        storage = Storage.open(
            directory / DATABASE_FILE,
            cluster=config.node.cluster,
            server_id=config.node.id,
            check_snapshot=check_snapshot,
        )
        try:
            if config.history.enabled:
                history = directory / HISTORY_DIRECTORY
                check_owner(history, cluster=config.node.cluster, server_id=config.node.id)
            self.driver = Driver(
                config.node.id,
                storage,
                bootstrap=config.bootstrap,
                timeouts=timeouts,
                check_snapshot=check_snapshot,
                on_timing=self._derive_times,
                on_halt=on_halt,
            )
            listen = Endpoint.parse(config.node.listen)
            self._tls = TlsTransport(self._tls_settings(config), host=listen.host, port=listen.port)
            self._warn_of_own_fingerprint()
        except BaseException:
            storage.close()
            raise
        self.storage = storage
        self.refusals, self.budgets = Refusals(config.node.id), Budgets(config.limits.in_bytes)
        self.disk = DiskUse(directory / DATABASE_FILE, directory / HISTORY_DIRECTORY, config.history.max_mib << 20)
        self.posts = Posts(
            self.driver,
            self.rights,
            self.budgets,
            self.refusals,
            leads=lambda: self.driver.core.is_leader,
            full=lambda: self.disk.full,
        )
        transport: Transport = self._tls
        if i2p is not None:
            listening = i2p if config.own_endpoint.is_i2p else self._tls
            transport = MixedTransport(tls=self._tls, i2p=i2p, listening=listening)
        self._authenticator = Authenticator(
            config.node.cluster,
            self._user_keys.in_force,
            key=token_bytes(32),
            without_qop=config.compat.digest_without_qop,
            dialled=dialled(directory, config),
            verify_signature=is_signed,
            newcomer=self.admissions.key_of,
        )
        self._inside = any(Endpoint.parse(server.endpoint).is_i2p for server in config.servers)
        self.listener = SharedListener(transport, {config.node.cluster}) if listener is None else listener
        self.server, self.gate = self.listener.server, self.listener.gate
        self._transport = transport
        self._credentials: dict[int, KeyCredentials] = {}
        """By server id, this node's credentials at that server, with the nonce that the server has issued. A new link
        uses the same credentials, which saves a request."""
        self.links: dict[int, PeerLink] = {}
        """By server id, links to all other servers of the Configuration, and to servers that are joining or leaving."""
        self._ending: set[asyncio.Task[None]] = set()
        self.driver.on_contacts = self._contacts_changed
        self.driver.on_given_up = self._why_silent
        self.driver.on_violation = self._violated
        self._leader_log = LeaderLog(lambda: [server for server, link in self.links.items() if link.connected])
        self.driver.on_standing = self._standing_changed
        self._told_leader = (0, NOBODY)
        self._contacts_changed(self.driver.core.contacts)
        self.removal_check = RemovalCheck(self.driver, transport, config.node.cluster, self._others)
        self._master = None if keys is None else keys.destination
        try:
            self.farm_tasks = self._make_farm_tasks(bridge, keys, leaf_farm, hosting)
        except BaseException:
            storage.close()  # other farms of this process may still run
            raise
        self.farm_tasks.view.on_change += [self._take_server_keys, self._take_admitted]
        self._take_server_keys()
        self._take_admitted()

    def _take_server_keys(self) -> None:
        """Take over the servers' keys of the log. Connections by a key that was replaced end."""
        members = self.rights.servers()  # the state may be that of a farm before `restore`, with other servers
        keys = self.farm_tasks.view.state.administration.server_keys
        changed = self._user_keys.take({server: key for server, key in keys.items() if server in members})
        if changed is not None:
            self._users_changed(changed)
            self._user_keys.renew(self._credentials.values())
            self._log.info("keys of servers changed", users=changed)

    def _take_admitted(self) -> None:
        """Know the servers that the log has newly admitted, in the same way as after a change of the files."""
        if not self.farm_tasks.view.state.administration.admitted:
            return
        try:
            servers = self.admissions.take()
            if servers:
                config, secrets = self._reloaded.with_admitted(servers), self._user_keys.secrets.with_admitted(servers)
                self._take_files(config, secrets)
        except (ConfigError, TransportError) as error:
            self._log.error("an admitted server cannot be known: reload, or restart the node", reason=str(error))

    def _known(self) -> Known:
        config = self._reloaded
        return Known(
            config,
            self._user_keys.in_force,
            partial(self._user_keys.secrets.own_verifier, config.node.id, config.node.cluster),
            {server.id: server.endpoint for server in self.driver.core.configuration.servers},
            self.farm_tasks.view.state.servers,
            self.farm_tasks.view.state.administration.admitted,
        )

    async def _post_and_apply(self, values: Sequence[bytes]) -> None:
        index = await self.driver.post(values, seconds=POST_SECONDS)
        await self.farm_tasks.view.reaches(index)

    def _users_changed(self, users: Sequence[str]) -> None:
        """Let only the users in force log in, and end the connections of these users."""
        self._authenticator.replace(self._user_keys.in_force)
        self.rights.forget(users)
        self.budgets.forget(users)
        self.server.disconnect(self.cluster, users)

    def _others(self) -> dict[Endpoint, Credentials]:
        """Return this node's credentials at every server to reach, by the server's endpoint."""
        return {link.endpoint: self._credentials[server] for server, link in self.links.items()}

    def _make_farm_tasks(
        self,
        bridge: RouterBridge | None,
        keys: PublishingKeys | None,
        leaf_farm: LeafFarm | None,
        hosting: ServiceHosting | None,
    ) -> FarmTasks:
        """Make the tasks of this node for its farm, with the history if the configuration asks for one."""
        exporter = self._exporter()
        droppable = None if exporter is None else lambda: exporter.releasable
        view = FarmView(self._config.node.cluster, self.driver, droppable=droppable)
        return farm_tasks_of(
            self._directory,
            self._config,
            self.driver,
            view,
            bridge=bridge,
            keys=keys,
            exporter=exporter,
            leaf_farm=leaf_farm,
            hosting=hosting,
        )

    def _exporter(self) -> Exporter | None:
        history, log = self._config.history, self.driver.core.log
        if not history.enabled:
            return None
        exporter = Exporter(
            self._directory / HISTORY_DIRECTORY,
            self.cluster,
            self._config.node.id,
            self.driver,
            rotation=history.rotation,
            begins_after=log.base,
            start_process=self._start_history,
        )
        self.driver.on_restore.append(lambda _: exporter.log_begins_after(log.base))
        return exporter

    @property
    def cluster(self) -> str:
        """The farm's name."""
        return self._config.node.cluster

    # The node as a nested farm: see `leaf_farm.NestedFarm`.

    @property
    def master(self) -> bytes | None:
        """Hash of the master for which this node may publish."""
        return None if self._master is None else self._master.hash

    @property
    def records(self) -> Mapping[int, StatusRecord]:
        """The newest record of each server, from the applied part of the log."""
        return self.farm_tasks.view.state.records

    @property
    def choice(self) -> Choice:
        """The farm's choice of publisher and leaves, from the applied part of the log."""
        return self.farm_tasks.view.choice

    @property
    def has_leader(self) -> bool:
        """Whether this node knows a leader and has not halted."""
        return self.driver.core.leader != NOBODY and not self.driver.halted

    def _contacts_changed(self, contacts: Mapping[int, str]) -> None:
        """Make links to new contacts, and end the links to former ones.

        `contacts`: endpoints by server id, from the log. An endpoint in this node's file wins over the one in the log.
        """
        listed = {server.id: server.endpoint for server in self._config.servers}
        if self._config.node.join and not self.driver.core.was_voter:
            # No server knows this node yet: this node asks all servers in its own file.
            contacts = {server: endpoint for server, endpoint in listed.items() if server != self._config.node.id}
        endpoints = {server: Endpoint.parse(listed.get(server, endpoint)) for server, endpoint in contacts.items()}
        for server, link in tuple(self.links.items()):
            if endpoints.get(server) != link.endpoint:
                del self.links[server]
                ending = asyncio.get_running_loop().create_task(link.stop(), name=f"end of the link to {link.endpoint}")
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
        for server, endpoint in endpoints.items():
            if server not in self.links:
                self.links[server] = link = PeerLink(
                    self._transport,
                    endpoint,
                    self.cluster,
                    self._credentials.setdefault(server, self._user_keys.login.at(server)),
                    on_up=partial(self._up, server),
                    on_down=partial(self._down, server),
                    request_seconds=I2P_REQUEST_SECONDS,
                )
                if self._started:
                    link.start()
        self._derive_times(self.driver.timeouts.timing)

    def _tls_settings(self, config: Config) -> TlsSettings:
        return tls_settings(self._directory, config)

    def _warn_of_own_fingerprint(self) -> None:
        """Warn when this node's certificate is not the listed one. Otherwise only other servers would notice that."""
        own_server = next(server for server in self._config.servers if server.id == self._config.node.id)
        if own_server.fingerprint is None:
            return
        actual = fingerprint_of_file(self._directory / self._config.tls.certificate)
        if own_server.fingerprint != actual:
            self._log.warning(
                "this node's certificate is not the one in the list of servers",
                file=actual,
                listed=own_server.fingerprint,
            )

    # Life -----------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, dial and take part. Raises `TransportError` when listening fails."""
        served = Served(
            self._authenticator,
            self._incoming,
            self._dial_back,
            self._check_link,
            self._configuration,
            self.on_administration,
        )
        try:
            bound = await self.listener.enter(self.cluster, served)
        except BaseException:
            self.storage.close()
            raise
        self._started = True
        for link in self.links.values():
            link.start()
        self.driver.start(self.links)
        self._leader_log.note(self.driver.core)
        if self._config.node.join:
            joiner = Joiner(self.driver, self.links, str(self._config.own_endpoint))
            self._tasks.append(asyncio.get_running_loop().create_task(joiner.run(), name="joining"))
        self._tasks.append(
            asyncio.get_running_loop().create_task(self.removal_check.run(), name="looking for the farm")
        )
        self._tasks.append(asyncio.get_running_loop().create_task(self.disk.run(), name="a look at the disk"))
        self.farm_tasks.start()
        self._log.info("started", cluster=self.cluster, listen=list(bound.addresses))

    async def stop(self) -> None:
        """Answer the accepted requests, write the promised entries, close everything."""
        for task in self._tasks:
            task.cancel()
        self._leader_log.stop()
        if self._hears_majority:
            await self.farm_tasks.resign()
        await self.farm_tasks.stop()
        await self.listener.leave(self.cluster, 0.0 if self.driver.halted else STOP_SECONDS)
        await self.posts.stop()
        await self.driver.stop(STOP_SECONDS)
        await asyncio.gather(*(link.stop() for link in self.links.values()), *self._ending)
        self.storage.close()
        self._log.info("stopped")

    @property
    def _hears_majority(self) -> bool:
        """Whether a post by this node can be committed now."""
        servers = {server.id for server in self.driver.core.configuration.servers}
        connected = sum(server in servers and link.connected for server, link in self.links.items())
        return self.has_leader and connected + (self.driver.core.id in servers) >= majority(len(servers))

    @property
    def server_keys(self) -> Mapping[int, ServerKey]:
        """By server id, the public halves by the log, which replace those of the files."""
        return self._user_keys.committed

    def reload(self, config: Config, secrets: Secrets) -> list[str]:
        """Take over the changes that a running node can; return the keys that need a restart.

        Raises `TransportError` when the new certificate or key cannot be used; then the node keeps the old settings.
        """
        pending = self._take_files(config, secrets)
        self.admissions.look_again()
        self._take_admitted()
        return pending

    def _take_files(self, config: Config, secrets: Secrets) -> list[str]:
        """See `reload`."""
        old = self._config
        # Links keep their endpoints until a restart, so the fingerprints of servers that left the file stay, too.
        settings, listed = self._tls_settings(config), {Endpoint.parse(server.endpoint) for server in config.servers}
        old_pins = {e: pins for e, pins in self._tls_settings(old).fingerprints.items() if e not in listed}
        self._tls.reload(replace(settings, fingerprints={**old_pins, **settings.fingerprints}))
        self.listener.reload(settings)
        self._reloaded = config
        self._users_changed(self._user_keys.reload(secrets))
        self._user_keys.renew(self._credentials.values())
        self._authenticator.without_qop = config.compat.digest_without_qop
        self._authenticator.dialled = dialled(self._directory, old.model_copy(update={"tls": config.tls}))
        self._users.clear()
        self.budgets.limits = config.limits.in_bytes
        self.driver.change_plan(config.plan)
        members = {server.id for server in self.driver.core.configuration.servers}
        pending = needs_restart((old, self._secrets), (config, secrets), members)
        # A permission that was given together with, say, another mode or other keys is not for the present ones.
        if "publish" not in pending or config.publish.publish == "off":
            in_force = self.farm_tasks.may_publish(config.publish.publish)
            if not in_force and "publish" not in pending:
                pending.append("publish")
        return pending

    def _derive_times(self, timing: Timing) -> None:
        """Set the waiting times that follow from the consensus time-outs."""
        self.listener.wait_for(self.cluster, handshake_seconds(timing, inside=self._inside))
        for link in self.links.values():
            inside = link.endpoint.is_i2p
            link.request_seconds = request_seconds(timing, inside=inside)
            link.handshake_seconds = handshake_seconds(timing, inside=inside)
            link.backoff.ceiling = redial_seconds(timing)

    # Connections ---------------------------------------------------------------------------------------------------

    def _up(self, peer: int) -> None:
        link = self.links.get(peer)
        if link is not None:
            self.driver.reachable(peer, link.round_trip)

    def _down(self, peer: int) -> None:
        """Report a lost peer to the driver, but only while another peer is connected.

        Otherwise the fault may be in this node's own network or router.
        """
        lost = self.links.get(peer)
        if lost is not None and lost.unreachable and any(link.connected for link in self.links.values()):
            self.driver.unreachable(peer, refused=lost.refused)

    def lacking(self, server: ClusterServer) -> str | None:
        """Return why the files, as last loaded, do not let this node speak with a joining server; None: no obstacle."""
        return lacking(self._reloaded, self._user_keys.in_force, server)

    def _standing_changed(self, core: Core) -> None:
        self._leader_log.note(core)
        if core.leader != NOBODY and (core.term, core.leader) != self._told_leader:
            self._told_leader = core.term, core.leader
            view = self.farm_tasks.view
            view.events.add(f"server {core.leader} leads, in term {core.term}", now_ms(), view.applied)

    def _violated(self, fault: str) -> None:
        """Count and log, within the limit, that a server broke the protocol."""
        self.refusals.note(Refusal.PROTOCOL, "server", f"{BROKEN}: {fault}")

    def _why_silent(self) -> str | None:
        """Return the errors of links to servers that are no members, such as a joining server just given up.

        None when no such link has an error.
        """
        members = {server.id for server in self.driver.core.configuration.servers}
        errors = (
            link.last_error for server, link in self.links.items() if server not in members and not link.connected
        )
        return "; ".join(error for error in errors if error is not None) or None

    def _dial_back(self, caller: AuthenticatedConnection) -> None:
        """Dial a peer at once when the peer has just dialled this node: the peer is up."""
        link = self._link_of(caller)
        if link is not None:
            link.nudge()

    def _check_link(self, caller: AuthenticatedConnection, seconds: float) -> None:
        """Note that a peer has dialled anew `seconds` ago, and that the new connection has lasted since then.

        The peer may have restarted. So this node dials anew if its link may lead to a process that is gone.
        """
        user = self._user(caller.user)
        link = self._link_of(caller)
        if link is not None and user is not None and user.server_id is not None:
            self.driver.dialled(user.server_id)
            link.doubt(seconds)

    def _link_of(self, caller: AuthenticatedConnection) -> PeerLink | None:
        user = self._user(caller.user)
        return None if user is None or user.server_id is None else self.links.get(user.server_id)

    def _configuration(self, name: str) -> bytes | None:
        """Return the newest Configuration in the log, committed or not, for a user who has a role.

        Return None for other users. Return None, too, when the driver has halted: the state in memory may be wrong.
        """
        if self.driver.halted or self._user(name) is None:
            return None
        return self.driver.core.configuration.encode()

    def _user(self, name: str) -> User | None:
        user = self._users.get(name)
        if user is None:
            try:
                user = self._users[name] = User(name)
            except ValueError as error:
                self.refusals.note(Refusal.ROLE, name, str(error))
        return user

    def _incoming(self, caller: AuthenticatedConnection, request: Request, reply: Replier) -> None:
        user = self._user(caller.user)
        if user is None:
            reply(None)
            return
        objection = user.objection(request)
        if objection is not None:
            self.refusals.note(Refusal.ROLE, user.name, objection)
            reply(None)
        elif request.type is MessageType.CLIENT_REQUEST and request.entries:
            self.posts.take(user, request, reply)
        elif (lacking := self._objection_to_newcomer(user, request)) is not None:
            self._log.warning("servers", what=lacking)
            self.driver.notice = lacking
            self.driver.refuse(request, reply)
        else:
            self.driver.incoming(request, reply)

    async def objection_to(self, user: User | None, values: Sequence[bytes]) -> str | None:
        """Return why this user of the administration API may not post these values; None: the user may.

        `user`: None for the operator of this server.
        """
        return await self.posts.objection_to(user or User(f"server-{self._config.node.id}"), values)

    def _objection_to_newcomer(self, user: User, request: Request) -> str | None:
        """Return why this node, as leader, cannot speak with a server that an administrator adds; None: no reason.

        The farm would wait for that server in vain, and meanwhile no other server could join or leave. A server that
        asks to join by itself is not refused here. That server would think that another change is under way, and go on
        asking.
        """
        core = self.driver.core
        if request.type is not MessageType.ADD_SERVER_REQUEST or user.server_id is not None or not core.is_leader:
            return None
        server_id = concerned(request)
        if server_id is None or server_id in {server.id for server in core.configuration.servers}:
            return None
        why = self.lacking(ClusterServer.decode(request.entries[0].value))
        return None if why is None else f"server {server_id} has not joined: {why}"
