"""Digest of RFC 2069, which old and foreign peers use: no qop, no nonce count, and so a nonce for each login."""

import hashlib
from typing import Any

import pytest

from gf_i2p.wire import digest as module
from gf_i2p.wire.digest import (
    Algorithm,
    Authenticator,
    Refused,
    Secret,
    Verified,
    digest_response_without_qop,
)
from gf_i2p.wire.http_auth import parse_schemes, quote
from tests.wire.handshakes import HOUR, KEY, PASSWORD, PATH, USER, Entropy
from tests.wire.test_digest import header as header_with_qop

WRONG = Refused(stale=False)
STALE = Refused(stale=True)


@pytest.mark.parametrize(
    ("password", "response"),
    [
        # RFC 2069, 2.4. The RFC prints e966c932a9242554e42c8ee200cec7f6; erratum 749 gives the true value.
        ("CircleOfLife", "1949323746fe6a43ef61f9606e7febea"),
        # The parameters of RFC 2617, 3.5, by the formula of its 3.2.2.1 for an absent qop.
        ("Circle Of Life", "670fd8c2df070c60b045671b8b24ff02"),
    ],
)
def test_the_examples_of_rfc_2069_and_rfc_2617(password: str, response: str) -> None:
    secret = Secret.derive("Mufasa", "testrealm@host.com", password)
    assert (
        digest_response_without_qop(
            secret.md5, nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", method="GET", uri="/dir/index.html"
        )
        == response
    )


def server(*, without_qop: bool = True) -> Authenticator:
    users = {USER: Secret.derive(USER, "farm", PASSWORD)}
    return Authenticator("farm", users, key=KEY, without_qop=without_qop)


def nonce_of(authenticator: Authenticator, entropy: Entropy | None = None, now: float = 0.0) -> str:
    return parse_schemes(authenticator.challenge(now, entropy or Entropy())[0])[0].parameters["nonce"]


def header(nonce: str, *, password: str = PASSWORD, **changes: str | None) -> str:
    """Make an Authorization header as in RFC 2069, 2.1.2, without the code under test; None leaves a parameter out."""

    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    user = changes.get("username") or USER
    response = md5(f"{md5(f'{user}:farm:{password}')}:{nonce}:{md5(f'GET:{PATH}')}")
    given: dict[str, Any] = {"username": user, "realm": "farm", "nonce": nonce, "uri": PATH, "response": response}
    given |= changes
    return "Digest " + ", ".join(f"{name}={quote(text)}" for name, text in given.items() if text is not None)


def test_such_an_answer_is_accepted_only_by_the_setting() -> None:
    allowed, strict = server(), server(without_qop=False)
    assert allowed.verify(header(nonce_of(allowed)), "GET", PATH, 0.0) == Verified(USER)
    assert strict.verify(header(nonce_of(strict)), "GET", PATH, 0.0) == WRONG
    assert Authenticator("farm", {}, key=KEY).without_qop is False


def test_the_setting_can_change_while_nonces_stay_good() -> None:
    one = server(without_qop=False)
    nonce = nonce_of(one)
    one.without_qop = True
    assert one.verify(header(nonce), "GET", PATH, 0.0) == Verified(USER)


def test_md5_may_be_named_and_other_hashes_may_not() -> None:
    one, entropy = server(), Entropy()
    assert one.verify(header(nonce_of(one, entropy), algorithm="md5"), "GET", PATH, 0.0) == Verified(USER)
    for algorithm in ("SHA-256", "MD5-sess", ""):
        assert one.verify(header(nonce_of(one, entropy), algorithm=algorithm), "GET", PATH, 0.0) == WRONG


@pytest.mark.parametrize(
    "change",
    [
        {"password": "wrong"},
        {"username": "server-2"},
        {"realm": "other"},
        {"uri": "/GarlicFarm/other/1/websocket"},
        {"response": "0" * 32},
        {"response": "0" * 64},
        {"response": None},
        {"nc": "00000001"},
        {"cnonce": "xyz"},
        {"nc": "00000001", "cnonce": "xyz"},
        {"qop": ""},
        {"qop": "auth"},
        {"qop": "auth-int"},
        {"userhash": "true"},
    ],
    ids=str,
)
def test_every_other_answer_without_qop_is_refused_without_saying_why(change: dict[str, Any]) -> None:
    one = server()
    assert one.verify(header(nonce_of(one), **change), "GET", PATH, 0.0) == WRONG
    assert one.verify(header(nonce_of(one)), "GET", PATH, 0.0) == Verified(USER)  # the nonce is not spent


def test_another_method_or_path_than_the_signed_one_is_refused() -> None:
    one = server()
    assert one.verify(header(nonce_of(one)), "POST", PATH, 0.0) == WRONG
    assert one.verify(header(nonce_of(one)), "GET", PATH + "?x", 0.0) == WRONG


def test_a_nonce_is_good_for_one_such_answer_and_then_for_nothing() -> None:
    one = server()
    nonce = nonce_of(one)
    assert one.verify(header(nonce), "GET", PATH, 0.0) == Verified(USER)
    assert one.verify(header(nonce), "GET", PATH, 0.0) == STALE
    for count in ("00000001", "00000100", "fffffffe", "ffffffff"):
        assert one.verify(header_with_qop(nonce, nc=count), "GET", PATH, 0.0) == STALE


def test_a_nonce_that_was_used_with_a_count_is_not_good_for_such_an_answer() -> None:
    one = server()
    nonce = nonce_of(one)
    assert one.verify(header_with_qop(nonce), "GET", PATH, 0.0) == Verified(USER)
    assert one.verify(header(nonce), "GET", PATH, 0.0) == STALE
    assert one.verify(header_with_qop(nonce, nc="00000002"), "GET", PATH, 0.0) == Verified(USER)


def test_an_old_or_foreign_nonce_is_stale_to_one_that_knows_the_password_and_wrong_to_others() -> None:
    one = server()
    for nonce, now in ((nonce_of(one), 2 * HOUR + 1), ("invented", 0.0)):
        assert one.verify(header(nonce), "GET", PATH, now) == STALE
        assert one.verify(header(nonce, password="wrong"), "GET", PATH, now) == WRONG


def test_an_unknown_user_costs_the_same_work_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[tuple[Algorithm, int]] = []
    original = Algorithm.hex

    def counting(self: Algorithm, data: bytes) -> str:
        hashed.append((self, len(data)))
        return original(self, data)

    one, work = server(), []
    monkeypatch.setattr(module.Algorithm, "hex", counting)
    for user in (USER, "server-2"):
        text = header(nonce_of(one), password="wrong", username=user)
        hashed.clear()
        assert one.verify(text, "GET", PATH, 0.0) == WRONG
        work.append(list(hashed))
    assert work[0] == work[1]
    assert len(work[0]) == 2
