"""The answers to a proxy's 407: Digest before Basic, and nothing to a stranger."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.http_auth import parse_schemes
from gf_i2p.wire.proxy_login import ProxyAuthorization, ProxyLogin, ProxyLoginError
from tests.wire.handshakes import HOUR, Entropy

USER, PASSWORD = "gf node", "open:sesame"
URI = "http://abc.b32.i2p:7001/GarlicFarm/farm/1/websocket"
# As Java's HTTP proxy of 2.8 writes the header, with Digest and with Basic.
DIGEST = 'Digest realm="I2P HTTP Proxy", nonce="AAABk~aPq1-w==", algorithm=MD5, qop="auth"'
BASIC = 'Basic realm="I2P HTTP Proxy"'
SHA = DIGEST.replace("MD5", "SHA-256")


def login(*, in_clear: bool = True) -> ProxyLogin:
    return ProxyLogin(USER, PASSWORD, in_clear=in_clear)


def sent(one: ProxyLogin, now: float = 0.0, method: str = "GET", target: str = URI) -> ProxyAuthorization:
    answer = one.authorize(method, target, now, Entropy())
    assert answer is not None
    return answer


def challenged(*headers: str, in_clear: bool = True) -> ProxyLogin:
    one = login(in_clear=in_clear)
    one.challenged(headers, 0.0, None)
    return one


def test_nothing_is_sent_before_the_proxy_asks() -> None:
    assert login().authorize("GET", URI, 0.0, Entropy()) is None


def test_basic_is_the_user_and_the_password() -> None:
    one = challenged(BASIC)
    assert sent(one).value == "Basic " + base64.b64encode(b"gf node:open:sesame").decode()
    assert sent(one, 10 * HOUR).first, "each refusal of Basic means a wrong login"


@pytest.mark.parametrize(("method", "target"), [("GET", URI), ("CONNECT", "abc.b32.i2p:7001")])
@pytest.mark.parametrize(("header", "name"), [(DIGEST, "md5"), (SHA, "sha256")])
def test_digest_covers_the_method_and_the_target_of_the_request_line(
    header: str, name: str, method: str, target: str
) -> None:
    (scheme,) = parse_schemes(sent(challenged(header), method=method, target=target).value)
    got = scheme.parameters

    def hexadecimal(text: str) -> str:
        return hashlib.new(name, text.encode()).hexdigest()

    ha1 = hexadecimal(f"{USER}:I2P HTTP Proxy:{PASSWORD}")
    ha2 = hexadecimal(f"{method}:{target}")
    assert got["response"] == hexadecimal(f"{ha1}:AAABk~aPq1-w==:00000001:{got['cnonce']}:auth:{ha2}")
    assert (got["username"], got["uri"], got["qop"], got["nc"]) == (USER, target, "auth", "00000001")


@pytest.mark.parametrize(
    ("headers", "scheme"),
    [
        ((BASIC, DIGEST), "algorithm=MD5"),
        ((f"{BASIC}, {DIGEST}",), "algorithm=MD5"),
        ((DIGEST, SHA, BASIC), "algorithm=SHA-256"),
        (("Negotiate", "?", BASIC), "Basic"),
        (('Digest realm="r", nonce="n"', BASIC), "Basic"),  # RFC 2069, which the client never answers
    ],
)
def test_the_strongest_scheme_is_answered(headers: tuple[str, ...], scheme: str) -> None:
    assert scheme in sent(challenged(*headers)).value


def test_a_password_goes_to_another_machine_only_by_digest() -> None:
    with pytest.raises(ProxyLoginError, match="would go to another machine in the clear: turn on Digest"):
        challenged(BASIC, in_clear=False)
    assert sent(challenged(BASIC, DIGEST, in_clear=False)).value.startswith("Digest ")


def test_basic_after_digest_is_a_downgrade() -> None:
    one = challenged(DIGEST)
    with pytest.raises(ProxyLoginError, match="offered Digest earlier and now only Basic"):
        one.challenged([BASIC], 0.0, None)
    assert sent(one).value.startswith("Digest ")
    with pytest.raises(ProxyLoginError, match="the proxy offered SHA-256 earlier and now only MD5"):
        challenged(SHA).challenged([DIGEST], 0.0, None)


def test_digest_after_basic_is_welcome() -> None:
    one = challenged(BASIC)
    one.challenged([DIGEST], 0.0, None)
    assert sent(one).value.startswith("Digest ")


@pytest.mark.parametrize("header", [DIGEST, BASIC])
def test_a_refused_login_is_named_without_the_password(header: str) -> None:
    one = challenged(header)
    with pytest.raises(ProxyLoginError, match="refuses user gf node or its password: check proxy_user") as caught:
        one.challenged([header.replace('nonce="', 'nonce="x')], 0.0, sent(one))
    assert PASSWORD not in str(caught.value)


def test_an_expired_nonce_is_answered_anew_and_a_stale_one_too() -> None:
    one = challenged(DIGEST)
    assert sent(one).first
    later = sent(one)
    assert not later.first
    one.challenged([DIGEST.replace("AAAB", "AAAC")], 0.0, later)
    fresh = sent(one)
    assert fresh.first
    assert 'nonce="AAAC' in fresh.value
    one.challenged([DIGEST + ", stale=true"], 0.0, fresh)
    assert one.authorize("GET", URI, 2 * HOUR + 1, Entropy()) is None


@pytest.mark.parametrize("headers", [[], ["Negotiate"], ["Digest"], ['Digest realm="'], ["Digest qop=auth, nonce=n"]])
def test_other_challenges_are_refused(headers: list[str]) -> None:
    with pytest.raises(ProxyLoginError, match="but neither Digest with qop=auth and SHA-256 or MD5, nor Basic"):
        challenged(*headers)


def test_nothing_shows_the_password() -> None:
    for header in (BASIC, DIGEST):
        one = challenged(header)
        assert PASSWORD not in repr(one) + repr(sent(one))
        assert sent(one).value not in repr(sent(one))


@pytest.mark.parametrize(
    ("user", "password", "name"),
    [
        ("", "x", "user name"),
        ("a:b", "x", "user name"),
        ("a\r\nb", "x", "user name"),
        ("ä", "x", "user name"),
        ("u" * 256, "x", "user name"),
        ("u", "", "password"),
        ("u", "secret\r\nEvil: header", "password"),
        ("u", "ö-secret", "password"),
        ("u", "p" * 256, "password"),
    ],
)
def test_logins_that_no_proxy_takes_are_refused(user: str, password: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"the proxy's {name} must have 1 to 255 printable ASCII") as caught:
        ProxyLogin(user, password, in_clear=True)
    assert "secret" not in str(caught.value)


@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from([DIGEST, BASIC, SHA])), max_size=4), st.booleans())
def test_no_invented_challenge_raises_anything_else(headers: list[str], in_clear: bool) -> None:
    one = login(in_clear=in_clear)
    try:
        one.challenged(headers, 0.0, None)
    except ProxyLoginError:
        return
    value = sent(one).value
    assert value.startswith("Digest " if not in_clear else ("Digest ", "Basic "))
    assert "\r" not in value
    assert "\n" not in value
