"""TLS to a Java router's I2CP: the certificate that is trusted, and the certificate that the router shows."""

import asyncio
import hashlib
import ssl

from bridges.errors import CertificateRefusedError
from bridges.i2cp.settings import I2cpSettings


def tls_context(settings: I2cpSettings) -> ssl.SSLContext | None:
    """Make the TLS settings of a connection; None for plain I2CP."""
    if settings.system_ca:
        context = ssl.create_default_context()  # checks the name or address, too
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context
    return None if settings.fingerprint is None else _any_certificate()


def _any_certificate() -> ssl.SSLContext:
    """Make TLS settings that leave the check of the certificate to the caller."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # an older Java has no later version
    # A fingerprint names one key exactly. OpenSSL still makes the router prove that the router holds that key.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def server_name(settings: I2cpSettings) -> str | None:
    """Return the name that the certificate must have; None without a check of the name."""
    return (settings.tls_name or settings.host) if settings.system_ca else None


def check_certificate(settings: I2cpSettings, writer: asyncio.StreamWriter) -> None:
    """Compare the fingerprint, if one is configured. Raises `CertificateRefusedError`."""
    if settings.fingerprint is None:
        return
    actual = _fingerprint(writer)
    if actual != settings.fingerprint:
        raise CertificateRefusedError(
            f"{settings} shows another certificate than configured: {actual}, not {settings.fingerprint}. Nothing was "
            "sent. If the router has a new certificate, set its fingerprint here; otherwise another program answers "
            "there"
        )


def untrusted(settings: I2cpSettings, error: ssl.SSLCertVerificationError) -> CertificateRefusedError:
    """Return the error for a certificate that the system's CAs do not vouch for."""
    return CertificateRefusedError(
        f"{settings} shows a certificate that this system does not trust for {server_name(settings)} "
        f"({error.verify_message}). Nothing was sent: check the CA and the name in the certificate, or set the "
        "certificate's fingerprint instead"
    )


async def shown_fingerprint(settings: I2cpSettings) -> str | None:
    """Return the fingerprint of the certificate that the port shows; None when the port speaks no TLS.

    The connection is closed after the handshake: nothing is sent, whatever the certificate is.
    """
    try:
        async with asyncio.timeout(settings.deadlines.connect):
            _, writer = await asyncio.open_connection(settings.host, settings.port, ssl=_any_certificate())
    except (OSError, TimeoutError):  # also `ssl.SSLError`
        return None
    try:
        return _fingerprint(writer)
    finally:
        writer.transport.abort()


def _fingerprint(writer: asyncio.StreamWriter) -> str:
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return "none" if certificate is None else f"sha256:{hashlib.sha256(certificate).hexdigest()}"
