import re
from collections.abc import Callable

import pytest

from gf_i2p.wire.digest import Authenticator, Credentials, Secret
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.http_get import HandshakeRefused, Retry
from gf_i2p.wire.limits import MAX_HTTP_HEAD_BYTES, MAX_HTTP_HEADERS
from gf_i2p.wire.proxy_login import ProxyLoginError
from gf_i2p.wire.upgrade import (
    AuthenticatedUser,
    ClientHandshake,
    HandshakeAnswer,
    HandshakeOutcome,
    ServerHandshake,
    Upgraded,
)
from tests.wire.handshakes import (
    CONFIG_PATH,
    HOUR,
    NOT_FOUND,
    PASSWORD,
    PATH,
    REQUEST_1,
    USER,
    Entropy,
    Node,
    authenticator,
    credentials,
    handshake,
    i2pd_answer,
    known,
    request_2,
)


def status(answer: HandshakeAnswer) -> int:
    return int(answer.data.split(b" ")[1])


def without_nonces(data: bytes) -> bytes:
    return re.sub(rb'nonce="[^"]*"', b"nonce", data)


# --- The two requests, as the proposal draws them -----------------------------------------------------------


def test_request_1_and_its_answer() -> None:
    client = handshake(credentials(), 0.0)
    assert client.request() == REQUEST_1
    answer = Node().answer(REQUEST_1, 0.0)
    assert (answer.outcome, answer.user) == (HandshakeOutcome.CHALLENGED, None)
    assert without_nonces(answer.data) == (
        b"HTTP/1.1 401 Unauthorized\r\n"
        b'WWW-Authenticate: Digest realm="farm", qop="auth", algorithm=SHA-256, nonce, charset=UTF-8\r\n'
        b'WWW-Authenticate: Digest realm="farm", qop="auth", algorithm=MD5, nonce, charset=UTF-8\r\n'
        b"Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    assert client.receive(answer.data, 0.0) == Retry()


def test_request_2_and_its_answer() -> None:
    node = Node()
    client = handshake(known(node), 0.0)
    request = client.request()
    assert (
        re.sub(rb"Authorization: Digest .*\r", b"Authorization: Digest\r", request)
        == (
            f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:9001\r\nCache-Control: no-cache\r\n"
            "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nAuthorization: Digest\r\n\r\n"
        ).encode()
    )
    answer = node.answer(request, 0.0)
    assert answer == HandshakeAnswer(
        HandshakeOutcome.UPGRADED,
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        AuthenticatedUser("farm", USER),
    )
    assert client.receive(answer.data, 0.0) == Upgraded(b"")


def test_through_a_proxy_the_target_is_absolute_the_uri_the_path_and_websocket_headers_go_along() -> None:
    node = Node()
    client = handshake(known(node), 0.0, proxied=True)
    request = client.request().decode()
    assert request.startswith(f"GET http://abcd.b32.i2p:9001{PATH} HTTP/1.1\r\nHost: abcd.b32.i2p:9001\r\n")
    assert f'uri="{PATH}"' in request
    assert re.search(r"\r\nSec-WebSocket-Key: [A-Za-z0-9+/]{22}==\r\nSec-WebSocket-Version: 13\r\n", request)
    answer = node.answer(request.encode(), 0.0)
    assert re.search(rb"\r\nSec-WebSocket-Accept: [A-Za-z0-9+/]{27}=\r\n", answer.data)
    assert client.receive(answer.data, 0.0) == Upgraded(b"")


def test_the_accept_header_is_that_of_rfc_6455() -> None:
    node = Node()
    key = b"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    answer = node.answer(request_2(node).replace(b"\r\n\r\n", key), 0.0)
    assert b"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer.data


def test_what_follows_the_heads_belongs_to_the_session() -> None:
    node = Node()
    client = handshake(known(node), 0.0)
    raft = b"\x01\x00\r\n\r\n\xff"
    answer = node.answer(client.request() + raft, 0.0)
    assert answer.rest == raft
    assert client.receive(answer.data + raft, 0.0) == Upgraded(raft)


def test_asking_for_the_request_again_does_not_use_another_count() -> None:
    client = handshake(known(Node()), 0.0)
    assert client.request() == client.request()


def test_the_handshake_ends_with_its_outcome() -> None:
    client = handshake(credentials(), 0.0)
    with pytest.raises(LocalProtocolError):
        client.receive(b"", 0.0)
    client.request()
    with pytest.raises(HandshakeRefused):
        client.receive(NOT_FOUND, 0.0)
    with pytest.raises(LocalProtocolError):
        client.receive(b"", 0.0)
    server = ServerHandshake({}, entropy=Entropy())
    assert server.receive(REQUEST_1, 0.0) == HandshakeAnswer(HandshakeOutcome.NOT_FOUND, NOT_FOUND)
    with pytest.raises(LocalProtocolError):
        server.receive(b"", 0.0)


# --- Caching: a reconnect within the hour is one request -------------------------------------------------------


@pytest.mark.parametrize("proxied", [False, True])
def test_a_reconnect_within_the_hour_is_one_request(proxied: bool) -> None:
    node, mine = Node(), credentials()
    assert node.dial(mine, 0.0, proxied=proxied) == 2
    for now in (1.0, HOUR / 2, HOUR):
        before = len(node.requests)
        assert node.dial(mine, now, proxied=proxied) == 1
        assert len(node.requests) == before + 1
    assert len(node.users) == 4


def test_connections_side_by_side_share_the_challenge_and_may_overtake_each_other() -> None:
    node, mine = Node(), credentials()
    assert node.dial(mine, 0.0) == 2
    clients = [handshake(mine, 0.0) for _ in range(20)]
    requests = [client.request() for client in clients]
    assert len(set(requests)) == 20
    for client, request in reversed(list(zip(clients, requests, strict=True))):
        assert client.receive(node.answer(request, 0.0).data, 0.0) == Upgraded(b"")


def test_two_first_connections_side_by_side_both_get_in() -> None:
    node, mine = Node(), credentials()
    clients = [handshake(mine, 0.0), handshake(mine, 0.0)]
    requests = [client.request() for client in clients]
    for client, request in zip(clients, requests, strict=True):
        assert client.receive(node.answer(request, 0.0).data, 0.0) == Retry()
    assert [node.dial(mine, 0.0), node.dial(mine, 0.0)] == [1, 1]


def test_after_the_challenge_has_aged_the_client_asks_anew() -> None:
    node, mine = Node(), credentials()
    assert node.dial(mine, 0.0) == 2
    assert node.dial(mine, 2 * HOUR + 1) == 2
    assert node.requests[2] == REQUEST_1


def test_a_restarted_server_says_stale_and_the_client_comes_back_with_the_new_nonce() -> None:
    node, mine = Node(), credentials()
    assert node.dial(mine, 0.0) == 2
    node.authenticator = authenticator(key=bytes(32))
    client = handshake(mine, 1.0)
    answer = node.answer(client.request(), 1.0)
    assert (status(answer), answer.outcome) == (401, HandshakeOutcome.CHALLENGED)
    assert answer.data.count(b", stale=true\r\n") == 2
    assert client.receive(answer.data, 1.0) == Retry()
    assert node.dial(mine, 1.0) == 1


def test_an_old_nonce_is_stale_and_two_requests_are_enough() -> None:
    node, mine = Node(authenticator(nonce_seconds=HOUR)), credentials()
    assert node.dial(mine, 0.0) == 2
    assert node.dial(mine, HOUR + 1) == 2
    assert REQUEST_1 not in node.requests[2:]


def test_a_replayed_request_is_refused() -> None:
    node = Node()
    request = request_2(node)
    assert status(node.answer(request, 0.0)) == 101
    for _ in range(2):
        answer = node.answer(request, 0.0)
        assert (status(answer), answer.outcome, answer.user) == (401, HandshakeOutcome.CHALLENGED, None)


# Refusals, and the knowledge that a refused client gains ------------------------------------------------------


def test_an_unknown_user_and_a_wrong_password_get_the_same_bytes() -> None:
    node = Node()
    answers = {
        without_nonces(node.answer(request, 0.0).data)
        for request in (
            REQUEST_1,
            request_2(node, password="wrong"),
            request_2(node, user="server-77"),
            request_2(node, user="server-77", password="wrong"),
            request_2(node)[:-2] + b"Authorization: Basic c2VydmVyLTE6eA==\r\n\r\n",
            REQUEST_1[:-2] + b"Authorization: Basic c2VydmVyLTE6eA==\r\n\r\n",
            REQUEST_1[:-2] + b"Authorization: Digest\r\n\r\n",
            REQUEST_1[:-2] + b'Authorization: \xff"\r\n\r\n',
        )
    }
    assert len(answers) == 1
    assert node.users == []
    assert b"stale" not in answers.pop()


BAD_HEADS = {
    "wrong path": "GET /GarlicFarm/farm/1/configuration HTTP/1.1\r\nHost: x\r\n\r\n",
    "config of a farm that has none to tell": f"GET {CONFIG_PATH} HTTP/1.1\r\nHost: x\r\n\r\n",
    "longer path": f"GET {PATH}/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "query": f"GET {PATH}?x HTTP/1.1\r\nHost: x\r\n\r\n",
    "path case": f"GET {PATH.lower()} HTTP/1.1\r\nHost: x\r\n\r\n",
    "root": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "asterisk": "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "proxy request": "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n",
    "unknown cluster": f"GET {PATH.replace('farm', 'other')} HTTP/1.1\r\nHost: x\r\n\r\n",
    "no cluster": "GET /GarlicFarm//1/websocket HTTP/1.1\r\nHost: x\r\n\r\n",
    "escaped cluster": f"GET {PATH.replace('farm', '%66arm')} HTTP/1.1\r\nHost: x\r\n\r\n",
    "other version": f"GET {PATH.replace('/1/', '/2/')} HTTP/1.1\r\nHost: x\r\n\r\n",
    "other method": f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "method case": f"get {PATH} HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/1.0": f"GET {PATH} HTTP/1.0\r\nHost: x\r\n\r\n",
    "HTTP/1.2": f"GET {PATH} HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no Host": f"GET {PATH} HTTP/1.1\r\n\r\n",
    "two Hosts": f"GET {PATH} HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
    "no colon": f"GET {PATH} HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
    "space before the colon": f"GET {PATH} HTTP/1.1\r\nHost : x\r\n\r\n",
    "body": f"GET {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    "chunked body": f"GET {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad length": f"GET {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {'9' * 5000}\r\n\r\n",
    "two spaces": f"GET  {PATH} HTTP/1.1\r\nHost: x\r\n\r\n",
    "odd bytes": f"GET {PATH}é HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("head", BAD_HEADS.values(), ids=BAD_HEADS)
def test_the_404_is_the_same_whatever_is_wrong(head: str) -> None:
    assert Node().answer(head.encode(), 0.0) == HandshakeAnswer(HandshakeOutcome.NOT_FOUND, NOT_FOUND)


def test_valid_credentials_do_not_change_the_404() -> None:
    node = Node()
    request = request_2(node)
    for good, bad in ((b"/1/", b"/2/"), (b"GET", b"PUT"), (b"HTTP/1.1", b"HTTP/1.0"), (b"Farm/farm", b"Farm/far")):
        assert node.answer(request.replace(good, bad, 1), 0.0) == HandshakeAnswer(HandshakeOutcome.NOT_FOUND, NOT_FOUND)
    assert status(node.answer(request, 0.0)) == 101


NOT_HTTP = {
    "TLS": bytes.fromhex("16030100c8010000c403038a"),
    "a Raft message": b"\x03\x00\x00\x00\x01" + bytes(40),
    "a control byte": b"GET / HTTP/1.1\r\n\x1b",
    "a text": b"hello\n\n",
    "HTTP/0.9": f"GET {PATH}\r\n\r\n".encode(),
    "an empty line first": b"\r\n\r\n" + REQUEST_1,
    "HTTP in lower case": b"GET / http/1.1\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n\n",
    "no end": b"GET " + b"x" * MAX_HTTP_HEAD_BYTES,
    "too long": REQUEST_1[:-2] + b"A: " + b"x" * MAX_HTTP_HEAD_BYTES + b"\r\n\r\n",
    "too many headers": REQUEST_1[:-2] + b"A: b\r\n" * MAX_HTTP_HEADERS + b"\r\n",
}


@pytest.mark.parametrize("data", NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_not_http_or_beyond_a_limit_gets_no_answer(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Node().answer(data, 0.0)


def test_no_answer_tells_software_version_or_time() -> None:
    node = Node()
    request = request_2(node)
    answers = [
        node.answer(data, 0.0).data
        for data in (REQUEST_1, b"GET / HTTP/1.1\r\n\r\n", request.replace(b"Upgrade:", b"X:"), request_2(node))
    ]
    assert [answer.split()[1] for answer in answers] == [b"401", b"404", b"426", b"101"]
    for answer in answers:
        names = set(re.findall(rb"\r\n([^:\r]+):", answer))
        assert names <= {b"WWW-Authenticate", b"Content-Length", b"Connection", b"Upgrade"}
        assert not re.search(rb"(?i)gf|python|h11|i2p", without_nonces(answer))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"keep-alive, Upgrade", b"close"),
        (b"keep-alive, Upgrade", b"keep-alive, Upgrades"),
        (b"Upgrade: websocket\r\n", b""),
        (b"Upgrade: websocket", b"Upgrade: h2c"),
    ],
)
def test_without_the_upgrade_who_is_known_is_told_what_is_missing(old: bytes, new: bytes) -> None:
    node = Node()
    mine = known(node)
    client = handshake(mine, 0.0)
    answer = node.answer(client.request().replace(old, new), 0.0)
    assert (status(answer), answer.outcome, answer.user) == (426, HandshakeOutcome.NOT_UPGRADED, None)
    with pytest.raises(HandshakeRefused, match="'Connection: Upgrade' did not arrive: a server tunnel must be"):
        client.receive(answer.data, 0.0)


def test_several_farms_on_one_port_are_kept_apart() -> None:
    def farm(name: str) -> Authenticator:
        return Authenticator(name, {USER: Secret.derive(USER, name, PASSWORD)}, key=bytes(32))

    farms = {"farm": farm("farm"), "other": farm("other")}

    def dial(cluster: str, mine: Credentials) -> tuple[bytes, HandshakeAnswer]:
        client = ClientHandshake(host="x", cluster=cluster, credentials=mine, now=0.0, entropy=Entropy("c"))
        answer = ServerHandshake(farms, entropy=Entropy()).receive(client.request(), 0.0)
        assert answer is not None
        if status(answer) == 401:
            client.receive(answer.data, 0.0)
        return client.request(), answer

    for cluster in farms:
        mine = credentials()
        dial(cluster, mine)
        request, answer = dial(cluster, mine)
        assert answer.user == AuthenticatedUser(cluster, USER)
    moved = request.replace(b"/other/", b"/farm/")
    moved_answer = ServerHandshake(farms, entropy=Entropy()).receive(moved, 0.0)
    assert moved_answer is not None
    assert status(moved_answer) == 401


def test_a_farm_added_while_a_connection_is_open_is_found() -> None:
    farms: dict[str, Authenticator] = {}
    server = ServerHandshake(farms, entropy=Entropy())
    assert server.receive(REQUEST_1[:10], 0.0) is None
    farms["farm"] = authenticator()
    answer = server.receive(REQUEST_1[10:], 0.0)
    assert answer is not None
    assert status(answer) == 401


# Changes by proxies (i2p-facts 6) ---------------------------------------------------------------------------------


def i2pd_client(request: bytes) -> bytes:
    """Change a request as i2pd's HTTP proxy does: path form, Host rewritten, Proxy-* and Referer removed."""
    text = request.replace(b"GET http://abcd.b32.i2p:9001/", b"GET /")
    text = re.sub(rb"Host: [^\r]*", b"Host: abcd.b32.i2p", text)
    return text.replace(b"\r\n\r\n", b"\r\nUser-Agent: MYOB/6.66 (AN/ON)\r\n\r\n")


def java_client(request: bytes) -> bytes:
    text = request.replace(b"GET http://abcd.b32.i2p:9001/", b"GET /")
    text = re.sub(rb"Host: [^\r]*", b"Host: abcd.b32.i2p", text)
    return text.replace(
        b"\r\n\r\n",
        b"\r\nUser-Agent: MYOB/6.66 (AN/ON)\r\nX-Accept-Encoding: x-i2p-gzip;q=1.0, identity;q=0.5, deflate;q=0, gzip;"
        b"q=0, *;q=0\r\nAccept-Encoding: \r\n\r\n",
    )


def java_server(request: bytes) -> bytes:
    """Java's HTTP server tunnel: Host spoofed, the caller's name in three headers."""
    text = re.sub(rb"Host: [^\r]*", b"Host: farm.i2p", request)
    caller = b"X-I2P-DestHash: a\r\nX-I2P-DestB64: " + b"A" * 524 + b"\r\nX-I2P-DestB32: b.b32.i2p"
    return text.replace(b"\r\n\r\n", b"\r\n" + caller + b"\r\n\r\n")


def lower_case(request: bytes) -> bytes:
    line, _, headers = request.partition(b"\r\n")
    return line + b"\r\n" + re.sub(rb"(?m)^[^:\r\n]+:", lambda m: m[0].lower(), headers)


def upper_case(request: bytes) -> bytes:
    line, _, headers = request.partition(b"\r\n")
    headers = re.sub(rb"(?m)^[^:\r\n]+:", lambda m: m[0].upper(), headers)
    return (
        line
        + b"\r\n"
        + headers.replace(b"keep-alive, Upgrade", b"KEEP-ALIVE,UPGRADE").replace(b": websocket\r", b": WebSocket\r")
    )


PROXIES: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda request: request,
    "i2pd's client proxy": i2pd_client,
    "Java's client proxy": java_client,
    "Java's both": lambda request: java_server(java_client(request)),
    "stray CRs": lambda request: request.replace(b"\r\n", b"\r\r\n"),
    "bare LFs": lambda request: request.replace(b"\r\n", b"\n"),
    "lower case": lower_case,
    "upper case": upper_case,
    "Proxy-Connection": lambda request: request.replace(b"\r\n\r\n", b"\r\nProxy-Connection: keep-alive\r\n\r\n"),
    "no spaces": lambda request: request.replace(b": ", b":"),
    "folded": lambda request: request.replace(b"Connection: ", b"Connection:\r\n  "),
    "split Connection": lambda request: request.replace(
        b"keep-alive, Upgrade\r\n", b"keep-alive\r\nConnection: upgrade\r\n"
    ),
}


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("back", [bytes, i2pd_answer, lower_case], ids=["as it is", "i2pd's", "lower case"])
@pytest.mark.parametrize("there", PROXIES.values(), ids=PROXIES)
def test_through_whatever_stands_between(
    there: Callable[[bytes], bytes], back: Callable[[bytes], bytes], proxied: bool
) -> None:
    node, mine = Node(), credentials()
    assert node.dial(mine, 0.0, proxied=proxied, there=there, back=back) == 2
    assert node.dial(mine, 1.0, proxied=proxied, there=there, back=back) == 1
    assert node.users == [AuthenticatedUser("farm", USER)] * 2


# --- Refusals of the client ----------------------------------------------------------------------------------


def refusal(answer: bytes, *, mine: Credentials | None = None, proxied: bool = False) -> str:
    client = handshake(mine or credentials(), 0.0, proxied=proxied)
    client.request()
    with pytest.raises((HandshakeRefused, ProxyLoginError)) as error:
        client.receive(answer, 0.0)
    return str(error.value)


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("server-77", PASSWORD)])
def test_a_wrong_password_is_refused_at_once_and_never_twice_in_a_row(user: str, password: str) -> None:
    node = Node()
    mine = known(node, user, password)
    for _ in range(3):  # a link comes back after a pause; each time is one request
        client = handshake(mine, 0.0)
        answer = node.answer(client.request(), 0.0)
        with pytest.raises(HandshakeRefused, match=f"refuses user {user} or its password: check both"):
            client.receive(answer.data, 0.0)
    assert len(node.requests) == 4


