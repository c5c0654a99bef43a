"""Self-signed certificates of servers, and the fingerprints by which servers know these certificates."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from secrets import randbelow
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from gf_i2p.transport.errors import TransportError

# The longest common name in X.520 (the upper bound ub-common-name of RFC 5280, A.1).
_MAX_COMMON_NAME: Final = 64
_PREFIX: Final = "sha256:"
_HEX: Final = re.compile(r"[0-9a-f]{64}")
# A new certificate is valid at once, also for a farm member with a slow clock.
_BACKDATED: Final = timedelta(days=1)
_SCATTER_SECONDS: Final = 365 * 24 * 3600


def make_certificate(
    common_name: str, *, hosts: Iterable[str] = (), now: datetime | None = None, days: int = 3650
) -> tuple[bytes, bytes]:
    """Make a key (ECDSA, P-256) and a self-signed certificate.

    Args:
        common_name: 1 to 64 characters, a label for the operator.
        hosts: names and addresses of this server, for peers that use a CA file (this certificate may be the CA file). A
            peer that pins the fingerprint needs none.
        now: the present time, in UTC. By default the clock is read, and the validity begins up to a year earlier and
            ends up to a year later, at random. Otherwise the same second in the certificates of several servers would
            show strangers that one operator made them.
        days: validity from `now`. A peer that pins the fingerprint ignores the validity.

    Returns:
        Certificate and key, both PEM, the key unencrypted: store the key with mode 0600.

    Raises:
        TransportError: the common name is too short or too long, or a host name is not ASCII.
    """
    if not 1 <= len(common_name) <= _MAX_COMMON_NAME:
        raise TransportError(
            f"A certificate's name has 1 to {_MAX_COMMON_NAME} characters; {common_name!r} has {len(common_name)}."
        )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    start = now or datetime.now(UTC)
    earlier, longer = (timedelta(seconds=0 if now else randbelow(_SCATTER_SECONDS)) for _ in range(2))
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATED - earlier)
        .not_valid_after(start + timedelta(days=days) + longer)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    alternatives = [_alternative_name(host) for host in hosts]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.sign(key, SHA256())
    return (
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise TransportError(
            f"{host!r} cannot be a certificate's host name: {error}. Use ASCII (the xn-- form)."
        ) from error


def fingerprint(certificate: bytes) -> str:
    """Return the fingerprint of a certificate in DER or PEM form: "sha256:" and 64 hexadecimal digits.

    Of several PEM certificates, the first counts. The digest is over the DER form, as `openssl x509 -fingerprint
    -sha256` prints it. Raises `TransportError` when the bytes are no certificate.
    """
    pem = certificate.lstrip().startswith(b"-----BEGIN")
    try:
        loaded = x509.load_pem_x509_certificates(certificate)[0] if pem else x509.load_der_x509_certificate(certificate)
    except ValueError as error:
        raise TransportError(f"This is no certificate in PEM or DER form: {error}") from error
    return _PREFIX + loaded.fingerprint(SHA256()).hex()


def fingerprint_of_file(path: Path) -> str:
    """Return the fingerprint of the first certificate in a PEM or DER file; see `fingerprint`.

    Raises `TransportError` with the file's name.
    """
    try:
        return fingerprint(path.read_bytes())
    except OSError as error:
        raise TransportError(f"The certificate {path} cannot be read: {error.strerror}.") from error
    except TransportError as error:
        raise TransportError(f"{path}: {error}") from error


def parse_fingerprint(text: str) -> str:
    """Convert a fingerprint from a configuration file to the form that `fingerprint` returns.

    "sha256:" may be missing; digits may be upper case and separated by colons, as OpenSSL prints them. Raises
    `TransportError` for any other text.
    """
    digits = text.strip().lower().removeprefix(_PREFIX).replace(":", "")
    if not _HEX.fullmatch(digits):
        raise TransportError(
            f"{text!r} is no certificate fingerprint: expected sha256: and 64 hexadecimal digits. "
            "On the other server this prints it: openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE"
        )
    return _PREFIX + digits
