"""Checks of the node's directory: settings, secrets, rights, keys, the log, and whether the node runs."""

import asyncio
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

from gf_i2p.cli.doctor.checks import Check, CheckResult, Remedy, fail, fault_and_advice, ok, warn
from gf_i2p.cli.doctor.history import HISTORY, look_at_history
from gf_i2p.cli.shared.answer_text import MEMBERSHIP_TEXTS
from gf_i2p.cli.shared.errors import CommandError
from gf_i2p.cli.shared.local_client import request
from gf_i2p.cli.shared.meant import no_node_directory
from gf_i2p.cli.shared.router_setup import own_keys
from gf_i2p.node.files.checked_read import ConfigError, check_not_root
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE, DATABASE_FILE, HISTORY_DIRECTORY, SECRETS_FILE, SOCKET_FILE
from gf_i2p.node.files.start_command import start_command
from gf_i2p.node.files.stopped_log import examine_stopped_log
from gf_i2p.node.files.trust import tls_settings
from gf_i2p.raft.settings import Timing
from gf_i2p.storage import private_files
from gf_i2p.storage.errors import StorageError
from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from gf_i2p.transport.tls.tls_transport import TlsTransport

SECRETS = "secrets"
NODE = "node"


class NodeFiles:
    """The checks that need only the directory. Raises `CommandError` when the directory is not a node's.

    Raises `ConfigError` when root asks about a directory of another user, where root must follow no link.
    """

    def __init__(self, directory: Path) -> None:
        if not (directory / CONFIG_FILE).exists():
            raise CommandError(no_node_directory(directory))
        check_not_root(directory)
        self._directory = directory
        self.config: Config | None = None
        """The node's settings; None when their file cannot be read."""
        self.secrets: Secrets | None = None
        self.uptime: float | None = None
        """Seconds that the node has been running; None when no node runs. Known after the check of the node."""
        self.connected: frozenset[int] = frozenset()
        """The other servers to which the node is connected, as the node says. Known after the check of the node."""
        self.forwarded: frozenset[str] | None = None
        """The leaves whose forwarder listens in the node. None when no node runs. Known after the check of the node."""
        self.timing: Timing | None = None
        """The time-outs in force in the node. None when no node answers. Known after the check of the node."""
        self._status: dict[str, Any] | None = None
        self._config_error = self._secrets_error = ""
        try:
            self.config = Config.load(directory)
        except ConfigError as error:
            self._config_error = str(error)
        try:
            self.secrets = Secrets.load(directory)
        except ConfigError as error:
            self._secrets_error = str(error)

    def checks(self) -> list[Check]:
        """List the checks."""
        checks = [
            Check("configuration", self._configuration),
            Check(SECRETS, self._secrets),
            Check("directory", self._rights),
        ]
        if self.config is not None:
            checks.append(Check("log", self._log, seconds=20))
            if self.config.router is None or not self.config.own_endpoint.is_i2p:
                checks.append(Check("certificate", self._certificate))
            elif self.config.router.inbound == "sam":
                checks.append(Check("own keys", self._own_keys))
        checks.append(Check(NODE, self._node, seconds=10))
        if self.config is not None and self.config.history.enabled:
            checks.append(Check(HISTORY, self._history, after=(NODE,)))
        return checks

    async def _configuration(self) -> CheckResult:
        config = self.config
        if config is None:
            return _mistakes(self._directory / CONFIG_FILE, self._config_error)
        return ok(f"server {config.node.id} of farm {config.node.cluster}, {len(config.servers)} servers")

    async def _secrets(self) -> CheckResult:
        if self.secrets is None:
            return _mistakes(self._directory / SECRETS_FILE, self._secrets_error)
        secrets = self.secrets
        found = f"{SECRETS_FILE} is private, {len(secrets.users)} users"
        if secrets.new_key is not None:
            return warn(
                f"{found}; the replacement of this server's key is not finished",
                Remedy.either(f"gf-i2p members rotate-key {self._directory}"),
            )
        weaker = sorted(user for user, table in secrets.users.items() if table.key is None)
        if not weaker:
            return ok(found)
        return ok(
            f"{found}; weaker, by a password that any server's files give away: {', '.join(weaker)}. A server of this "
            "program gets a key by gf-i2p members rotate-key, a client by a new file; a foreign peer knows no keys"
        )

    async def _rights(self) -> CheckResult:
        """Check that the node can write here, and the modes of the files that no other check covers.

        Each check of a key file also looks at the mode.
        """
        writable = [path for path in (self._directory, self._directory / CONFIG_FILE) if _mode(path) & 0o022]
        if writable:
            names = " ".join(str(path) for path in writable)
            return fail(
                f"others on this machine can write to {' and '.join(path.name or '.' for path in writable)}",
                Remedy.either(f"chmod go-w {names}"),
            )
        database = self._directory / DATABASE_FILE
        for place in (self._directory, database.resolve().parent, self._directory / HISTORY_DIRECTORY):
            if (result := _not_writable(place)) is not None:
                return result
        readable = [path for path in database.parent.glob(f"{database.name}*") if _mode(path) & 0o077]
        if self.config is not None and (master := self._directory / self.config.publish.keys).exists():
            readable += [master] if _mode(master) & 0o077 and self.config.publish.mode == "off" else []
        if readable and _mode(self._directory) & 0o011:
            names = " ".join(str(path) for path in readable)
            return fail(
                f"others on this machine can read {', '.join(path.name for path in readable)}",
                Remedy.either(f"chmod 600 {names}"),
            )
        return ok("nobody else can write here, or read the log")

    async def _log(self) -> CheckResult:
        assert self.config is not None
        try:
            holder = private_files.holder(self._directory / DATABASE_FILE)
            if holder is not None:
                return ok(f"in use by process {holder}")
            loaded = await asyncio.to_thread(examine_stopped_log, self._directory, self.config)
        except StorageError as error:
            return fail(*_with_remedy(error))
        except OSError as error:
            return _not_readable(error)
        if loaded.snapshot_fault is not None:
            return warn(
                f"{loaded.snapshot_fault} Term, vote and the entries of the log are sound.",
                Remedy.either("start the node: its leader sends a new snapshot"),
            )
        dropped = f", the first {loaded.base[0]} in the snapshot only" if loaded.base[0] else ""
        return ok(f"{loaded.last_index} entries{dropped}, term {loaded.hard_state.term}")

    async def _certificate(self) -> CheckResult:
        config = self.config
        assert config is not None
        try:
            TlsTransport(tls_settings(self._directory, config))
            actual = fingerprint_of_file(self._directory / config.tls.certificate)
        except (ConfigError, TransportError) as error:
            return _refused(error)
        listed = next(server.fingerprint for server in config.servers if server.id == config.node.id)
        if listed not in {None, actual}:
            return fail(
                f"{config.tls.certificate} differs from the certificate in the list of servers",
                Remedy.either(f'On every server, set for server {config.node.id}: fingerprint = "{actual}"'),
            )
        return ok(f"{config.tls.certificate} and its key" + (", as the list of servers has it" if listed else ""))

    async def _own_keys(self) -> CheckResult:
        config = self.config
        assert config is not None
        assert config.router is not None
        try:
            own_keys(self._directory, config, config.router)
        except ConfigError as error:
            return _refused(error)
        return ok(f"{config.router.destination} is {config.own_endpoint.host}")

    async def _node(self) -> CheckResult:
        try:
            status = await request(self._directory, "GET", "/v1/status", seconds=5)
        except CommandError as error:
            return self._no_answer(error)
        self._status = status
        self.uptime = status["uptime"]
        self.forwarded = frozenset(status.get("farm", {}).get("leaf_loads", {}))
        if (timing := status.get("timing")) is not None:
            self.timing = Timing(timing["heartbeat"], timing["election_min"], timing["election_max"])
        self.connected = frozenset(
            server["id"] for server in status["servers"] if server["connected"] is True and not server["self"]
        )
        quorum, leader = status["quorum"], status["leader"]
        if leader is None:
            role = "no leader is known"
        else:
            role = "leads" if leader == status["id"] else f"follows server {leader}"
        up = timedelta(seconds=int(status["uptime"]))
        text = f"{role}, reaches {quorum['reachable']} of {quorum['servers']} servers, up {up}"
        if status["healthy"]:
            return ok(text)
        if status["membership"] == "removed":
            return warn("runs, and was removed from the farm", Remedy.either(MEMBERSHIP_TEXTS["removed"]))
        if quorum["reachable"] < quorum["needed"]:
            text += f"; {quorum['needed']} are needed"
        return warn(text, Remedy.either("Mend the faults below. Without faults, wait: an election takes a minute."))

    async def _history(self) -> CheckResult:
        assert self.config is not None
        return await look_at_history(self._directory, self.config, self._status)

    def _no_answer(self, error: CommandError) -> CheckResult:
        try:
            holder = private_files.holder(self._directory / DATABASE_FILE)
        except OSError as denied:
            return _not_readable(denied)
        except StorageError as error_of_lock:
            return fail(*_with_remedy(error_of_lock))
        if holder is None:
            return warn("does not run", Remedy.either(start_command(self._directory)))
        return fail(
            f"process {holder} holds the log, and does not answer on {SOCKET_FILE}",
            Remedy.either(f"Look into its output. If the process hangs, end it, and start the node. ({error})"),
        )