def test_a_changed_password_costs_one_retry() -> None:
    node, mine = Node(), credentials()
    assert node.dial(mine, 0.0) == 2
    node.authenticator.replace({USER: Secret.derive(USER, "farm", "new")})
    client = handshake(mine, 0.0)
    assert client.receive(node.answer(client.request(), 0.0).data, 0.0) == Retry()
    client = handshake(mine, 0.0)
    answer = node.answer(client.request(), 0.0)
    with pytest.raises(HandshakeRefused, match="refuses user"):
        client.receive(answer.data, 0.0)


def test_a_server_that_gives_one_nonce_for_ever_does_not_make_us_dial_for_ever() -> None:
    mine = credentials()
    answer = b'HTTP/1.1 401 X\r\nWWW-Authenticate: Digest realm="r", nonce="n", qop="auth"\r\n\r\n'
    outcomes = []
    for _ in range(6):
        client = handshake(mine, 0.0)
        client.request()
        try:
            outcomes.append(client.receive(answer, 0.0))
        except HandshakeRefused:
            outcomes.append(None)
    assert outcomes == [Retry(), None, None, None, None, None]


def test_a_peer_that_calls_every_nonce_stale_is_not_dialled_for_ever() -> None:
    node = Node()
    mine = known(node)
    node.authenticator = authenticator(key=bytes(32))
    client = handshake(mine, 0.0)
    answer = node.answer(client.request(), 0.0)
    with pytest.raises(HandshakeRefused, match="calls its own new nonce stale: the peer restarted"):
        client.receive(answer.data, 0.0)
    assert node.dial(mine, 0.0) == 1  # and the nonce of the answer is good for the next time


