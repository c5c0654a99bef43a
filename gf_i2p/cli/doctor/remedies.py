"""Remedies for a router's interfaces, in the words of each router's own settings."""

import os
from typing import Final
from urllib.parse import urlsplit

from gf_i2p.cli.doctor.checks import Remedy
from gf_i2p.node.files.router_settings import host_and_port
from gf_i2p.transport.i2p.i2p_transport import ProxyMethod

LAB_VARIABLE: Final = "GF_I2P_LAB"
"""Set in the environment of commands inside a private I2P network (`make lab`)."""
_CONSOLE = "the router console (http://127.0.0.1:7657/"


def is_java_console(url: str) -> bool:
    """Whether a URL of i2pcontrol is that of a Java router's console, and not that of the plugin I2PControl."""
    return urlsplit(url).path.rstrip("/") == "/jsonrpc"


def i2pd_settings(address: str) -> dict[str, str]:
    """Return the settings of an interface in i2pd.conf. `address`: IP and port."""
    host, port = host_and_port(address)
    return {"enabled": "true", "address": host, "port": str(port)}


def _section(name: str, address: str) -> str:
    settings = ", ".join(f"{key} = {value}" for key, value in i2pd_settings(address).items())
    return f"in i2pd.conf, section [{name}]: {settings}; then restart i2pd"


def proxy_on(method: ProxyMethod, address: str) -> Remedy:
    """Remedy when no proxy answers."""
    _, port = host_and_port(address)
    section, tunnel = (
        ("socksproxy", "a SOCKS 4/4a/5 client") if method is ProxyMethod.SOCKS5 else ("httpproxy", "I2P HTTP Proxy")
    )
    return Remedy(
        _section(section, address),
        f"in {_CONSOLE}i2ptunnel/): start the tunnel '{tunnel}' on port {port}, and tick 'Auto Start'",
    )


def sam_on(address: str) -> Remedy:
    """Remedy when no SAM bridge answers."""
    _, port = host_and_port(address)
    return Remedy(
        _section("sam", address),
        f"in {_CONSOLE}configclients): start 'SAM application bridge' (port {port}), and tick 'Run at Startup?'; "
        "after a start of the router, SAM answers in two minutes",
    )


def i2cp_on(address: str) -> Remedy:
    """Remedy when I2CP does not answer."""
    _, port = host_and_port(address)
    return Remedy(
        _section("i2cp", address),
        f"in {_CONSOLE}configi2cp): enable the external I2CP interface without SSL (i2cp.disableInterface=false, "
        f"i2cp.SSL=false), port {port}; then restart the router",
    )


def i2pcontrol_on(url: str) -> Remedy:
    """Remedy when i2pcontrol does not answer."""
    return Remedy(
        f"in i2pd.conf, section [i2pcontrol]: enabled = true, password = …, address and port as in {url}; then restart "
        "i2pd",
        f"in {_CONSOLE}configwebapps): start 'jsonrpc', and set i2pcontrol = \"http://127.0.0.1:7657/jsonrpc/\" here; "
        "or install the plugin I2PControl (https, port 7650)",
    )


I2PCONTROL_PASSWORD = Remedy(
    "put the password of i2pd.conf, section [i2pcontrol], into secrets.toml: i2pcontrol_password = …",
    "put the password into secrets.toml: i2pcontrol_password = …; Java's own is itoopie until somebody changes it: on "
    "the page /jsonrpc/password of the router console, or on the page /password of the plugin I2PControl",
)


_CERTIFICATE_THEN = "; only if both are the same, set i2pcontrol_fingerprint in [router] to the fingerprint"


def certificate_compare(url: str) -> Remedy:
    """Remedy when nothing vouches for the certificate at this URL of i2pcontrol."""
    java = (
        "in Java's configuration directory: openssl x509 -noout -fingerprint -sha256 -in certificates/console/*.crt"
        if is_java_console(url)
        else "in the plugin's directory: keytool -list -v -keystore i2pcontrol.ks"
    )
    return Remedy(
        "compare the fingerprint with the output of this command, in i2pd's data directory: openssl x509 -noout "
        f"-fingerprint -sha256 -in i2pcontrol.crt.pem{_CERTIFICATE_THEN}",
        f"compare the fingerprint with the output of this command, {java}{_CERTIFICATE_THEN}",
    )