def _with_remedy(error: StorageError) -> tuple[str, Remedy]:
    fault, advice = fault_and_advice(str(error))
    return fault, Remedy.either(advice)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:  # the file is gone, or unreadable: other checks say so
        return 0


def _not_writable(directory: Path) -> CheckResult | None:
    """Return the fault of a directory that no node can write to; None without a fault, and when that is not known.

    A read-only mount is so for every user. The rights of doctor's user count only when that user owns the directory:
    the rights of another user say nothing about the node.
    """
    try:
        mounted, owner = os.statvfs(directory), directory.stat().st_uid
    except OSError:  # the directory is gone, or unreadable: other checks say so
        return None
    if mounted.f_flag & os.ST_RDONLY:
        real = directory.resolve()
        mount = next(path for path in (real, *real.parents) if path.is_mount())
        return fail(
            f"{directory} is mounted read-only: no node can run here",
            Remedy.either(
                "The system log (dmesg) says whether the disk has a fault. Mend the disk, then: "
                f"mount -o remount,rw {mount}"
            ),
        )
    if owner == os.geteuid() and not os.access(directory, os.W_OK | os.X_OK):
        return fail(
            f"{directory}: its owner cannot write there",
            Remedy.either(f"chmod u+rwx {directory}; if that does not help, see lsattr -d {directory}"),
        )
    return None


def _mistakes(path: Path, errors: str) -> CheckResult:
    """Return the result on a broken TOML file. `errors`: one error a line, each after the file's path."""
    lines = [line.removeprefix(f"{path}: ").removeprefix(f"{path} ") for line in errors.splitlines()]
    others = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    fault, marker, command = lines[0].partition(" Run: ")
    return fail(
        f"{path.name}: {fault}{others}", Remedy.either(command if marker else f"Correct the mistake in {path}.")
    )


def _refused(error: Exception) -> CheckResult:
    text, marker, command = str(error).partition(" Run: ")
    if marker:
        return fail(text, Remedy.either(command))
    fault, advice = fault_and_advice(text)
    return fail(fault, Remedy.either(advice or "Restore the file."))


def _not_readable(error: OSError) -> CheckResult:
    return fail(f"{error.filename}: {error.strerror}", Remedy.either("Run doctor as the user that runs the node."))
