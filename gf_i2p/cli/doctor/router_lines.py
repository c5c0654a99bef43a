"""The fewest lines in a router's own files that give a node its interfaces.

A router has most of these interfaces without any line. So a line stands here only where the node's settings differ from
the router's own.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from gf_i2p.cli.doctor.remedies import i2pd_settings
from gf_i2p.node.files.router_settings import RouterTable, host_and_port
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod

_I2PD: Final = {
    "httpproxy": ("true", "127.0.0.1", "4444"),
    "socksproxy": ("true", "127.0.0.1", "4447"),
    "sam": ("true", "127.0.0.1", "7656"),
    "i2cp": ("false", "127.0.0.1", "7654"),
    "i2pcontrol": ("false", "127.0.0.1", "7650"),
}
"""By section: the values of enabled, address and port that i2pd 2.45 to 2.58 has by itself."""
_JAVA_I2CP: Final = "127.0.0.1:7654"
_JAVA_SAM: Final = "127.0.0.1:7656"
I2PD_FILE: Final = "i2pd.conf"
JAVA_ROUTER: Final = "router.config"
JAVA_SAM: Final = "clients.config.d/*-net.i2p.sam.SAMBridge-clients.config"


def i2pd_lines(router: RouterTable) -> Mapping[str, list[str]]:
    """Return the lines for i2pd, by file. No file: i2pd needs no line."""
    proxy = "socksproxy" if ProxyMethod(router.way) is ProxyMethod.SOCKS5 else "httpproxy"
    wanted = {proxy: router.proxy, "sam": router.sam, "i2cp": router.i2cp}
    if router.i2pcontrol is not None:
        wanted["i2pcontrol"] = urlsplit(router.i2pcontrol).netloc
    lines: list[str] = []
    for section, address in wanted.items():
        settings = i2pd_settings(address)
        changed = [
            f"{key} = {value}"
            for (key, value), usual in zip(settings.items(), _I2PD[section], strict=True)
            if value != usual
        ]
        if section == "i2pcontrol":
            changed.append("password = …")
        lines += [f"[{section}]", *changed] if changed else []
    return {I2PD_FILE: lines} if lines else {}


def java_lines(router: RouterTable) -> Mapping[str, list[str]]:
    """Return the lines for a Java router, by file."""
    (i2cp_host, i2cp_port), (sam_host, sam_port) = host_and_port(router.i2cp), host_and_port(router.sam)
    files = {}
    if router.i2cp != _JAVA_I2CP:
        files[JAVA_ROUTER] = [f"i2cp.hostname={i2cp_host}", f"i2cp.port={i2cp_port}"]
    files[JAVA_SAM] = ["clientApp.0.startOnLoad=true"]
    if router.sam != _JAVA_SAM or router.i2cp != _JAVA_I2CP:
        to_router = f"i2cp.tcp.host={i2cp_host} i2cp.tcp.port={i2cp_port}"
        files[JAVA_SAM].append(f"clientApp.0.args=sam.keys {sam_host} {sam_port} {to_router}")
    return files
