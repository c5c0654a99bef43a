"""One Java router: configuration and process. The router has a network namespace of its own, and one address there.

Seen with Java I2P 2.8.0: outgoing connections are not bound to an address, so each router needs a namespace. The
router refuses the tunnels of others for 90 s after each start.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from integration.testnet.router import CERTIFICATE_FILE, RouterProcess

PASSWORD: Final = "itoopie"
"""Java's own password of i2pcontrol. A new password would have to be set through i2pcontrol."""
TUNNELS_FILE: Final = "server-tunnels.config"
"""Name in a router's directory. The file has the server tunnels that the next start offers."""
_TEMPLATES: Final = Path(__file__).with_name("java")
_ROUTER_FILE: Final = "router.config"
_REWRITTEN: Final = ("clients.config", "i2ptunnel.config")
"""Files that the router splits up into `NAME.d/` and renames to `NAME.bak`."""
_PLUGIN: Final = "plugins/I2PControl"
_KEYSTORE: Final = "i2pcontrol.ks"
_ALIAS: Final = "I2PControl CA"
_STORE_PASSWORD: Final = "changeit"
_KEY_PASSWORD: Final = "nut'nfancy"
"""Names and passwords in the source of Java's i2pcontrol, the same everywhere."""
_JVM: Final = (
    *("-Xms32m", "-Xmx128m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-Djava.net.preferIPv4Stack=true", "-Djava.awt.headless=true", "-DI2P_DISABLE_OUTPUT_OVERRIDE=1"),
)
_TRANSPORTS: Final = (b"NTCP2", b"SSU2")
_COMPLAINTS: Final = ("WARN", "ERROR", "CRIT")


@dataclass
class JavaRouter(RouterProcess):
    """A Java router of the network; `program` is the folder of the build."""

    kind: ClassVar[str] = "java"
    stop_seconds: ClassVar[float] = 15.0
    where: tuple[str, ...] = ()
    """Prefix that runs a command in the router's namespace."""

    @property
    def address(self) -> str:
        """Address of the interfaces for programs: the router's only address, which this namespace reaches."""
        return self.network_address

    @property
    def log(self) -> Path:
        """Path of Java's first log of warnings and errors."""
        return self.directory / "logs" / "log-router-0.txt"

    def info(self) -> bytes | None:
        """Return the RouterInfo that the router publishes; None while the RouterInfo lacks an address.

        Java writes a first one without addresses, which i2pd would remove from the netDb.
        """
        data = super().info()
        return data if data is not None and all(each in data for each in _TRANSPORTS) else None

    def make_certificate(self, others: Path | None = None) -> None:
        """Make the key and the certificate of i2pcontrol, or copy these files from another router's directory.

        Java would make an RSA key of 4,096 bits, which takes up to two minutes.
        """
        store = self.directory / _PLUGIN / _KEYSTORE
        store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificate = self.directory / CERTIFICATE_FILE
        if others is not None:
            shutil.copy(others / _PLUGIN / _KEYSTORE, store)
            shutil.copy(others / CERTIFICATE_FILE, certificate)
            return
        common = ["-alias", _ALIAS, "-keystore", str(store), "-storetype", "JKS", "-storepass", _STORE_PASSWORD]
        kind = ["-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=localhost", "-validity", "3650"]
        subprocess.run(
            ["keytool", "-genkeypair", *kind, "-keypass", _KEY_PASSWORD, *common], check=True, capture_output=True
        )
        shown = subprocess.run(["keytool", "-exportcert", "-rfc", *common], check=True, capture_output=True)
        certificate.write_bytes(shown.stdout.replace(b"\r\n", b"\n"))

    def _command(self) -> list[str]:
        values = {"address": self.address, "port": self.i2np_port, "floodfill": str(self.floodfill).lower()}
        for name in (_ROUTER_FILE, *_REWRITTEN):
            path = self.directory / name
            if name == _ROUTER_FILE and path.exists():
                continue  # the router keeps its keys there
            path.with_name(f"{name}.bak").unlink(missing_ok=True)
            shutil.rmtree(path.with_name(f"{name}.d"), ignore_errors=True)
            path.write_text((_TEMPLATES / name).read_text(encoding="utf-8").format(**values))
        tunnels = self.directory / TUNNELS_FILE
        if tunnels.exists():
            with (self.directory / "i2ptunnel.config").open("a") as file:
                file.write(tunnels.read_text())
        control = self.directory / _PLUGIN / "I2PControl.conf"
        if not control.exists():  # the router adds to the file
            control.write_text(f"i2pcontrol.listen.address={self.address}\n")
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        (self.directory / "hosts.txt").touch()  # without the file, the router would set the directory up
        (self.directory / "router.ping").unlink(
            missing_ok=True
        )  # a killed router leaves the file, which forbids a start
        folders = [f"-Di2p.dir.base={self.program}", f"-Di2p.dir.config={self.directory}"]
        return [
            *self.where,
            *("env", f"--chdir={self.directory}"),
            *("java", *_JVM, *folders, f"-Djava.io.tmpdir={temporary}"),
            *("-cp", f"{self.program}/lib/*", "net.i2p.router.RouterLaunch"),
        ]

    def complaints(self) -> list[str]:
        """Return the warnings and errors in the logs."""
        lines = []
        for log in sorted(self.log.parent.glob("log-*.txt")):
            lines += [line for line in log.read_text(errors="replace").splitlines() if _is_complaint(line)]
        return lines


def _is_complaint(line: str) -> bool:
    return any(f" {level} " in line for level in _COMPLAINTS)


def server_tunnel(number: int, name: str, host: str, port: int, keys: str) -> str:
    """Give the lines of `TUNNELS_FILE` for a destination. The router brings the destination's streams to a TCP port.

    `number`: from 1 on, another one for each tunnel. `host`: an address of another namespace. `keys`: name of the file
    with the destination's keys, in the router's directory.
    """
    settings = {
        "name": name,
        "type": "server",
        "targetHost": host,
        "targetPort": str(port),
        "privKeyFile": keys,
        "startOnLoad": "true",
        "option.i2cp.leaseSetEncType": "4,0",
        **{f"option.{way}.length": "1" for way in ("inbound", "outbound")},
        **{f"option.{way}.lengthVariance": "0" for way in ("inbound", "outbound")},
    }
    return "".join(f"tunnel.{number}.{key}={value}\n" for key, value in settings.items())
