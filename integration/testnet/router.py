"""One i2pd router: its configuration, its process, its ports."""

import base64
import hashlib
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from integration.processes import spawn

NET_ID: Final = 77
"""16 to 254 are for forks and tests; 2 is the live network."""
FIRST_ADDRESS: Final = 10
HTTP_PORT: Final = 7070
PROXY_PORT: Final = 4444
SOCKS_PORT: Final = 4447
SAM_PORT: Final = 7656
I2CP_PORT: Final = 7654
I2PCONTROL_PORT: Final = 7650
TUNNELS_FILE: Final = "tunnels.conf"
INTERFACES: Final = ("proxy", "socks", "sam", "i2cp", "i2pcontrol")
_I2NP_PORT: Final = 20_000
STOP_SECONDS: Final = 5.0
"""For a router to end kindly."""
_IDENTITY_KEYS_BYTES: Final = 384

CERTIFICATE_FILE: Final = "i2pcontrol.crt.pem"
"""In a router's directory: what i2pd makes for its i2pcontrol."""
_CERTIFICATE_END: Final = b"-----END CERTIFICATE-----\n"
# i2pd refuses empty URLs; nobody listens on this one.
_NOWHERE: Final = "http://127.0.0.1:1/"
_CONFIG: Final = """\
netid = {net_id}
host = {address}
address4 = {address}
port = {port}
ipv4 = true
ipv6 = false
nat = false
reservedrange = false
floodfill = {floodfill}
bandwidth = X
share = 100
log = file
logfile = {directory}/i2pd.log
loglevel = warn

[ntcp2]
published = true

[ssu2]
published = true

[http]
enabled = true
address = {interfaces_address}
port = {http_port}
strictheaders = false

[httpproxy]
enabled = {proxy}
address = {interfaces_address}
port = {proxy_port}
inbound.length = 1
outbound.length = 1

[socksproxy]
enabled = {socks}
address = {interfaces_address}
port = {socks_port}
inbound.length = 1
outbound.length = 1

[sam]
enabled = {sam}
address = {interfaces_address}
port = {sam_port}

[i2cp]
enabled = {i2cp}
address = {interfaces_address}
port = {i2cp_port}

[i2pcontrol]
enabled = {i2pcontrol}
address = {interfaces_address}
port = {i2pcontrol_port}
password = {password}

[upnp]
enabled = false

[nettime]
enabled = false

[reseed]
threshold = 0
urls = {nowhere}
yggurls = {nowhere}

[addressbook]
defaulturl = {nowhere}
subscriptions = {nowhere}

[exploratory]
inbound.length = 1
outbound.length = 1

[persist]
profiles = false
"""


@dataclass
class Router:
    """A router of the network; `number` counts from 0."""

    number: int
    directory: Path
    floodfill: bool
    password: str = field(repr=False)
    """Of its i2pcontrol."""
    interfaces: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(INTERFACES, True))
    """Which of them the next start turns on."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def network_address(self) -> str:
        """Where other routers find it: out of the benchmark range of RFC 2544, which i2pd takes for a public one."""
        return f"198.18.0.{FIRST_ADDRESS + self.number}"

    @property
    def address(self) -> str:
        """Where its interfaces are for those who use it: loopback, as on a machine of its own."""
        return f"127.0.1.{FIRST_ADDRESS + self.number}"

    @property
    def log(self) -> Path:
        """Where i2pd writes warnings and errors."""
        return self.directory / "i2pd.log"

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def crash(self) -> int | None:
        """The exit status of a process that has ended by itself; negative: the signal that ended it."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        """Of the live process, seen from here."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def has_certificate(self) -> bool:
        """Whether that of its i2pcontrol is whole: i2pd makes it at its first start, last of all, and takes seconds."""
        try:
            return (self.directory / CERTIFICATE_FILE).read_bytes().endswith(_CERTIFICATE_END)
        except FileNotFoundError:
            return False

    def start(self) -> None:
        """Start i2pd with what stands in its directory; writes the configuration."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = self.directory / "i2pd.conf"
        config.touch(mode=0o600)
        config.write_text(
            _CONFIG.format(
                net_id=NET_ID,
                address=self.network_address,
                interfaces_address=self.address,
                port=_I2NP_PORT + self.number,
                directory=self.directory,
                floodfill=str(self.floodfill).lower(),
                **{name: str(on).lower() for name, on in self.interfaces.items()},
                password=self.password,
                http_port=HTTP_PORT,
                proxy_port=PROXY_PORT,
                socks_port=SOCKS_PORT,
                sam_port=SAM_PORT,
                i2cp_port=I2CP_PORT,
                i2pcontrol_port=I2PCONTROL_PORT,
                nowhere=_NOWHERE,
            )
        )
        tunnels = self.directory / TUNNELS_FILE
        tunnels.touch()
        arguments = [f"--datadir={self.directory}", f"--conf={config}", f"--tunconf={tunnels}"]
        self._process = spawn(["i2pd", *arguments], self.directory / "output.log")

    def send(self, how: signal.Signals) -> None:
        """Send its process a signal, if it has one."""
        if self._process is not None and self.running:
            self._process.send_signal(how)

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float = STOP_SECONDS) -> None:
        """End the process: kindly, and by force when it takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # Identity -------------------------------------------------------------------------------------------------------

    def info(self) -> bytes | None:
        """Its RouterInfo as it publishes it; None while it has written none."""
        try:
            data = (self.directory / "router.info").read_bytes()
        except FileNotFoundError:
            return None
        return data if len(data) > _IDENTITY_KEYS_BYTES + 3 else None

    def learn(self, info: bytes) -> None:
        """Put another router's RouterInfo into its netDb, which it reads when it starts."""
        length = _IDENTITY_KEYS_BYTES + 3 + int.from_bytes(info[_IDENTITY_KEYS_BYTES + 1 : _IDENTITY_KEYS_BYTES + 3])
        name = base64.b64encode(hashlib.sha256(info[:length]).digest(), b"-~").decode()
        folder = self.directory / "netDb" / f"r{name[0]}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"routerInfo-{name}.dat").write_bytes(info)

    def complaints(self) -> list[str]:
        """The warnings and errors in its log."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "/warn" in line or "/error" in line or "/critical" in line]
