"""A real router with the lines of `gf-i2p router-config`, and no others, passes `--check`: an i2pd, and a Java I2P."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gf_i2p.cli.doctor.router_lines import (
    JAVA_CONSOLE,
    JAVA_PROXY,
    JAVA_ROUTER,
    JAVA_SAM,
    JAVA_SOCKS,
    JAVA_WEBAPPS,
)
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from integration.packages.lone_router import I2PD, JAVA, JavaDefaults, running, wait_for_failures
from integration.testnet.java_build import JAVA_VARIABLE
from integration.testnet.namespace import MissingError, check_programs

_INSTALLED = ("lib/router.jar", "lib/i2p.jar", "clients.config", "i2ptunnel.config", "webapps/jsonrpc.war")
MOVED = {
    'proxy = "127.0.0.1:4444"': 'proxy = "127.0.0.2:4454"',
    'sam = "127.0.0.1:7656"': 'sam = "127.0.0.1:7756"',
    'i2cp = "127.0.0.1:7654"': 'i2cp = "127.0.0.1:7754"',
    '# i2pcontrol = "https://127.0.0.1:7650/"': 'i2pcontrol = "http://127.0.0.1:7757/jsonrpc/"',
}
SOCKS = {
    'proxy = "127.0.0.1:4444"': 'proxy = "127.0.0.1:4447"',
    'way = "get"': 'way = "socks5"',
    '# i2pcontrol = "https://127.0.0.1:7650/"': 'i2pcontrol = "http://127.0.0.1:7657/jsonrpc/"',
}


@pytest.mark.timeout(300)
def test_a_real_i2pd_needs_these_lines(tmp_path: Path) -> None:
    skip_without_programs()
    lines = router_config("--i2pd")
    for given, wrong in (("", {"I2CP"}), (lines, set())):
        (tmp_path / "i2pd.conf").write_text(given)
        with running(I2PD, tmp_path) as inside:
            wait_for_failures(inside, wrong, "--i2pd")


@pytest.mark.slow  # a dozen starts of a Java router
@pytest.mark.timeout(1500)
def test_a_real_java_router_needs_each_line(tmp_path: Path) -> None:
    defaults = JavaDefaults(tmp_path / "router", java_installation(tmp_path / "router"))
    at = {
        JAVA_SAM: "SAM",
        JAVA_CONSOLE: "i2pcontrol",
        JAVA_PROXY: "proxy",
        JAVA_SOCKS: "proxy",
        JAVA_ROUTER: "I2CP",
        JAVA_WEBAPPS: "i2pcontrol",
    }
    for name, settings in (("socks", SOCKS), ("moved", MOVED)):
        node = node_directory(tmp_path / name, settings)
        files = json.loads(router_config("--java", "--json", str(node)))["files"]
        for left_out in (None, *files):
            defaults.give({file: lines for file, lines in files.items() if file != left_out})
            with running(JAVA, *defaults.words) as inside:
                wait_for_failures(inside, set() if left_out is None else {at[left_out]}, "--java", str(node))


def router_config(*words: str) -> str:
    command = [sys.executable, "-m", "gf_i2p.cli.main", "router-config", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def skip_without_programs() -> None:
    try:
        check_programs()
    except MissingError as error:
        pytest.skip(str(error))


def java_installation(directory: Path) -> Path:
    """Return the folder of an installed Java I2P, and make the router's own directory; skip the test without one."""
    skip_without_programs()
    name = os.environ.get(JAVA_VARIABLE)
    if not name:
        pytest.skip(f"set {JAVA_VARIABLE} to the folder of an installed Java I2P (CONTRIBUTING.md, Java routers)")
    installation = Path(name).resolve()
    missing = [file for file in _INSTALLED if not (installation / file).exists()]
    if missing:
        pytest.skip(f"{installation} is no whole installation of Java I2P: {', '.join(missing)} is missing")
    if shutil.which("java") is None:
        pytest.skip("java not found. To have it: sudo apt-get install default-jre-headless")
    directory.mkdir()
    return installation


def node_directory(directory: Path, settings: dict[str, str]) -> Path:
    """Make the directory of a node inside I2P, with these settings in place of the usual ones."""
    make_farm(directory, dict.fromkeys((1, 2, 3)), cluster="farm", profile="i2p", clients=[])
    node = directory / "server-1"
    java = {'# i2pcontrol_password = "itoopie"': 'i2pcontrol_password = "itoopie"'}
    publish = {'mode = "off"': 'mode = "dry-run"'}
    for name, changes in ((CONFIG_FILE, settings | publish), (SECRETS_FILE, java)):
        text = (node / name).read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (node / name).write_text(text)
    return node
