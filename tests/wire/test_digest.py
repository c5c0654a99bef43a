import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire import digest as module
from gf_i2p.wire.digest import Algorithm, Authenticator, Credentials, Refused, Secret, Verified, digest_response
from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_auth import parse_schemes, quote
from tests.wire.handshakes import HOUR, KEY, PASSWORD, PATH, USER, Entropy, authenticator

WRONG = Refused(stale=False)
STALE = Refused(stale=True)

# --- Vectors of the RFCs ----------------------------------------------------------------------------------


def test_the_example_of_rfc_2617() -> None:
    secret = Secret.derive("Mufasa", "testrealm@host.com", "Circle Of Life")
    assert secret.md5 == "939e7578ed9e3c518a452acee763bce9"
    assert (
        digest_response(
            Algorithm.MD5,
            secret.md5,
            nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093",
            count="00000001",
            cnonce="0a4f113b",
            method="GET",
            uri="/dir/index.html",
        )
        == "6629fae49393a05397450978507c4ef1"
    )


@pytest.mark.parametrize(
    ("algorithm", "response"),
    [
        (Algorithm.MD5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm.SHA_256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_the_examples_of_rfc_7616(algorithm: Algorithm, response: str) -> None:
    secret = Secret.derive("Mufasa", "http-auth@example.org", "Circle of Life")
    assert (
        digest_response(
            algorithm,
            secret.of(algorithm),
            nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            count="00000001",
            cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            method="GET",
            uri="/dir/index.html",
        )
        == response
    )


# --- Secrets ----------------------------------------------------------------------------------------------


def test_a_secret_hides_itself() -> None:
    secret = Secret.derive(USER, "farm", PASSWORD)
    assert secret.md5 not in repr(secret)
    assert secret.sha256 not in repr(secret)


def test_passwords_are_utf_8_in_normal_form() -> None:
    assert Secret.derive("u", "farm", "Z\u00fcrich").md5 == hashlib.md5("u:farm:Zürich".encode()).hexdigest()
    assert Secret.derive("u", "farm", "Zu\u0308rich") == Secret.derive("u", "farm", "Z\u00fcrich")


@pytest.mark.parametrize(
    ("user", "password", "message"),
    [("a:b", "x", "cannot be a user name"), ("", "x", "cannot be"), ("a", "", "password of a is empty: set one")],
)
def test_bad_users_and_passwords_are_refused_on_both_sides(user: str, password: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Secret.derive(user, "farm", password)
    with pytest.raises(ValueError, match=message):
        Credentials(user, password)


@pytest.mark.parametrize(("md5", "sha256"), [("0" * 31, "0" * 64), ("0" * 32, "g" * 64), ("0" * 64, "0" * 32)])
def test_a_damaged_secret_is_refused(md5: str, sha256: str) -> None:
    with pytest.raises(ValueError, match="damaged: set this user's password anew"):
        Secret(md5, sha256)


# --- Server -----------------------------------------------------------------------------------------------


def nonce_of(server: Authenticator, now: float = 0.0, entropy: Entropy | None = None) -> str:
    return parse_schemes(server.challenge(now, entropy or Entropy())[0])[0].parameters["nonce"]


def header(
    nonce: str,
    /,
    *,
    password: str = PASSWORD,
    algorithm: str = "SHA-256",
    signed_uri: str = PATH,
    **changes: str | None,
) -> str:
    """A client's Authorization header, computed without the code under test; None leaves a parameter out."""
    hash_name = {"MD5": "md5", "SHA-256": "sha256"}[algorithm]
    given: dict[str, Any] = {
        "username": USER,
        "realm": "farm",
        "nonce": nonce,
        "uri": signed_uri,
        "algorithm": algorithm,
        "qop": "auth",
        "nc": "00000001",
        "cnonce": "xyz",
    }
    given |= {name: text for name, text in changes.items() if name in ("username", "nc", "cnonce")}

    def hashed(text: str) -> str:
        return hashlib.new(hash_name, text.encode()).hexdigest()

    ha1, ha2 = hashed(f"{given['username']}:farm:{password}"), hashed(f"GET:{signed_uri}")
    given["response"] = hashed(f"{ha1}:{nonce}:{given['nc']}:{given['cnonce']}:auth:{ha2}")
    given |= changes
    return "Digest " + ", ".join(f"{name}={quote(text)}" for name, text in given.items() if text is not None)


def test_the_challenges_are_sha_256_then_md5_with_one_nonce() -> None:
    server = authenticator()
    nonce = nonce_of(server)
    assert server.challenge(0.0, Entropy()) == [
        f'Digest realm="farm", qop="auth", algorithm={algorithm}, nonce="{nonce}", charset=UTF-8'
        for algorithm in ("SHA-256", "MD5")
    ]
    assert all(text.endswith(", stale=true") for text in server.challenge(0.0, Entropy(), stale=True))


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256"])
def test_who_knows_the_password_is_verified(algorithm: str) -> None:
    server = authenticator()
    assert server.verify(header(nonce_of(server), algorithm=algorithm), "GET", PATH, 0.0) == Verified(USER)


def test_what_clients_write_differently_is_the_same() -> None:
    server, entropy = authenticator(), Entropy()

    def verify(text: str) -> object:
        return server.verify(text, "GET", PATH, 0.0)

    assert verify(header(nonce_of(server, 0, entropy)).replace("Digest", "dIGEST", 1)) == Verified(USER)
    assert verify(header(nonce_of(server, 0, entropy)).replace("qop=", "QOP=").replace('"auth"', "AUTH")) == Verified(
        USER
    )
    assert verify(header(nonce_of(server, 0, entropy), algorithm="MD5").replace('"MD5"', "md5")) == Verified(USER)
    assert verify(header(nonce_of(server, 0, entropy), algorithm="MD5").replace('algorithm="MD5", ', "")) == Verified(
        USER
    )
    assert verify(header(nonce_of(server, 0, entropy), userhash="false", opaque="x", other="y")) == Verified(USER)
    assert verify(header(nonce_of(server, 0, entropy), nc="0000000A")) == Verified(USER)
    upper = header(nonce_of(server, 0, entropy))
    response = parse_schemes(upper)[0].parameters["response"]
    assert verify(upper.replace(response, response.upper())) == Verified(USER)


@pytest.mark.parametrize(
    "change",
    [
        {"username": "server-2"},
        {"username": "server-2", "password": ""},
        {"password": "wrong"},
        {"realm": "other"},
        {"uri": "/GarlicFarm/other/1/websocket"},
        {"uri": "*"},
        {"uri": None},
        {"response": "0" * 64},
        {"response": "0" * 32},
        {"response": ""},
        {"response": "é" * 64},
        {"response": None},
        {"algorithm_given": "SHA-256-sess"},
        {"algorithm_given": "MD5"},
        {"algorithm_given": "SHA-512-256"},
        {"qop": "auth-int"},
        {"qop": None},
        {"nc": "00000000"},
        {"nc": "1"},
        {"nc": "000000001"},
        {"nc": "0000000g"},
        {"nc": "٠٠٠٠٠٠٠١"},
        {"cnonce": None},
        {"cnonce": "€"},
        {"nonce": "€"},
        {"username": None},
        {"realm": None},
        {"nonce": None},
        {"userhash": "true"},
        {"username": None, "username*": "UTF-8''server-1"},
    ],
    ids=str,
)
def test_everything_else_is_refused_without_saying_why(change: dict[str, Any]) -> None:
    server = authenticator()
    if "algorithm_given" in change:
        text = header(nonce_of(server)).replace('algorithm="SHA-256"', f"algorithm={change['algorithm_given']}")
    else:
        text = header(nonce_of(server), **change)
    assert server.verify(text, "GET", PATH, 0.0) == WRONG
    assert server.verify(header(nonce_of(server)), "GET", PATH, 0.0) == Verified(USER)  # and costs no count


def test_other_methods_and_paths_than_the_signed_ones_are_refused() -> None:
    server = authenticator()
    text = header(nonce_of(server))
    assert server.verify(text, "POST", PATH, 0.0) == WRONG
    assert server.verify(text, "GET", PATH + "?x", 0.0) == WRONG
    assert server.verify(text, "GET", PATH.lower(), 0.0) == WRONG


@pytest.mark.parametrize("signed", [PATH, f"http://a.b32.i2p{PATH}", f"HTTP://[::1]:80{PATH}"])
@pytest.mark.parametrize("target", [PATH, f"http://b.b32.i2p:81{PATH}"])
def test_uri_and_target_may_be_of_different_forms(signed: str, target: str) -> None:
    server = authenticator()
    assert server.verify(header(nonce_of(server), signed_uri=signed), "GET", target, 0.0) == Verified(USER)


def test_a_count_is_accepted_once_and_a_replay_gets_a_new_nonce_instead() -> None:
    server = authenticator()
    nonce = nonce_of(server)
    for count in ("00000001", "00000003", "00000002"):
        assert server.verify(header(nonce, nc=count), "GET", PATH, 0.0) == Verified(USER)
        assert server.verify(header(nonce, nc=count), "GET", PATH, 0.0) == STALE
    assert server.verify(header(nonce, nc="00000002", algorithm="MD5"), "GET", PATH, 0.0) == STALE
    assert server.verify(header(nonce, nc="00000002", username="client-a"), "GET", PATH, 0.0) == STALE


def test_an_old_or_foreign_nonce_is_stale_to_who_knows_the_password_and_wrong_to_others() -> None:
    server = authenticator()
    old = nonce_of(server)
    for nonce, now in ((old, 2 * HOUR + 1), ("invented", 0.0), (nonce_of(authenticator(key=bytes(32))), 0.0)):
        assert server.verify(header(nonce), "GET", PATH, now) == STALE
        assert server.verify(header(nonce, password="wrong"), "GET", PATH, now) == WRONG
        assert server.verify(header(nonce, username="nobody"), "GET", PATH, now) == WRONG
    assert server.verify(header(old), "GET", PATH, HOUR) == Verified(USER)


def test_an_unknown_user_costs_the_same_work_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[tuple[Algorithm, int]] = []
    original = Algorithm.hex

    def counting(self: Algorithm, data: bytes) -> str:
        hashed.append((self, len(data)))
        return original(self, data)

    server, work = authenticator(), []
    monkeypatch.setattr(module.Algorithm, "hex", counting)
    for change in ({"username": USER}, {"username": "server-2"}, {"username": ""}):
        for algorithm in ("MD5", "SHA-256"):
            text = header(nonce_of(server), password="wrong", algorithm=algorithm, **change)
            hashed.clear()
            assert server.verify(text, "GET", PATH, 0.0) == WRONG
            work.append(list(hashed))
    assert work[0:2] == work[2:4] == work[4:6]
    assert [len(calls) for calls in work] == [2] * 6


def test_nobody_gets_in_with_the_stand_in_for_unknown_users() -> None:
    server = authenticator()
    nonce = nonce_of(server)
    text = header(nonce, username="nobody")
    right = digest_response(
        Algorithm.SHA_256, server._nobody.sha256, nonce=nonce, count="00000001", cnonce="xyz", method="GET", uri=PATH
    )
    wrong = parse_schemes(text)[0].parameters["response"]
    assert server.verify(text.replace(wrong, right), "GET", PATH, 0.0) == WRONG


def test_users_can_be_replaced_while_nonces_stay_good() -> None:
    server = authenticator()
    nonce = nonce_of(server)
    server.replace({"client-b": Secret.derive("client-b", "farm", "new")})
    assert server.verify(header(nonce), "GET", PATH, 0.0) == WRONG
    assert server.verify(header(nonce, username="client-b", password="new"), "GET", PATH, 0.0) == Verified("client-b")


def test_later_changes_of_the_callers_mapping_change_nothing() -> None:
    users = {USER: Secret.derive(USER, "farm", PASSWORD)}
    server = Authenticator("farm", users, key=KEY)
    users.clear()
    assert server.verify(header(nonce_of(server)), "GET", PATH, 0.0) == Verified(USER)


@pytest.mark.parametrize(
    ("realm", "key", "seconds", "message"),
    [
        ("farm", b"short", 7200.0, "must be 32 random bytes, not 5"),
        ("farm", KEY, 3599.0, "at least 3600 seconds"),
        ('fa"rm', KEY, 7200.0, "cannot be a cluster name"),
    ],
)
def test_an_authenticator_refuses_unsafe_arguments(realm: str, key: bytes, seconds: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Authenticator(realm, {}, key=key, nonce_seconds=seconds)


PARAMETERS = ["username", "realm", "nonce", "uri", "algorithm", "response", "qop", "nc", "cnonce", "userhash"]


@given(st.one_of(st.text(), st.dictionaries(st.sampled_from(PARAMETERS), st.text(max_size=20))))
def test_no_invented_header_gets_in_or_raises(given_: str | dict[str, str]) -> None:
    server = authenticator()
    right = parse_schemes(header(nonce_of(server), password="wrong"))[0].parameters
    if isinstance(given_, dict):
        given_ = "Digest " + ", ".join(f"{name}={quote(text)}" for name, text in (right | given_).items())
    assert server.verify(given_, "GET", PATH, 0.0) == WRONG


# --- Client -----------------------------------------------------------------------------------------------

SHA = 'Digest realm="farm", qop="auth", algorithm=SHA-256, nonce="n1", charset=UTF-8'
MD5 = 'Digest realm="farm", qop="auth", algorithm=MD5, nonce="n1", charset=UTF-8'


def given_by(credentials: Credentials, now: float = 0.0) -> dict[str, str]:
    text = credentials.authorize("GET", PATH, now, Entropy())
    assert text is not None
    (scheme,) = parse_schemes(text)
    return scheme.parameters


def challenged(*headers: str) -> Credentials:
    credentials = Credentials(USER, PASSWORD)
    credentials.challenged(headers, 0.0)
    return credentials


def test_without_a_challenge_there_is_nothing_to_answer() -> None:
    credentials = Credentials(USER, PASSWORD)
    assert credentials.authorize("GET", PATH, 0.0, Entropy()) is None
    assert not credentials.untried


@pytest.mark.parametrize("headers", [(SHA, MD5), (MD5, SHA), (f"{MD5}, {SHA}",), ("Basic realm=x", "?", SHA)])
def test_the_strongest_challenge_is_answered(headers: tuple[str, ...]) -> None:
    assert given_by(challenged(*headers))["algorithm"] == "SHA-256"


def test_md5_alone_is_answered_and_is_the_default() -> None:
    assert given_by(challenged(MD5))["algorithm"] == "MD5"
    assert given_by(challenged('Digest realm="r", nonce="n", qop="auth-int, auth"'))["algorithm"] == "MD5"


def test_the_answer_is_what_a_server_wants() -> None:
    server = authenticator()
    credentials = Credentials(USER, PASSWORD)
    credentials.challenged(server.challenge(0.0, Entropy()), 0.0)
    for _ in range(3):
        text = credentials.authorize("GET", PATH, 0.0, Entropy())
        assert text is not None
        assert server.verify(text, "GET", PATH, 0.0) == Verified(USER)


def test_names_and_numbers_are_unquoted_and_texts_quoted_as_old_servers_insist() -> None:
    text = challenged(MD5).authorize("GET", PATH, 0.0, Entropy())
    assert text is not None
    assert ", algorithm=MD5, " in text
    assert ", qop=auth, nc=00000001, cnonce=" in text
    assert f'username="{USER}", realm="farm", nonce="n1", uri="{PATH}"' in text


def test_counts_rise_and_a_new_nonce_starts_at_one() -> None:
    credentials = challenged(MD5)
    assert [given_by(credentials)["nc"] for _ in range(3)] == ["00000001", "00000002", "00000003"]
    credentials.challenged([MD5.replace("n1", "n2")], 0.0)
    assert given_by(credentials)["nc"] == "00000001"


def test_a_nonce_that_is_given_again_goes_on_counting() -> None:
    credentials = challenged(MD5)
    assert given_by(credentials)["nc"] == "00000001"
    credentials.challenged([MD5], 0.0)
    assert given_by(credentials)["nc"] == "00000002"


def test_a_used_up_nonce_is_given_up() -> None:
    credentials = challenged(MD5)
    credentials._count = 0xFFFFFFFE
    assert given_by(credentials)["nc"] == "ffffffff"
    assert credentials.authorize("GET", PATH, 0.0, Entropy()) is None


def test_a_challenge_is_remembered_for_an_hour_and_more_but_not_for_ever() -> None:
    credentials = challenged(MD5)
    assert given_by(credentials, HOUR)["nc"] == "00000001"
    assert given_by(credentials, 2 * HOUR)["nc"] == "00000002"
    assert credentials.authorize("GET", PATH, 2 * HOUR + 1, Entropy()) is None


def test_a_challenge_is_untried_until_its_first_answer() -> None:
    credentials = challenged(MD5)
    assert credentials.untried
    given_by(credentials)
    assert not credentials.untried


def test_stale_is_reported() -> None:
    credentials = Credentials(USER, PASSWORD)
    assert not credentials.challenged([MD5], 0.0)
    assert not credentials.challenged([MD5 + ", stale=FALSE"], 0.0)
    assert credentials.challenged([MD5 + ", stale=TRUE"], 0.0)
    assert credentials.challenged([MD5 + ', stale="true"'], 0.0)


def test_opaque_comes_back_and_what_needs_escapes_gets_them() -> None:
    values = {"realm": 'a"b\\c', "nonce": 'n"', "opaque": "o\\"}
    text = "Digest qop=auth, " + ", ".join(f"{name}={quote(value)}" for name, value in values.items())
    assert given_by(challenged(text)).items() >= values.items()


def test_the_realm_is_hashed_as_the_bytes_that_came() -> None:
    wire = "Gärtner".encode().decode("latin-1")
    given = given_by(challenged(f'Digest realm="{wire}", nonce="n", qop=auth, algorithm=MD5'))
    assert given["realm"] == wire
    ha1 = hashlib.md5(f"{USER}:Gärtner:{PASSWORD}".encode()).hexdigest()
    ha2 = hashlib.md5(f"GET:{PATH}".encode()).hexdigest()
    assert given["response"] == hashlib.md5(f"{ha1}:n:00000001:{given['cnonce']}:auth:{ha2}".encode()).hexdigest()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Basic realm=x"],
        ["Digest"],
        ['Digest realm="r", nonce="n"'],  # RFC 2069, no qop
        ['Digest realm="r", nonce="n", qop="auth-int"'],
        ['Digest realm="r", nonce="n", qop="auth", algorithm=MD5-sess'],
        ['Digest realm="r", nonce="", qop="auth"'],
        ['Digest nonce="n", qop="auth"'],
        ['Digest realm="r", qop="auth"'],
        ['Digest realm="\xff", nonce="n", qop="auth"'],
        ['Digest realm="€", nonce="n", qop="auth"'],
        ['Digest realm="'],
        ["Digest realm=r, qop=auth, nonce=" + "n" * 1025],
    ],
)
def test_weaker_or_broken_challenges_are_refused_and_change_nothing(headers: list[str]) -> None:
    credentials = challenged(MD5)
    given_by(credentials)
    with pytest.raises(RemoteProtocolError, match="not Digest with qop=auth and SHA-256 or MD5"):
        credentials.challenged(headers, 0.0)
    assert given_by(credentials)["nc"] == "00000002"
    assert not credentials.untried


def test_what_was_offered_instead_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="the peer offers basic, negotiate, but not Digest"):
        challenged("Negotiate", "Basic realm=x")
    with pytest.raises(RemoteProtocolError, match="the peer offers nothing readable, but"):
        challenged("=")


def test_md5_after_sha_256_is_a_downgrade() -> None:
    credentials = challenged(SHA, MD5)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="offered SHA-256 earlier and now only MD5"):
            credentials.challenged([MD5.replace("n1", "n2")], 0.0)
    assert given_by(credentials)["algorithm"] == "SHA-256"
    credentials.challenged([MD5, SHA.replace("n1", "n2")], 0.0)
    assert given_by(credentials).items() >= {"algorithm": "SHA-256", "nonce": "n2", "nc": "00000001"}.items()


def test_sha_256_after_md5_is_welcome() -> None:
    credentials = challenged(MD5)
    credentials.challenged([MD5, SHA], 0.0)
    assert given_by(credentials)["algorithm"] == "SHA-256"


@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from([SHA, MD5])), max_size=4))
def test_no_invented_challenge_raises_anything_else(headers: list[str]) -> None:
    try:
        credentials = challenged(*headers)
    except RemoteProtocolError:
        return
    given_by(credentials)
