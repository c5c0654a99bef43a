import contextlib
import itertools
import random
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.file_names import CONFIG_FILE, MASTER_FILE
from gf_i2p.transport.tls.certificates import fingerprint_of_file
from gf_i2p.wire.endpoint import Endpoint
from integration.testnet import containers
from integration.testnet.containers import PASSWORD_FILE, Pair, make
from integration.testnet.router import CERTIFICATE_FILE, CERTIFICATE_KEY_FILE, TEMPLATE, TUNNELS_FILE, RouterProcess
from tests.tier import is_everything

DOCKER = Path(__file__).parents[3] / "docker"
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


@pytest.mark.parametrize(("gone", "named"), [("node-2", "of server 2"), ("router-2", "of the router beside server 2")])
def test_the_others_stay_when_one_is_gone(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gone: str, named: str
) -> None:
    assert run(made, monkeypatch) == 0
    for path in (made / gone).iterdir():
        path.unlink()
    before = files(made)
    assert run(made, monkeypatch) == 0
    assert files(made) == before
    assert f"Nothing is left {named}." in capsys.readouterr().err


def stopped_after(count: int) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Let the given functions stop the program after `count` calls in all."""
    calls = itertools.count()

    def stopping(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if next(calls) >= count:
                raise KeyboardInterrupt
            return real(*arguments)

        return call

    return stopping


def test_a_start_that_was_stopped_anywhere_is_made_good_by_the_next(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is stopped at each copied file in turn: the next start makes one whole farm.

    `make test` stops at one file of five.
    """
    for count in itertools.count(0 if is_everything() else random.randrange(5), 1 if is_everything() else 5):
        ended = False
        with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
            stopping = stopped_after(count)
            patched.setattr(shutil, "copy2", stopping(shutil.copy2))
            patched.setattr(Path, "rename", stopping(Path.rename))
            run(made, monkeypatch)
            ended = True
        assert run(made, monkeypatch) == 0
        assert [Config.load(made / f"node-{pair.id}").node.id for pair in PAIRS] == [1, 2, 3]
        assert len({(made / f"node-{pair.id}" / MASTER_FILE).read_bytes() for pair in PAIRS}) == 1
        assert not list(made.rglob("*.new"))
        if ended:
            break
        for path in files(made):
            path.unlink()
    assert count > 3 * len(PAIRS)


def test_a_volume_that_cannot_be_written_is_named_with_what_to_do(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (made / "router-2").rmdir()
    assert run(made, monkeypatch) == 1
    said = capsys.readouterr().err
    assert "router-2" in said
    assert "docker compose down --volumes" in said


def test_the_routers_program_knows_all_of_the_template() -> None:
    program = (DOCKER / "router.sh").read_text()
    names = set(re.findall(r"\{(\w+)\}", TEMPLATE))
    assert names
    assert {name for name in names if f"'{{{name}}}'" not in program} == set()


def test_the_routers_program_names_a_routerinfo_as_i2pd_does(tmp_path: Path) -> None:
    info = tmp_path / "router.info"
    info.write_bytes(random.Random(7).randbytes(385) + bytes([0, 4]) + bytes(range(256)))
    router = RouterProcess(0, tmp_path / "router", floodfill=False, password="")
    router.learn(info.read_bytes())
    (learnt,) = (tmp_path / "router").rglob("*.dat")
    said = subprocess.run([DOCKER / "router.sh", "name", info], capture_output=True, text=True, check=True, timeout=30)
    assert learnt.name == f"routerInfo-{said.stdout.strip()}.dat"


def test_a_router_that_misses_the_first_signal_begins_nevertheless(tmp_path: Path) -> None:
    """i2pd forgets a SIGTERM that comes before the main loop: the router would never introduce itself."""
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
