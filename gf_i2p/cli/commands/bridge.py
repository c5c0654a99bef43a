"""`gf-i2p bridge serve`: serves the router beside a node to programs in any language, until SIGTERM or Ctrl-C."""

import argparse
import asyncio
import json
import ssl
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bridges.serving.bridge_server import BridgeServer
from gf_i2p.cli.shared.command import Commands, Subcommand, path_argument
from gf_i2p.cli.shared.errors import CommandError, Exit, result_fields
from gf_i2p.cli.shared.logs import configure
from gf_i2p.cli.shared.long_running import stop_signal
from gf_i2p.cli.shared.node_beside import NodeBeside
from gf_i2p.cli.shared.router_setup import master_hash, router_bridge
from gf_i2p.node.files.checked_read import ConfigError, check_not_root
from gf_i2p.node.files.config import MIN_PASSWORD, Config, Secrets, check_private
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from gf_i2p.node.files.router_settings import BridgeTable, RouterTable, host_and_port
from gf_i2p.node.publish.file_signer import FileSigner
from gf_i2p.storage.private_files import write_private
from gf_i2p.transport.errors import error_text
from gf_i2p.transport.event_loop import loop_factory
from gf_i2p.transport.tls.certificates import fingerprint_of_file, make_certificate


def serve(options: argparse.Namespace) -> Exit:
    """Serve the router of this directory's node; return after a stop. Raises `ConfigError` and `CommandError`."""
    directory: Path = options.directory
    config, secrets = Config.load(directory), Secrets.load(directory)
    configure(config.logging.level, config.logging.format)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(directory, config, secrets, as_json=options.json))


async def _serve(directory: Path, config: Config, secrets: Secrets, *, as_json: bool) -> Exit:
    bridge = router_bridge(config, secrets)
    if bridge is None or config.router is None:
        raise ConfigError(f"{directory / CONFIG_FILE}: router: is missing, and this table names the router to serve")
    node = NodeBeside(directory)
    # No pings and no second look for a missing leaf: these take long, and the call of a program has a time-out. The
    # program may call again.
    leaves = config.publish.all_leaves
    counted = [each.leaf for each in leaves if each.leaf is not None and each.leaf_forward is not None]
    bridge = replace(
        bridge,
        master=master_hash(directory, config),
        liveness={},
        again_seconds=None,
        connections={leaf: partial(node.leaf_connections, leaf) for leaf in counted},
    )
    _check_no_circle(config.router, config.bridge)
    if secrets.bridge_password is None:
        raise ConfigError(
            f"{directory / SECRETS_FILE}: bridge_password: is missing. Choose one of at least {MIN_PASSWORD} "
            "characters, different from the router's password. Callers of this endpoint log in with this password"
        )
    server = BridgeServer(
        bridge,
        bridge.control,
        secrets.bridge_password.get_secret_value(),
        None if config.bridge.plain else _tls(directory, config.bridge),
        allow_long_lists=config.router.i2pcontrol_few_tunnels,
        signer=_signer(directory, config, config.router, node),
    )
    host, port = host_and_port(config.bridge.listen)
    stopped, _ = stop_signal()
    try:
        try:
            await server.start(host, port)
        except OSError as error:
            raise CommandError(
                f"cannot listen on {config.bridge.listen} ({error_text(error)}): stop the program that listens there, "
                "or set bridge.listen to another address"
            ) from error
        _announce(directory, config.bridge, as_json=as_json)
        await stopped
    finally:
        await server.stop()
        await bridge.close()
    return Exit.OK


def _signer(directory: Path, config: Config, router: RouterTable, node: NodeBeside) -> FileSigner | None:
    """Return the signer of plain entries; None when the operator has not allowed this endpoint to sign entries."""
    if not config.bridge.sign_entries:
        return None
    return FileSigner(directory / config.publish.keys, router=router.kind, check_node=node.check_publishes_nothing)


def _announce(directory: Path, table: BridgeTable, *, as_json: bool) -> None:
    url = f"{'http' if table.plain else 'https'}://{table.listen}/"
    fingerprint = None if table.plain else fingerprint_of_file(directory / table.certificate)
    if as_json:
        print(json.dumps({**result_fields(None), "url": url, "fingerprint": fingerprint}), flush=True)
    else:
        print(f"serving {url}" + ("" if fingerprint is None else f", certificate {fingerprint}"), flush=True)


def _check_no_circle(router: RouterTable, table: BridgeTable) -> None:
    """Raise `ConfigError` when `router.i2pcontrol` is the address of this endpoint: the endpoint would ask itself."""
    if router.i2pcontrol is None:
        return
    url, (host, port) = urlsplit(router.i2pcontrol), host_and_port(table.listen)
    try:
        address = ip_address(url.hostname or "")
        same = address == ip_address(host) or (address.is_loopback and ip_address(host).is_unspecified)
    except ValueError:
        same = url.hostname == "localhost"
    if same and url.port == port:
        raise ConfigError(
            f"router.i2pcontrol: {router.i2pcontrol} is the address of this endpoint: set the router's own address "
            "there, or set bridge.listen to another address"
        )


def _tls(directory: Path, table: BridgeTable) -> ssl.SSLContext:
    certificate, key = directory / table.certificate, directory / table.key
    if not certificate.exists() and not key.exists():
        # Strangers see this certificate, so the certificate shows nothing but the address that they have dialled.
        check_not_root(directory)
        host = host_and_port(table.listen)[0]
        hosts = [host] if not ip_address(host).is_loopback else [host, "localhost"]
        certificate_pem, key_pem = make_certificate("i2pcontrol", hosts=hosts)
        write_private(key, key_pem)
        certificate.write_bytes(certificate_pem)
    for file, partner in ((certificate, key), (key, certificate)):
        if not file.exists():
            raise ConfigError(
                f"{file} is missing, and {partner} is there: restore {file.name}, or remove {partner.name} for a new "
                "pair"
            )
    check_private(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password function OpenSSL would ask for the password at the terminal. A service has no terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{certificate} and {key} are not a PEM certificate with its unencrypted key: restore the pair, or remove "
            "both files for a new pair"
        ) from error
    return context


COMMANDS: Final[Commands] = {
    "serve": Subcommand(
        "serve the router of a node's directory as an i2pcontrol endpoint, in the foreground",
        path_argument("directory", "DIR", "the directory of a node"),
        serve,
    ),
}
