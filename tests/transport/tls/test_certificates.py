import ssl
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509

from gf_i2p.transport.errors import TransportError
from gf_i2p.transport.tls.certificates import fingerprint, fingerprint_of_file, make_certificate, parse_fingerprint


def test_a_certificate_and_its_key_serve_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate("node-1")
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "crt", tmp_path / "key")


def test_names_dates_and_number_are_as_asked() -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    pem, _ = make_certificate("node-1", hosts=["farm.example", "127.0.0.1", "::1"], now=now, days=10)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.subject.rfc4514_string() == "CN=node-1"
    # A day early, for peers whose clocks are behind.
    assert certificate.not_valid_before_utc == datetime(2026, 4, 30, 12, tzinfo=UTC)
    assert certificate.not_valid_after_utc == datetime(2026, 5, 11, 12, tzinfo=UTC)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["farm.example", "127.0.0.1", "::1"]
    another, _ = make_certificate("node-1", now=now, days=10)
    assert x509.load_pem_x509_certificate(another).serial_number != certificate.serial_number


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_a_name_that_no_certificate_can_carry_is_refused(name: str) -> None:
    with pytest.raises(TransportError, match="1 to 64 characters"):
        make_certificate(name)


def test_a_host_that_no_certificate_can_carry_is_refused() -> None:
    with pytest.raises(TransportError, match="Use ASCII"):
        make_certificate("node-1", hosts=["färm.example"])


def test_the_fingerprint_is_the_digest_of_the_der_form(tmp_path: Path) -> None:
    pem, key = make_certificate("node-1")
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    expected = "sha256:" + sha256(der).hexdigest()
    assert fingerprint(pem) == fingerprint(der) == expected
    other, _ = make_certificate("node-1")
    assert fingerprint(pem + other) == expected != fingerprint(other)
    (tmp_path / "crt").write_bytes(pem)
    assert fingerprint_of_file(tmp_path / "crt") == expected
    with pytest.raises(TransportError, match="no certificate"):
        fingerprint(key)


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"missing.crt cannot be read: No such file"):
        fingerprint_of_file(tmp_path / "missing.crt")
    (tmp_path / "broken.crt").write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    with pytest.raises(TransportError, match=r"broken.crt: This is no certificate"):
        fingerprint_of_file(tmp_path / "broken.crt")


DIGITS = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "text",
    [
        f"sha256:{DIGITS}",
        DIGITS,
        f"  SHA256:{DIGITS.upper()}\n",
        ":".join(DIGITS[i : i + 2] for i in range(0, 64, 2)).upper(),
    ],
)
def test_a_fingerprint_is_read_as_people_write_it(text: str) -> None:
    assert parse_fingerprint(text) == f"sha256:{DIGITS}"


@pytest.mark.parametrize("text", ["", "sha256:", DIGITS[:-1], DIGITS + "0", "g" * 64, f"sha1:{DIGITS}", f"{DIGITS}é"])
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(TransportError, match="expected sha256: and 64 hexadecimal digits"):
        parse_fingerprint(text)


def test_certificates_of_one_second_have_different_times_and_are_all_valid() -> None:
    """Equal times would link the servers of one operator."""
    certificates = [x509.load_pem_x509_certificate(make_certificate("node")[0]) for _ in range(3)]
    now = datetime.now(UTC)
    assert len({certificate.not_valid_before_utc for certificate in certificates}) == 3
    assert len({certificate.not_valid_after_utc for certificate in certificates}) == 3
    for certificate in certificates:
        assert timedelta(days=1) <= now - certificate.not_valid_before_utc < timedelta(days=367)
        assert timedelta(days=3649) < certificate.not_valid_after_utc - now < timedelta(days=3650 + 366)
    lengths = {each.not_valid_after_utc - each.not_valid_before_utc for each in certificates}
    assert len(lengths) == 3