def router_start() -> Remedy:
    """Remedy when no interface of the router answers."""
    if os.environ.get(LAB_VARIABLE):  # an i2pd of the system would join the real I2P
        return Remedy.either(
            "give [router] the addresses of one of the lab's routers: the command `routers` shows them"
        )
    return Remedy(
        "start the router: systemctl start i2pd; if the router runs elsewhere, correct the addresses in [router]",
        "start the router: i2prouter start; if the router runs elsewhere, correct the addresses in [router]",
    )


CLOCK = Remedy.either("Set this machine's clock (timedatectl set-ntp true), then restart the router.")


def _login(name: str, *, is_set: bool, where: str, off: str) -> Remedy:
    settings = f'{name}_user = "…" in gf-i2p.toml, [router], and {name}_password = "…" in secrets.toml'
    verb = "correct" if is_set else "set"
    return Remedy(
        f"i2pd asks for no login here: check that the port is i2pd's own; then remove {name}_user and {name}_password",
        f"{verb} {settings}: the login {where}; or {off}",
    )


def proxy_login(method: ProxyMethod, *, is_set: bool) -> Remedy:
    """Remedy when the proxy wants a login, or refuses the login. `is_set`: whether a login is configured."""
    tunnel = "a SOCKS 4/4a/5 client" if method is ProxyMethod.SOCKS5 else "I2P HTTP Proxy"
    return _login(
        "proxy",
        is_set=is_set,
        where=f"of 'Local Authorization' in {_CONSOLE}i2ptunnel/), '{tunnel}'",
        off="turn 'Local Authorization' off there",
    )


def sam_login(*, is_set: bool) -> Remedy:
    """Remedy when SAM wants a login, or refuses the login. `is_set`: whether a login is configured."""
    return _login(
        "sam",
        is_set=is_set,
        where="that SAM's command AUTH ADD USER=… PASSWORD=… has made (sam.config: sam.auth=true)",
        off="turn it off by SAM's command AUTH DISABLE",
    )


def i2cp_login(*, is_set: bool) -> Remedy:
    """Remedy when I2CP wants a login, or refuses the login. `is_set`: whether a login is configured."""
    return _login(
        "i2cp",
        is_set=is_set,
        where=f"of 'Authorization' in {_CONSOLE}configi2cp)",
        off="turn 'Authorization' off there (i2cp.auth=false)",
    )


def i2cp_certificate(fingerprint: str) -> Remedy:
    """Remedy when I2CP speaks TLS with a certificate that is not the configured one."""
    return Remedy(
        "i2pd's I2CP has no TLS: check that the port is i2pd's own, and remove i2cp_fingerprint and i2cp_tls",
        "compare the fingerprint with the output of this command, in Java's configuration directory: openssl x509 "
        "-noout -fingerprint -sha256 -in certificates/i2cp/i2cp.local.crt; only if both are the same, set "
        f'in gf-i2p.toml, [router]: i2cp_fingerprint = "{fingerprint}"',
    )


def logins(fault: str) -> Remedy:
    """Remedy for a user without a password, or a password without a user. `fault`: the error's sentence."""
    key = fault.rpartition(": is missing")[0].rpartition(": ")[2].removeprefix("router.")
    file = "gf-i2p.toml, [router]" if key.endswith("_user") else "secrets.toml"
    return Remedy.either(f'in {file}, set {key} = "…"; or remove the other one of the two')


def leaf_up(leaf: str) -> Remedy:
    """Remedy when the leaf has no lease set."""
    return Remedy(
        f"run the service's tunnel: a section with type = server in tunnels.conf whose keys are those of {leaf}; see "
        "i2pd's console, 'I2P tunnels'",
        f"in {_CONSOLE}i2ptunnel/): start the hidden service whose address is {leaf}",
    )


ADDRESS_UNKNOWN = Remedy(
    'wait up to ten minutes, or restart the node with more tunnels: [router.session] "inbound.quantity" = "5"',
    "wait some minutes; the console must show tunnels and 'Network: OK' or 'Firewalled'",
)
FEW_TUNNELS = Remedy(
    '[router.session] "inbound.quantity" = "5", or leave that option out; then restart the node',
    "with a Java router nothing has to be done: it publishes with any number",
)
ALL_ADDRESSES = Remedy(
    "in i2pd.conf, in the section of each interface: address = 127.0.0.1; then restart i2pd",
    f"in {_CONSOLE}i2ptunnel/), /configclients and /configi2cp: let each interface be reachable by 127.0.0.1 only",
)
DELEGATED_ON_I2PD = Remedy(
    "make the key file with gf-i2p keys delegate, where the master's own key is: that file has the session config "
    "that i2pd needs; a router's own file of delegated keys has none",
    "with a Java router nothing has to be done: it takes delegated keys",
)
