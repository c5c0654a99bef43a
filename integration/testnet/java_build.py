"""The programs of a network with Java routers: a build of Java I2P, and an i2pd that Java takes for a peer.

No registry has Java I2P. CONTRIBUTING.md says which build the scenarios were run with.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from integration.testnet.namespace import MissingError

JAVA_VARIABLE: Final = "GF_I2P_JAVA"
"""Names the folder of a built Java I2P: the router's `i2p.dir.base`, with all classes in `lib/*.jar`."""
I2PD_VARIABLE: Final = "GF_I2P_I2PD"
"""Names an i2pd for networks with Java routers."""
NO_JAVA: Final = f"no Java router here: set {JAVA_VARIABLE} and {I2PD_VARIABLE} (CONTRIBUTING.md, Java routers)"
"""Why a scenario that needs Java routers is skipped."""
NEEDED: Final = {
    **dict.fromkeys(("unshare", "setpriv", "nsenter"), "util-linux"),
    "ip": "iproute2",
    **dict.fromkeys(("java", "keytool"), "default-jre-headless"),
}
"""Programs of such a network, and the Debian packages with these programs."""
_JARS: Final = ("i2p.jar", "router.jar", "streaming.jar", "i2ptunnel.jar", "sam.jar", "i2pcontrol.jar")
_OLDEST: Final = (0, 9, 59)
"""Java I2P 2.8.0 uses no peer that announces an older version."""
_ANNOUNCED: Final = re.compile(r"^i2pd version \S+ \((\d+)\.(\d+)\.(\d+)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class JavaBuild:
    """A Java I2P, and the i2pd beside."""

    directory: Path
    i2pd: str

    @classmethod
    def find(cls) -> Self:
        """Return the programs that the environment names. Raises `MissingError`."""
        name = os.environ.get(JAVA_VARIABLE)
        if not name:
            raise MissingError(
                f"a network with Java routers needs a built Java I2P: set {JAVA_VARIABLE} to the folder that has "
                "lib/*.jar (CONTRIBUTING.md, Java routers)"
            )
        directory = Path(name).resolve()
        missing = [jar for jar in _JARS if not (directory / "lib" / jar).exists()]
        if missing:
            raise MissingError(f"{directory}/lib has no {', '.join(missing)}: set {JAVA_VARIABLE} to a whole build")
        return cls(directory, _i2pd())


def wants_java() -> bool:
    """Whether the environment asks for Java routers."""
    return bool(os.environ.get(JAVA_VARIABLE))


def _i2pd() -> str:
    name = os.environ.get(I2PD_VARIABLE) or "i2pd"
    advice = f"set {I2PD_VARIABLE} to an i2pd from 2.50 on, built from its public source"
    try:
        said = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError(f"{name} does not run ({error}): {advice}") from error
    found = _ANNOUNCED.search(said)
    if found is None or tuple(map(int, found.groups())) < _OLDEST:
        announced = "no version that is known" if found is None else ".".join(found.groups())
        oldest = ".".join(map(str, _OLDEST))
        raise MissingError(f"{name} announces {announced}, and Java uses no peer before {oldest}: {advice}")
    return name
