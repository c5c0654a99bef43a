"""The parts of a test network's Java router that need no Java."""

from pathlib import Path

import pytest

from gf_i2p.netdb.private_keys import DestinationKeys
from integration.testnet.bridge import ADDRESS
from integration.testnet.java_router import TUNNELS_FILE, JavaRouter
from integration.testnet.router import RouterProcess
from integration.testnet.router_network import RouterPlace
from integration.testnet.server_tunnels import ServerTunnel


class WrittenRouter(JavaRouter):
    """A router that writes its files, and is not started."""

    def write(self) -> str:
        return " ".join(self._command())


@pytest.fixture
def router(tmp_path: Path) -> WrittenRouter:
    found = WrittenRouter(6, tmp_path, floodfill=True, password="it", program="/java", where=("nsenter", "--net=7"))
    (tmp_path / "plugins" / "I2PControl").mkdir(parents=True)
    return found


def test_all_files_name_the_only_address(router: WrittenRouter, tmp_path: Path) -> None:
    command = router.write()
    assert command.startswith("nsenter --net=7 env --chdir=")
    assert "-cp /java/lib/* net.i2p.router.RouterLaunch" in command
    assert router.address == router.network_address == "198.18.16.1"
    config = (tmp_path / "router.config").read_text()
    assert "router.floodfillParticipant=true\n" in config
    assert "i2np.udp.port=20006\n" in config
    for name in ("router.config", "clients.config", "i2ptunnel.config", "plugins/I2PControl/I2PControl.conf"):
        text = (tmp_path / name).read_text()
        assert router.address in text, name
        assert "{" not in text, name


def test_what_the_router_has_rewritten_stays_or_is_written_anew(router: WrittenRouter, tmp_path: Path) -> None:
    router.write()
    (tmp_path / "router.config").write_text("keys of the router\n")
    (tmp_path / "clients.config").rename(tmp_path / "clients.config.bak")
    (tmp_path / "clients.config.d").mkdir()
    (tmp_path / "router.ping").touch()
    router.write()
    assert (tmp_path / "router.config").read_text() == "keys of the router\n"
    assert "SAMBridge" in (tmp_path / "clients.config").read_text()
    for name in ("clients.config.bak", "clients.config.d", "router.ping"):
        assert not (tmp_path / name).exists(), name


def test_a_first_router_info_without_addresses_does_not_count(router: WrittenRouter, tmp_path: Path) -> None:
    (tmp_path / "router.info").write_bytes(bytes(500))
    assert router.info() is None
    (tmp_path / "router.info").write_bytes(bytes(500) + b"NTCP2 and SSU2")
    assert router.info() is not None


def test_a_server_tunnel_is_there_until_it_is_removed(router: WrittenRouter, tmp_path: Path) -> None:
    place = RouterPlace(router.number, router.address, tmp_path, router.floodfill, router.kind)
    tunnel = ServerTunnel(place, DestinationKeys.generate(), 8080)
    tunnel.add()
    router.write()
    config = (tmp_path / "i2ptunnel.config").read_text()
    assert f"tunnel.1.targetHost={ADDRESS}\ntunnel.1.targetPort=8080\ntunnel.1.privKeyFile=leaf.dat\n" in config
    assert (tmp_path / "leaf.dat").read_bytes() == tunnel.keys.encode()
    tunnel.remove()
    router.write()
    assert (tmp_path / TUNNELS_FILE).read_text() == ""
    assert "tunnel.1" not in (tmp_path / "i2ptunnel.config").read_text()


def test_an_i2pd_beside_java_trusts_the_others_only(tmp_path: Path) -> None:
    class Written(RouterProcess):
        def write(self) -> str:
            self._command()
            return (tmp_path / "i2pd.conf").read_text()

    router = Written(0, tmp_path, floodfill=True, password="it")
    assert "[trust]" not in router.write()
    router.trusted = ("one=", "two=")
    assert router.write().endswith("[trust]\nenabled = true\nrouters = one=,two=\n")
