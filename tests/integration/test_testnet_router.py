"""A router of the test network, as far as no i2pd is needed."""

from pathlib import Path

from gf_i2p.transport.certificates import make_certificate
from integration.testnet.router import Router


def test_a_certificate_is_there_when_it_is_whole(tmp_path: Path) -> None:
    router = Router(0, tmp_path, floodfill=True, password="it")
    whole, _ = make_certificate("localhost")
    assert not router.certified
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        router.certificate.write_bytes(whole[:length])
        assert not router.certified, length
    router.certificate.write_bytes(whole)
    assert router.certified
