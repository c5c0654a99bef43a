"""The session configuration that opens a session for a destination."""

import pytest

from gf_i2p.netdb.byte_reader import Reader
from gf_i2p.netdb.destination import Destination
from gf_i2p.netdb.encoding import from_base64
from gf_i2p.netdb.errors import LimitError, SignatureError, StructureError
from gf_i2p.netdb.mapping import read_mapping
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import META_OPTIONS, SERVICE_OPTIONS, SessionConfig, session_config
from gf_i2p.netdb.signing import SIGNATURE_BYTES, verify

DATE_MS = 1_700_000_000_123


def parts(config: bytes) -> tuple[Destination, dict[str, str], int, bytes, bytes]:
    reader = Reader(config, "a SessionConfig")
    destination, options, date = Destination.read(reader), read_mapping(reader), reader.number(8)
    signed = config[: reader.position]
    signature = reader.take(SIGNATURE_BYTES)
    reader.finish()
    return destination, options, date, signed, signature


def test_the_destinations_own_key_signs_all_of_it() -> None:
    keys = DestinationKeys.generate()
    destination, options, date, signed, signature = parts(session_config(keys, DATE_MS))
    assert (destination, options, date) == (keys.destination, META_OPTIONS, DATE_MS)
    destination.verify(signature, signed)
    with pytest.raises(SignatureError):
        destination.verify(signature, bytes([signed[0] ^ 1]) + signed[1:])


def test_the_options_of_a_service() -> None:
    config = SessionConfig.parse(session_config(DestinationKeys.generate(), DATE_MS, SERVICE_OPTIONS))
    config.verify()
    assert config.options["i2cp.leaseSetType"] == "3"
    assert config.options["i2cp.leaseSetEncType"] == "4"
    assert config.options == SERVICE_OPTIONS


def test_a_transient_key_signs_and_shows_its_authorisation() -> None:
    keys = DestinationKeys.generate().delegate(expires=1_800_000_000)
    assert keys.offline is not None
    _, options, _, signed, signature = parts(session_config(keys, DATE_MS, {"i2cp.leaseSetType": "7"}))
    verify(keys.offline.key, signature, signed)
    kind, _, public = options["i2cp.leaseSetTransientPublicKey"].partition(":")
    assert (kind, from_base64(public, 32)) == ("7", keys.offline.key)
    assert options["i2cp.leaseSetOfflineExpiration"] == "1800000000"
    assert from_base64(options["i2cp.leaseSetOfflineSignature"], 64) == keys.offline.signature
    assert options["i2cp.leaseSetType"] == "7"


@pytest.mark.parametrize("date_ms", [-1, 2**64])
def test_a_date_has_eight_bytes(date_ms: int) -> None:
    with pytest.raises(LimitError, match="eight bytes"):
        session_config(DestinationKeys.generate(), date_ms)


def test_what_was_made_is_read() -> None:
    keys = DestinationKeys.generate()
    data = session_config(keys, DATE_MS, {"i2cp.password": "secret"})
    config = SessionConfig.parse(data)
    assert (config.data, config.destination, config.date_ms) == (data, keys.destination, DATE_MS)
    assert config.options == {"i2cp.password": "secret"}
    assert not config.delegated
    assert "secret" not in repr(config)
    config.verify()
    with pytest.raises(SignatureError):
        SessionConfig.parse(data[:-1] + bytes([data[-1] ^ 1])).verify()


def test_one_that_a_transient_key_has_signed_is_not_signed_by_the_destination() -> None:
    config = SessionConfig.parse(session_config(DestinationKeys.generate().delegate(expires=1_800_000_000), DATE_MS))
    assert config.delegated
    with pytest.raises(SignatureError):
        config.verify()


@pytest.mark.parametrize("cut", [0, 100, 400, -1])
def test_a_part_is_none(cut: int) -> None:
    with pytest.raises(StructureError):
        SessionConfig.parse(session_config(DestinationKeys.generate(), DATE_MS)[:cut])


def test_more_is_none() -> None:
    with pytest.raises(StructureError, match="1 bytes follow"):
        SessionConfig.parse(session_config(DestinationKeys.generate(), DATE_MS) + b"x")
