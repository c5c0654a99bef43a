"""One i2pd router: configuration, process and ports. `java_router` has the Java router."""

import base64
import configparser
import hashlib
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from integration.harness.processes import spawn

TEMPLATE: Final = Path(__file__).with_name("i2pd.conf").read_text(encoding="utf-8")
"""The configuration, with `{NAME}` in place of each router's own value. The containers in docker/ use the same text."""
_CONSTANTS: Final = configparser.ConfigParser(interpolation=None)
_CONSTANTS.read_string(f"[router]\n{TEMPLATE}")
FIRST_ADDRESS: Final = 10
HTTP_PORT: Final = _CONSTANTS.getint("http", "port")
PROXY_PORT: Final = _CONSTANTS.getint("httpproxy", "port")
SOCKS_PORT: Final = _CONSTANTS.getint("socksproxy", "port")
SAM_PORT: Final = _CONSTANTS.getint("sam", "port")
I2CP_PORT: Final = _CONSTANTS.getint("i2cp", "port")
I2PCONTROL_PORT: Final = _CONSTANTS.getint("i2pcontrol", "port")
TUNNELS_FILE: Final = "tunnels.conf"
INTERFACES: Final = ("proxy", "socks", "sam", "i2cp", "i2pcontrol")
_I2NP_PORT: Final = 20_000
STOP_SECONDS: Final = 5.0
"""Time for a router to end after SIGTERM."""
_IDENTITY_KEYS_BYTES: Final = 384

CERTIFICATE_FILE: Final = "i2pcontrol.crt.pem"
"""Name in a router's directory. i2pd makes the certificate for i2pcontrol when the file is missing."""
CERTIFICATE_KEY_FILE: Final = "i2pcontrol.key.pem"
"""Name of the private key's file."""
_CERTIFICATE_END: Final = b"-----END CERTIFICATE-----\n"


_TRUST: Final = "\n[trust]\nenabled = true\nrouters = {}\n"


def server_tunnel(name: str, host: str, port: int, keys: str) -> str:
    """Give the lines of `TUNNELS_FILE` for a destination. The router brings the destination's streams to a TCP port.

    `keys`: name of the file with the destination's keys, in the router's directory.
    """
    return (
        f"[{name}]\ntype = server\nhost = {host}\nport = {port}\nkeys = {keys}\n"
        "inbound.length = 1\noutbound.length = 1\n"
        # Without the line, i2pd 2.45.1 answers no pings to server tunnels: "1", its own default, is not "true" there.
        "i2p.streaming.answerPings = true\n"
    )


def router_hash(info: bytes) -> str:
    """Return the hash of the router that a RouterInfo describes, in I2P's base64."""
    length = _IDENTITY_KEYS_BYTES + 3 + int.from_bytes(info[_IDENTITY_KEYS_BYTES + 1 : _IDENTITY_KEYS_BYTES + 3])
    return base64.b64encode(hashlib.sha256(info[:length]).digest(), b"-~").decode()


@dataclass
class RouterProcess:
    """A router of the network; `number` counts from 0."""

    kind: ClassVar[str] = "i2pd"
    stop_seconds: ClassVar[float] = STOP_SECONDS
    """Time for the router to end after SIGTERM."""
    number: int
    directory: Path
    floodfill: bool
    password: str = field(repr=False)
    """Password of i2pcontrol."""
    interfaces: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(INTERFACES, True))
    """Whether the next start turns each interface on."""
    program: str = "i2pd"
    """Path of i2pd, or its name."""
    trusted: tuple[str, ...] = ()
    """Hashes of the only routers that this router may use. A router with this list makes no peer tests: the tests of
    i2pd 2.58 fail in a network where all routers are connected, and then a router withdraws addresses and role."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def network_address(self) -> str:
        """Address for other routers, from the benchmark range of RFC 2544. i2pd takes this range for a public one.

        Each router has a network of 24 bits: Java asks only one floodfill of such a network about a lease set.
        """
        return f"198.18.{FIRST_ADDRESS + self.number}.1"

    @property
    def address(self) -> str:
        """Address of the interfaces for programs, on loopback."""
        return f"127.0.1.{FIRST_ADDRESS + self.number}"

    @property
    def log(self) -> Path:
        """Path of i2pd's log of warnings and errors."""
        return self.directory / "i2pd.log"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def crash(self) -> int | None:
        """The exit status of a process that has ended by itself; negative: the signal that ended it."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        """Process id of the live process, in this namespace."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def has_certificate(self) -> bool:
        """Whether i2pcontrol's certificate is whole. i2pd writes this file last in the first start, after seconds."""
        try:
            return (self.directory / CERTIFICATE_FILE).read_bytes().endswith(_CERTIFICATE_END)
        except FileNotFoundError:
            return False

    @property
    def i2np_port(self) -> int:
        """Port for other routers."""
        return _I2NP_PORT + self.number

    def start(self) -> None:
        """Write the configuration, and start the router with the files in the router's directory."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = spawn(self._command(), self.directory / "output.log")

    def _command(self) -> list[str]:
        """Write the configuration, and return the command that runs the router."""
        config = self.directory / "i2pd.conf"
        config.touch(mode=0o600)
        config.write_text(
            TEMPLATE.format(
                address=self.network_address,
                interfaces_address=self.address,
                port=self.i2np_port,
                log="file",
                logfile=self.log,
                floodfill=str(self.floodfill).lower(),
                **{name: str(on).lower() for name, on in self.interfaces.items()},
                password=self.password,
            )
            + (_TRUST.format(",".join(self.trusted)) if self.trusted else "")
        )
        tunnels = self.directory / TUNNELS_FILE
        tunnels.touch()
        return [self.program, f"--datadir={self.directory}", f"--conf={config}", f"--tunconf={tunnels}"]

    def send(self, how: signal.Signals) -> None:
        """Send a signal to the process, if the process lives."""
        if self._process is not None and self.running:
            self._process.send_signal(how)

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float | None = None) -> None:
        """End the process with signal `how`, and with SIGKILL after `seconds`, by default `stop_seconds`."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(self.stop_seconds if seconds is None else seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # Identity -------------------------------------------------------------------------------------------------------

    def info(self) -> bytes | None:
        """Return the RouterInfo that the router publishes; None before the router has written the file."""
        try:
            data = (self.directory / "router.info").read_bytes()
        except FileNotFoundError:
            return None
        return data if len(data) > _IDENTITY_KEYS_BYTES + 3 else None

    def learn(self, info: bytes) -> None:
        """Put another router's RouterInfo into the netDb. The router reads the netDb at the start."""
        name = router_hash(info)
        folder = self.directory / "netDb" / f"r{name[0]}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"routerInfo-{name}.dat").write_bytes(info)

    def complaints(self) -> list[str]:
        """Return the warnings and errors in the log."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "/warn" in line or "/error" in line or "/critical" in line]
