"""Places where i2pcontrol may be, and the certificates that each place needs."""

import pytest

from bridges.i2pcontrol.access import I2pControlAccess

DIGEST = bytes(range(32))


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:7650/", "https://router.example:7650/jsonrpc", "https://[::1]:7650", "https://10.0.0.1/"]
)
def test_https_anywhere_is_pinned(url: str) -> None:
    assert I2pControlAccess(url, "secret", fingerprint=DIGEST.hex()).pin() == DIGEST


@pytest.mark.parametrize(
    "text", [DIGEST.hex(), DIGEST.hex(":").upper(), f"sha256:{DIGEST.hex()}", f" {DIGEST.hex()}\n"]
)
def test_forms_of_a_fingerprint(text: str) -> None:
    assert I2pControlAccess("https://127.0.0.1:7650/", "secret", fingerprint=text).pin() == DIGEST


def test_nothing_said_is_not_everything_allowed() -> None:
    assert I2pControlAccess("https://127.0.0.1:7650/", "secret").pin() == bytes(32)
    assert I2pControlAccess("https://127.0.0.1:7650/", "secret", any_certificate=True).pin() is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
def test_plain_http_on_loopback(host: str) -> None:
    assert I2pControlAccess(f"http://{host}:7657/jsonrpc/", "secret").pin() is None


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "router.example", "0.0.0.0", "[::]", "127.0.0.1.example", "localhost.example"]
)
def test_plain_http_nowhere_else(host: str) -> None:
    with pytest.raises(ValueError, match="in the clear"):
        I2pControlAccess(f"http://{host}:7657/jsonrpc/", "secret")


@pytest.mark.parametrize(
    ("url", "settings", "why"),
    [
        ("https://x.b32.i2p/", {}, "inside I2P"),
        ("https://x.i2p.:7650/", {}, "inside I2P"),
        ("ftp://127.0.0.1/", {}, "no URL"),
        ("127.0.0.1:7650", {}, "no URL"),
        ("https://", {}, "no URL"),
        ("https://127.0.0.1:70000/", {}, "no URL"),
        ("https://127.0.0.1/\n", {}, "no URL"),
        ("https://[::1/", {}, "no URL"),
        ("https://127.0.0.1\\x/", {}, "no URL"),
        ("https://a..b/", {}, "no URL"),
        ("https://1.2.3/", {}, "no URL"),
        (f"https://{'x' * 64}/", {}, "no URL"),
        ("https://127.0.0.1/", {"password": ""}, "needs a password"),
        ("https://127.0.0.1/", {"fingerprint": "abc"}, "no fingerprint"),
        ("https://127.0.0.1/", {"fingerprint": DIGEST.hex()[:-2]}, "no fingerprint"),
        ("https://127.0.0.1/", {"fingerprint": DIGEST.hex(), "any_certificate": True}, "choose one of the two"),
        ("http://127.0.0.1/", {"fingerprint": DIGEST.hex()}, "plain HTTP"),
        ("http://127.0.0.1/", {"any_certificate": True}, "plain HTTP"),
    ],
)
def test_refused(url: str, settings: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        I2pControlAccess(url, **{"password": "secret", **settings})  # type: ignore[arg-type]


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(I2pControlAccess("https://127.0.0.1/", "secret"))
    with pytest.raises(ValueError, match="user name") as caught:
        I2pControlAccess("https://me:secret@127.0.0.1:99999/", "x")
    assert "secret" not in str(caught.value)
