"""The fewest lines in a router's own files that give a node its interfaces.

A router has most of these interfaces without any line. So a line stands here only where the node's settings differ from
the router's own.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from gf_i2p.cli.doctor.remedies import i2pd_settings, is_java_console
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
_JAVA: Final = {
    "proxy": ("127.0.0.1", 4444),
    "sam": ("127.0.0.1", 7656),
    "i2cp": ("127.0.0.1", 7654),
    "plugin": ("127.0.0.1", 7650),
}
"""The addresses that Java I2P 2.7 has by itself."""
_CONSOLE: Final = {("127.0.0.1", 7657), ("::1", 7657)}
"""The addresses at which the console of Java I2P 2.7 listens by itself, without TLS."""
_OWN: Final = "…"
"""Stands for a value that only the operator knows."""
I2PD_FILE: Final = "i2pd.conf"
JAVA_ROUTER: Final = "router.config"
JAVA_SAM: Final = "clients.config.d/*-net.i2p.sam.SAMBridge-clients.config"
JAVA_PROXY: Final = "i2ptunnel.config.d/*-I2P HTTP Proxy-i2ptunnel.config"
JAVA_SOCKS: Final = "i2ptunnel.config.d/90-SOCKS-i2ptunnel.config"
"""A file for a new tunnel: Java I2P has no SOCKS proxy by itself. The router reads each `*.config` there."""
JAVA_CONSOLE: Final = "clients.config.d/*-net.i2p.router.web.RouterConsoleRunner-clients.config"
JAVA_WEBAPPS: Final = "webapps.config"
JAVA_PLUGIN: Final = "plugins/I2PControl/I2PControl.conf"
JAVA_NOTES: Final = (
    "The files are in the router's directory: ~/.i2p, or /var/lib/i2p/i2p-config of Debian's package i2p.",
    "Put each line at the end of its file: of two lines for one setting, Java takes the last.",
    "SAM answers two minutes after each start of the router.",
)
"""True for every Java I2P from 0.9.42 on, whose first start splits clients.config and i2ptunnel.config."""
_PLUGIN_NOTE: Final = (
    "i2pcontrol without the path /jsonrpc/ is the plugin I2PControl: install it on the console's page /configplugins."
)


def i2pd_lines(router: RouterTable) -> Mapping[str, list[str]]:
    """Return the lines for i2pd, by file. No file: i2pd needs no line."""
    proxy = "socksproxy" if ProxyMethod(router.way) is ProxyMethod.SOCKS5 else "httpproxy"
    addresses = {proxy: router.proxy, "sam": router.sam, "i2cp": router.i2cp}
    wanted = {section: i2pd_settings(address) for section, address in addresses.items()}
    if router.i2pcontrol is not None:
        host, port = _place(router.i2pcontrol)
        wanted["i2pcontrol"] = {"enabled": "true", "address": host, "port": str(port)}
    lines: list[str] = []
    for section, settings in wanted.items():
        changed = [
            f"{key} = {value}"
            for (key, value), usual in zip(settings.items(), _I2PD[section], strict=True)
            if value != usual
        ]
        if section == "i2pcontrol":
            changed.append(f"password = {_OWN}")
        lines += [f"[{section}]", *changed] if changed else []
    return {I2PD_FILE: lines} if lines else {}


def java_lines(router: RouterTable) -> Mapping[str, list[str]]:
    """Return the lines for a Java router, by file. The paths are relative to the router's configuration directory."""
    i2cp = _changed(host_and_port(router.i2cp), _JAVA["i2cp"], "i2cp.hostname", "i2cp.port")
    files = {
        JAVA_ROUTER: [*i2cp, *(["i2cp.SSL=true"] if router.has_i2cp_tls else [])],
        JAVA_SAM: ["clientApp.0.startOnLoad=true"],
    }
    sam = host_and_port(router.sam)
    if sam != _JAVA["sam"]:  # SAM reaches I2CP inside the router's process, whatever I2CP's address
        files[JAVA_SAM].append("clientApp.0.args=sam.keys {} {}".format(*sam))
    files |= _java_proxy(router)
    if router.i2pcontrol is not None:
        files |= _java_i2pcontrol(router.i2pcontrol)
    return {file: lines for file, lines in files.items() if lines}


def java_notes(router: RouterTable) -> list[str]:
    """Return what an operator of a Java router has to know besides the lines."""
    is_plugin = router.i2pcontrol is not None and not is_java_console(router.i2pcontrol)
    return [*JAVA_NOTES, *([_PLUGIN_NOTE] if is_plugin else [])]


def _java_proxy(router: RouterTable) -> dict[str, list[str]]:
    host, port = place = host_and_port(router.proxy)
    if ProxyMethod(router.way) is not ProxyMethod.SOCKS5:
        return {JAVA_PROXY: _changed(place, _JAVA["proxy"], "interface", "listenPort")}
    # Shared with the HTTP proxy: otherwise the router builds more tunnels, and SOCKS waits for the first of them.
    tunnel = ["name=SOCKS", "type=sockstunnel", "sharedClient=true"]
    return {JAVA_SOCKS: [*tunnel, f"interface={host}", f"listenPort={port}"]}


def _java_i2pcontrol(url: str) -> dict[str, list[str]]:
    host, port = place = _place(url)
    if not is_java_console(url):
        keys = ("i2pcontrol.listen.address", "i2pcontrol.listen.port")
        return {JAVA_PLUGIN: _changed(place, _JAVA["plugin"], *keys)}
    files = {JAVA_WEBAPPS: ["webapps.jsonrpc.startOnLoad=true"]}
    if urlsplit(url).scheme == "https":
        files[JAVA_CONSOLE] = [f"clientApp.0.args=7657 ::1,127.0.0.1 -s {port} {host} ./webapps/"]
    elif place not in _CONSOLE:
        files[JAVA_CONSOLE] = [f"clientApp.0.args={port} {host} ./webapps/"]
    return files


def _place(url: str) -> tuple[str, int]:
    """Return the address and the port at which the router must listen for calls to the URL of i2pcontrol."""
    place = urlsplit(url)
    host, port = place.hostname or "", place.port or (443 if place.scheme == "https" else 80)
    if host == "localhost":
        return "127.0.0.1", port
    try:
        return str(ip_address(host)), port
    except ValueError:  # a name, behind which the operator knows the address
        return _OWN, port


def _changed(place: tuple[str, int], usual: tuple[str, int], host_key: str, port_key: str) -> list[str]:
    """Return the lines for the address and the port where these are not as usual."""
    found = zip((host_key, port_key), place, usual, strict=True)
    return [f"{key}={value}" for key, value, by_itself in found if value != by_itself]