def test_downgrades_are_refused() -> None:
    node = Node()
    mine = credentials()
    assert node.dial(mine, 0.0) == 2
    answer = node.answer(REQUEST_1, 0.0).data
    only_md5 = re.sub(rb"WWW-Authenticate: [^\r]*SHA-256[^\r]*\r\n", b"", answer)
    assert "offered SHA-256 earlier and now only MD5" in refusal(only_md5, mine=mine)
    no_qop = answer.replace(b'qop="auth", ', b"")
    assert "log in to the peer: the peer offers digest, but not Digest with qop=auth" in refusal(no_qop)
    basic = b"HTTP/1.1 401 X\r\nWWW-Authenticate: Basic realm=x\r\n\r\n"
    assert "log in to the peer: the peer offers basic, but not Digest" in refusal(basic)
    assert "log in to the peer: the peer offers nothing readable" in refusal(b"HTTP/1.1 401 X\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "proxied", "expected"),
    [
        (NOT_FOUND, False, "404 Not Found: the peer has no farm named farm that speaks version 1: check the cluster"),
        (NOT_FOUND, True, "404 Not Found: the peer has no farm named farm"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", False, "200 OK, which no farm node sends: check that the endpoint"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", False, "302 Found, which no farm node sends"),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n<html>", True, "500 Internal Server Error: the HTTP proxy could"),
        (b"HTTP/1.0 504\r\n\r\n", True, "answer is 504: the HTTP proxy could not reach abcd"),
        (b"HTTP/1.1 407 X\r\nProxy-Authenticate: Basic realm=i2p\r\n\r\n", True, "proxy asks for a user and a pass"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", False, "not the HTTP/1.1 of a farm node (illegal status line"),
        (b"\x15\x03\x03", False, "not the HTTP/1.1 of a farm node (control characters"),
        (b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", False, "not the HTTP/1.1 of a farm"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 5, False, "(more than 4 answers 1xx in a row)"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_check(answer: bytes, proxied: bool, expected: str) -> None:
    assert expected in refusal(answer, proxied=proxied)


def test_a_peers_words_are_kept_short_and_printable() -> None:
    text = refusal(b"HTTP/1.1 500 \xc2\x9b31m" + b"x" * 9000 + b"\r\n\r\n")
    assert "x" * 55 in text
    assert text.isprintable()
    assert len(text) < 250
    text = refusal(b"x" * 9000 + b"\r\n\r\n")
    assert text.isprintable()
    assert len(text) < 300


def test_interim_answers_are_skipped() -> None:
    node = Node()
    client = handshake(known(node), 0.0)
    answer = node.answer(client.request(), 0.0).data
    assert client.receive(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Cont", 0.0) is None
    assert client.receive(b"inue\r\n\r\n" + answer + b"\x01", 0.0) == Upgraded(b"\x01")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Upgrade: websocket", b"Upgrade: h2c"),
        (b"Connection: Upgrade", b"Connection: close"),
        (b"Connection: Upgrade\r\n", b""),
    ],
)
def test_a_101_that_does_not_switch_to_websocket_is_refused(old: bytes, new: bytes) -> None:
    node = Node()
    client = handshake(known(node), 0.0)
    answer = node.answer(client.request(), 0.0).data.replace(old, new)
    with pytest.raises(HandshakeRefused, match="does not switch to websocket"):
        client.receive(answer, 0.0)


def test_an_accept_header_must_fit_the_key_but_may_be_missing() -> None:
    node = Node()
    accept = re.compile(rb"Sec-WebSocket-Accept: [^\r]*\r\n")
    for replacement, fits in ((b"", True), (b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", False)):
        client = handshake(known(node), 0.0, proxied=True)
        answer = accept.sub(replacement, node.answer(client.request(), 0.0).data)
        if fits:
            assert client.receive(answer, 0.0) == Upgraded(b"")
        else:
            with pytest.raises(HandshakeRefused, match="belongs to another request"):
                client.receive(answer, 0.0)


@pytest.mark.parametrize("host", ["", "a b", "a/b", "a\r\nX: y", "a@b", "ä"])
def test_a_host_that_would_break_the_head_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in an HTTP Host header: check the endpoint"):
        ClientHandshake(host=host, cluster="farm", credentials=credentials(), now=0.0, entropy=Entropy())


def test_a_cluster_that_would_break_the_path_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be a cluster name"):
        ClientHandshake(host="x", cluster="a/b", credentials=credentials(), now=0.0, entropy=Entropy())
