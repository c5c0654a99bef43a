"""The parts of a test network's router that need no i2pd."""

from pathlib import Path

from gf_i2p.transport.tls.certificates import make_certificate
from integration.testnet.router import CERTIFICATE_FILE, RouterProcess, server_tunnel


def test_a_certificate_is_there_when_it_is_whole(tmp_path: Path) -> None:
    router = RouterProcess(0, tmp_path, floodfill=True, password="it")
    file = tmp_path / CERTIFICATE_FILE
    whole, _ = make_certificate("localhost")
    assert not router.has_certificate
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        assert not router.has_certificate, length
    file.write_bytes(whole)
    assert router.has_certificate


def test_a_server_tunnel_answers_pings() -> None:
    assert "\ni2p.streaming.answerPings = true\n" in server_tunnel("leaf", "127.0.0.1", 80, "leaf.dat")
