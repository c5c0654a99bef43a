import random
import re
import stat
import subprocess
from pathlib import Path

import pytest

from gf_i2p.netdb.keys import DestinationKeys
from gf_i2p.node.config import Config, Secrets
from gf_i2p.node.layout import CONFIG_FILE, MASTER_FILE
from gf_i2p.transport.certificates import fingerprint_of_file
from gf_i2p.wire.endpoint import Endpoint
from integration.testnet import containers
from integration.testnet.containers import PASSWORD_FILE, Pair, make
from integration.testnet.router import CERTIFICATE_FILE, CERTIFICATE_KEY_FILE, TEMPLATE, TUNNELS_FILE, Router

DOCKER = Path(__file__).parents[2] / "docker"
PAIRS = [Pair.parse(f"{n}=198.19.0.{8 * n + 3},198.19.0.{8 * n + 2}") for n in (1, 2, 3)]
SERVICE = Endpoint.parse("tcp://198.19.0.37:8080")


@pytest.fixture
def made(tmp_path: Path) -> Path:
    for pair in PAIRS:
        (tmp_path / f"node-{pair.id}").mkdir()
        (tmp_path / f"router-{pair.id}").mkdir()
    return tmp_path


def files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def run(directory: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    servers = [f"--server={pair.id}={pair.node},{pair.router}" for pair in PAIRS]
    monkeypatch.setattr("sys.argv", ["containers", *servers, f"--service={SERVICE}", str(directory)])
    return containers.main()


def test_each_node_finds_its_router_and_each_router_its_leaf(made: Path) -> None:
    make(made, PAIRS, SERVICE)
    masters = set()
    for pair in PAIRS:
        node, router = made / f"node-{pair.id}", made / f"router-{pair.id}"
        config, secrets = Config.load(node), Secrets.load(node)
        assert (config.node.id, config.node.listen) == (pair.id, f"tcp://{pair.node}:4150")
        assert config.router is not None
        assert config.router.beyond_loopback
        assert config.router.sam == f"{pair.router}:7656"
        assert config.router.i2cp == f"{pair.router}:7654"
        assert config.router.proxy == f"{pair.router}:4444"
        assert config.router.i2pcontrol == f"https://{pair.router}:7650/"
        assert config.router.i2pcontrol_fingerprint == fingerprint_of_file(router / CERTIFICATE_FILE)
        assert secrets.i2pcontrol_password is not None
        assert secrets.i2pcontrol_password.get_secret_value() == (router / PASSWORD_FILE).read_text()
        leaf = DestinationKeys.parse((router / "leaf.dat").read_bytes())
        assert config.publish.mode == "meta"
        assert config.publish.leaf == leaf.destination.b32
        tunnel = (router / TUNNELS_FILE).read_text()
        assert f"host = {SERVICE.host}\nport = {SERVICE.port}\nkeys = leaf.dat\n" in tunnel
        masters.add((node / MASTER_FILE).read_bytes())
    assert len(masters) == 1


def test_secrets_are_read_by_their_owner_only(made: Path) -> None:
    make(made, PAIRS, SERVICE)
    public = {CONFIG_FILE, CERTIFICATE_FILE, TUNNELS_FILE}
    open_to_others = {path.name for path in files(made) if stat.S_IMODE(path.stat().st_mode) & 0o077}
    assert open_to_others <= public
    assert (made / "router-1" / CERTIFICATE_KEY_FILE).exists()


def test_what_is_there_stays(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(made, monkeypatch) == 0
    before = files(made)
    assert run(made, monkeypatch) == 0
    assert files(made) == before


def test_the_others_stay_when_one_is_gone(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(made, monkeypatch) == 0
    for path in (made / "node-2").iterdir():
        path.unlink()
    before = files(made)
    assert run(made, monkeypatch) == 0
    assert files(made) == before
    assert "nothing is left of server 2" in capsys.readouterr().err


def test_it_begins_anew_after_it_was_stopped_halfway(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []

    def copy(source: Path, target: Path) -> None:
        if source.name == CONFIG_FILE:
            raise KeyboardInterrupt
        copied.append(source.name)
        (target / source.name).write_bytes(source.read_bytes())

    with monkeypatch.context() as patched:
        patched.setattr("shutil.copy2", copy)
        with pytest.raises(KeyboardInterrupt):
            run(made, monkeypatch)
    assert copied
    assert run(made, monkeypatch) == 0
    make_sure = [Config.load(made / f"node-{pair.id}").node.id for pair in PAIRS]
    assert make_sure == [1, 2, 3]


def test_the_routers_program_knows_all_of_the_template() -> None:
    program = (DOCKER / "router.sh").read_text()
    names = set(re.findall(r"\{(\w+)\}", TEMPLATE))
    assert names
    assert {name for name in names if f"'{{{name}}}'" not in program} == set()


def test_the_routers_program_names_a_routerinfo_as_i2pd_does(tmp_path: Path) -> None:
    info = tmp_path / "router.info"
    info.write_bytes(random.Random(7).randbytes(385) + bytes([0, 4]) + bytes(range(256)))
    router = Router(0, tmp_path / "router", floodfill=False, password="")
    router.learn(info.read_bytes())
    (learnt,) = (tmp_path / "router").rglob("*.dat")
    said = subprocess.run([DOCKER / "router.sh", "name", info], capture_output=True, text=True, check=True, timeout=30)
    assert learnt.name == f"routerInfo-{said.stdout.strip()}.dat"


def test_a_router_that_misses_the_first_signal_begins_nevertheless(tmp_path: Path) -> None:
    """i2pd forgets a SIGTERM that comes before its main loop: the router would never introduce itself."""
    program = (DOCKER / "router.sh").read_text()
    for place in ("/var/lib/router", "/var/lib/introductions"):
        (tmp_path / place.rpartition("/")[2]).mkdir()
        program = program.replace(place, str(tmp_path / place.rpartition("/")[2]))
    template = tmp_path / "i2pd.conf"
    template.write_text("host = {address}\n")
    (tmp_path / "router.sh").write_text(program.replace("/usr/share/router/i2pd.conf", str(template)))
    info = tmp_path / "router" / "router.info"
    i2pd = tmp_path / "i2pd"
    i2pd.write_text(
        f"""#!/bin/bash
[[ -e {info} ]] && {{ echo begins; exit; }}
heard=0
trap '((heard++)) && exit' TERM
head -c 800 /dev/zero > {info}
for ((i = 0; i < 600; i++)); do sleep 0.05; done
"""
    )
    i2pd.chmod(0o755)
    said = subprocess.run(
        ["bash", tmp_path / "router.sh", "run"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "ADDRESS": "198.18.0.10", "ROUTERS": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert said.stdout == "begins\n"
    assert (tmp_path / "introductions" / "198.18.0.10.info").exists()
