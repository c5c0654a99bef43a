"""Asking for the Configuration: both sides, cut at every point, with limits, and with arbitrary bytes."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.configuration_get import ConfigurationGet
from gf_i2p.wire.digest import Authenticator, Credentials, Secret
from gf_i2p.wire.errors import LocalProtocolError, RemoteProtocolError
from gf_i2p.wire.http_get import HandshakeRefused, NotFound, PeerNotReached, Retry
from gf_i2p.wire.limits import MAX_CONFIGURATION_BYTES, MAX_ENDPOINT_BYTES, MAX_ID, MAX_INTEGER, MAX_SERVERS
from gf_i2p.wire.log_values import ClusterServer, Configuration
from gf_i2p.wire.upgrade import AuthenticatedUser, HandshakeAnswer, HandshakeOutcome, ServerHandshake, ToldConfiguration
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
)
from tests.wire.strategies import configurations, mutated

FARM = Configuration(
    17, 1, (ClusterServer(1, "tcp://192.0.2.1:9001"), ClusterServer(7, f"tcp://{'a' * 52}.b32.i2p:80"))
)
LARGEST = Configuration(
    MAX_INTEGER,
    MAX_INTEGER,
    tuple(ClusterServer(MAX_ID - 1 - number, "x" * MAX_ENDPOINT_BYTES) for number in range(MAX_SERVERS)),
)
FIRST = f"GET {CONFIG_PATH} HTTP/1.1\r\nHost: 127.0.0.1:9001\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n"


def told(_: str) -> bytes:
    return FARM.encode()


@dataclass
class Teller:
    """A server that tells the Configuration; `asked_by` are the users in the calls of the provider."""

    configurations: dict[str, ToldConfiguration] = field(default_factory=lambda: {"farm": told})
    authenticator: Authenticator = field(default_factory=authenticator)
    entropy: Entropy = field(default_factory=Entropy)
    requests: list[bytes] = field(default_factory=list)

    def answer(self, request: bytes, now: float = 0.0) -> HandshakeAnswer:
        self.requests.append(request)
        server = ServerHandshake({"farm": self.authenticator}, entropy=self.entropy, configurations=self.configurations)
        answer = server.receive(request, now)
        assert answer is not None
        return answer

    def ask(
        self,
        mine: Credentials,
        now: float = 0.0,
        *,
        proxied: bool = False,
        there: Callable[[bytes], bytes] = bytes,
        back: Callable[[bytes], bytes] = bytes,
    ) -> tuple[Configuration, int]:
        """Ask until told, through a proxy with changes to each message; return also the number of requests."""
        for requests in (1, 2):
            client = get(mine, now, proxied=proxied)
            outcome = client.receive(back(self.answer(there(client.request()), now).data), now)
            if isinstance(outcome, Configuration):
                return outcome, requests
            assert outcome == Retry()
        raise AssertionError("a third request would be needed")


def get(mine: Credentials, now: float = 0.0, *, proxied: bool = False) -> ConfigurationGet:
    return ConfigurationGet(
        host="abcd.b32.i2p:9001" if proxied else "127.0.0.1:9001",
        cluster="farm",
        credentials=mine,
        now=now,
        entropy=Entropy("client"),
        proxied=proxied,
    )


def known(teller: Teller, user: str = USER, password: str = PASSWORD) -> Credentials:
    mine = credentials(user, password)
    client = get(mine)
    assert client.receive(teller.answer(client.request()).data, 0.0) == Retry()
    return mine


def without_nonces(data: bytes) -> bytes:
    return re.sub(rb'nonce="[^"]*"', b"nonce", data)


# --- Both sides together ----------------------------------------------------------------------------------


def test_the_first_request_and_its_answer_are_those_of_the_upgrade_but_for_the_path() -> None:
    teller = Teller()
    assert get(credentials()).request() == FIRST.encode() == REQUEST_1.replace(b"websocket", b"config")
    assert without_nonces(teller.answer(FIRST.encode()).data) == without_nonces(teller.answer(REQUEST_1).data)


def test_the_second_request_and_its_answer() -> None:
    teller = Teller()
    client = get(known(teller))
    request = client.request()
    assert (
        re.sub(rb"Authorization: Digest .*\r", b"Authorization: Digest\r", request)
        == FIRST[:-2].encode() + b"Authorization: Digest\r\n\r\n"
    )
    answer = teller.answer(request)
    value = FARM.encode()
    assert answer == HandshakeAnswer(
        HandshakeOutcome.TOLD,
        b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        % len(value)
        + value,
        AuthenticatedUser("farm", USER),
    )
    assert client.receive(answer.data, 0.0) == FARM


def test_whoever_is_known_needs_one_request_and_either_path_will_do_to_become_known() -> None:
    teller, mine = Teller(), credentials()
    assert teller.ask(mine) == (FARM, 2)
    assert teller.ask(mine, HOUR) == (FARM, 1)
    upgrade = handshake(mine, HOUR)
    assert teller.answer(upgrade.request(), HOUR).user == AuthenticatedUser("farm", USER)
    assert teller.ask(mine, 2 * HOUR + 1) == (FARM, 2)


def test_the_provider_is_asked_for_the_one_who_has_authenticated_and_for_nobody_else() -> None:
    asked: list[str] = []

    def provider(user: str) -> bytes | None:
        asked.append(user)
        return FARM.encode() if user == USER else None

    teller = Teller({"farm": provider})
    for request in (FIRST.encode(), get(known(teller, password="wrong")).request(), REQUEST_1):
        teller.answer(request)
    assert asked == []
    assert teller.ask(credentials()) == (FARM, 2)
    # A user without a Configuration gets the answer for a farm that does not exist.
    client = get(known(teller, "client-a"))
    assert teller.answer(client.request()) == HandshakeAnswer(
        HandshakeOutcome.TOLD, NOT_FOUND, AuthenticatedUser("farm", "client-a")
    )
    assert asked == [USER, "client-a"]


@pytest.mark.parametrize("configuration", [Configuration(0, 0, ()), LARGEST])
def test_the_smallest_and_the_largest_are_told(configuration: Configuration) -> None:
    assert len(LARGEST.encode()) == MAX_CONFIGURATION_BYTES
    assert Teller({"farm": lambda _: configuration.encode()}).ask(credentials()) == (configuration, 2)


def test_through_a_proxy_the_target_is_absolute_and_the_uri_the_path() -> None:
    teller = Teller()
    request = get(known(teller), proxied=True).request().decode()
    assert request.startswith(f"GET http://abcd.b32.i2p:9001{CONFIG_PATH} HTTP/1.1\r\nHost: abcd.b32.i2p:9001\r\n")
    assert f'uri="{CONFIG_PATH}"' in request
    assert "WebSocket" not in request
    assert teller.answer(request.encode()).data.endswith(FARM.encode())


def proxy_request(request: bytes) -> bytes:
    request = re.sub(rb"GET http://[^/]+", b"GET ", request)
    return re.sub(rb"Host: [^\r]+", b"Host: abcd.b32.i2p\r\nUser-Agent: MYOB/6.66 (AN/ON)\r\nX-More: yes", request)


def proxy_answer(answer: bytes) -> bytes:
    head, rest = answer.split(b"\r\n\r\n", 1)
    return head + b"\r\nProxy-Connection: close\r\nDate: Sat, 21 Nov 2026 17:48:40 GMT\r\nVia: x\r\n\r\n" + rest


@pytest.mark.parametrize("there", [bytes, proxy_request])
@pytest.mark.parametrize("back", [bytes, i2pd_answer, proxy_answer])
def test_through_whatever_stands_between(there: Callable[[bytes], bytes], back: Callable[[bytes], bytes]) -> None:
    teller, mine = Teller(), credentials()
    assert teller.ask(mine, proxied=True, there=there, back=back) == (FARM, 2)
    assert teller.ask(mine, 1.0, proxied=True, there=there, back=back) == (FARM, 1)


def test_the_outcome_is_given_once() -> None:
    teller = Teller()
    client = get(known(teller))
    with pytest.raises(LocalProtocolError):
        client.receive(b"", 0.0)
    answer = teller.answer(client.request()).data
    assert client.request() == client.request()
    assert client.receive(answer, 0.0) == FARM
    with pytest.raises(LocalProtocolError):
        client.receive(b"", 0.0)


def test_several_farms_on_one_port_tell_each_its_own() -> None:
    def farm(name: str) -> Authenticator:
        return Authenticator(name, {USER: Secret.derive(USER, name, PASSWORD)}, key=bytes(32))

    farms = {name: farm(name) for name in ("farm", "other", "silent")}
    told = {"farm": lambda _: b"of farm", "other": lambda _: b"of other"}

    def ask(cluster: str, mine: Credentials) -> bytes:
        client = ConfigurationGet(host="x", cluster=cluster, credentials=mine, now=0.0, entropy=Entropy("c"))
        answer = ServerHandshake(farms, entropy=Entropy(), configurations=told).receive(client.request(), 0.0)
        assert answer is not None
        if b" 401 " in answer.data:
            client.receive(answer.data, 0.0)
        return answer.data

    for cluster in told:
        mine = credentials()
        ask(cluster, mine)
        assert ask(cluster, mine).endswith(f"\r\n\r\nof {cluster}".encode())
    assert ask("silent", credentials()) == NOT_FOUND


# --- Strangers --------------------------------------------------------------------------------------------


def test_who_is_not_known_gets_the_same_bytes_as_at_the_other_path() -> None:
    teller = Teller()
    requests = [
        FIRST.encode(),
        REQUEST_1,
        get(known(teller, password="wrong")).request(),
        get(known(teller, "server-77")).request(),
        get(known(teller, "server-77", "wrong")).request(),
        FIRST[:-2].encode() + b"Authorization: Basic c2VydmVyLTE6eA==\r\n\r\n",
        # Credentials are for one path only.
        get(known(teller)).request().replace(b"GET " + CONFIG_PATH.encode(), b"GET " + PATH.encode()),
        handshake(known(teller), 0.0).request().replace(b"GET " + PATH.encode(), b"GET " + CONFIG_PATH.encode()),
    ]
    answers = [teller.answer(request) for request in requests]
    assert len({without_nonces(answer.data) for answer in answers}) == 1
    assert answers[0].data.startswith(b"HTTP/1.1 401 ")
    assert [answer.user for answer in answers] == [None] * len(requests)
    assert [answer.outcome for answer in answers] == [HandshakeOutcome.CHALLENGED] * 2 + [HandshakeOutcome.REFUSED] * 6


BAD_HEADS = {
    "longer path": FIRST.replace("/config", "/config/"),
    "shorter path": FIRST.replace("/config", "/confi"),
    "query": FIRST.replace("/config", "/config?x"),
    "path case": FIRST.replace("/config", "/Config"),
    "unknown cluster": FIRST.replace("/farm/", "/other/"),
    "other version": FIRST.replace("/1/", "/2/"),
    "HEAD": FIRST.replace("GET", "HEAD"),
    "POST": FIRST.replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 0\r\n\r\n"),
    "HTTP/1.0": FIRST.replace("HTTP/1.1", "HTTP/1.0"),
    "body": FIRST.replace("\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc"),
    "no Host": FIRST.replace("Host: 127.0.0.1:9001\r\n", ""),
}


@pytest.mark.parametrize("head", BAD_HEADS.values(), ids=BAD_HEADS)
def test_the_404_is_the_same_whatever_is_wrong(head: str) -> None:
    assert Teller().answer(head.encode()) == HandshakeAnswer(HandshakeOutcome.NOT_FOUND, NOT_FOUND)


def test_valid_credentials_do_not_change_the_404() -> None:
    teller = Teller()
    request = get(known(teller)).request()
    for good, bad in ((b"/1/", b"/2/"), (b"GET", b"PUT"), (b"HTTP/1.1", b"HTTP/1.0"), (b"Farm/farm", b"Farm/far")):
        assert teller.answer(request.replace(good, bad, 1)) == HandshakeAnswer(HandshakeOutcome.NOT_FOUND, NOT_FOUND)
    assert teller.answer(request).data.startswith(b"HTTP/1.1 200 ")


def test_no_answer_tells_software_version_or_time() -> None:
    teller = Teller()
    for answer in (teller.answer(FIRST.encode()).data, teller.answer(get(known(teller)).request()).data):
        names = set(re.findall(rb"\r\n([^:\r]+):", answer.split(b"\r\n\r\n")[0]))
        assert names <= {b"WWW-Authenticate", b"Content-Type", b"Content-Length", b"Connection"}


# --- Answers that a client refuses ------------------------------------------------------------------------

VALUE = FARM.encode()
HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {len(VALUE)}\r\n\r\n".encode()


def outcome(*pieces: bytes, proxied: bool = False) -> object:
    client = get(known(Teller()), proxied=proxied)
    client.request()
    for piece in pieces:
        found = client.receive(piece, 0.0)
        if found is not None:
            return found
    return None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (HEAD.replace(b"%d" % len(VALUE), b"%d" % (MAX_CONFIGURATION_BYTES + 1)), "has 17489 bytes; the limit is"),
        (HEAD.replace(b"%d" % len(VALUE), b"9" * 20), "bytes; the limit is 17488"),
        (HEAD.replace(b"%d" % len(VALUE), b"9" * 21), "is not the HTTP/1.1 of a farm node"),
        (HEAD.replace(b"%d" % len(VALUE), b"-1"), "is not the HTTP/1.1 of a farm node"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n"), "is not the HTTP/1.1 of a farm node"),
        (re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", HEAD), "comes in chunks, which no farm node"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"), "comes in chunks"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: gzip\r\n\r\n"), "is not the HTTP/1.1 of a farm node"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: x-i2p-gzip\r\n\r\n"), "is compressed"),
        (re.sub(rb"Content-Length: \d+\r\n", b"", HEAD), "has no Content-Length"),
        (HEAD.replace(b"application/octet-stream", b"text/html; charset=UTF-8"), "is of the type text/html"),
        (HEAD.replace(b"%d" % len(VALUE), b"3") + b"abc", "is not a Configuration (a Configuration that ends"),
        (HEAD.replace(b"%d" % len(VALUE), b"0"), "is not a Configuration (a Configuration that ends 16 bytes early)"),
        (b"HTTP/1.1 206 Partial\r\nContent-Length: 3\r\n\r\nabc", "206 Partial, which no farm node sends"),
        (b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "is not the HTTP/1.1 of a farm node"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", "302 Found, which no farm node sends"),
    ],
)  # fmt: skip
def test_other_answers_are_refused_at_their_head_and_clearly(answer: bytes, expected: str) -> None:
    with pytest.raises(HandshakeRefused, match=re.escape(expected)) as refused:
        outcome(answer)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def test_headers_that_say_what_is_usual_do_no_harm() -> None:
    same = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\nContent-Encoding: identity\r\n\r\n" % len(VALUE))
    untyped = HEAD.replace(b"Content-Type: application/octet-stream\r\n", b"")
    for head in (same, untyped, HEAD.replace(b"octet-stream", b"OCTET-STREAM; x=y"), b"HTTP/1.1 100 C\r\n\r\n" + HEAD):
        assert outcome(head + VALUE) == FARM


def test_a_peer_without_it_and_a_peer_that_is_not_reached_are_told_apart() -> None:
    with pytest.raises(NotFound):
        outcome(NOT_FOUND)
    with pytest.raises(NotFound):
        outcome(i2pd_answer(NOT_FOUND), proxied=True)
    with pytest.raises(PeerNotReached, match="the HTTP proxy could not reach"):
        outcome(b"HTTP/1.1 500 Internal Server Error\r\n\r\n<html>", proxied=True)


def test_a_wrong_password_is_challenged_at_most_once() -> None:
    teller = Teller()
    mine = known(teller, password="wrong")
    client = get(mine)
    with pytest.raises(HandshakeRefused, match="refuses user server-1 or its password"):
        client.receive(teller.answer(client.request()).data, 0.0)


def test_a_node_without_it_is_no_trouble() -> None:
    with pytest.raises(NotFound):
        outcome(Node().answer(FIRST.encode(), 0.0).data)


# --- Any cuts, and any bytes ------------------------------------------------------------------------------


def tried(*pieces: bytes) -> object:
    try:
        return outcome(*pieces)
    except HandshakeRefused as error:
        return str(error)


def cuts(data: bytes) -> list[list[bytes]]:
    byte_by_byte = [data[i : i + 1] for i in range(len(data))]
    return [byte_by_byte, *([data[:cut], data[cut:]] for cut in range(1, len(data)))]


ANSWER = HEAD + VALUE
CHALLENGE = Teller().answer(FIRST.encode()).data


@pytest.mark.parametrize(
    "data",
    [ANSWER, ANSWER + b"more", i2pd_answer(ANSWER), ANSWER[:-1], CHALLENGE, NOT_FOUND, HEAD[:20] + b"\n\n", b"x\n\n"],
)
def test_the_client_does_not_care_how_an_answer_is_cut(data: bytes) -> None:
    whole = tried(data)
    assert (whole is None) == (data == ANSWER[:-1])
    assert all(tried(*pieces) == whole for pieces in cuts(data))


def test_the_server_does_not_care_how_a_request_is_cut() -> None:
    request = get(known(Teller(entropy=Entropy("a")))).request()

    def serve(pieces: list[bytes]) -> HandshakeAnswer | None:
        server = ServerHandshake({"farm": authenticator()}, entropy=Entropy("b"), configurations={"farm": told})
        answers = [server.receive(piece, 0.0) for piece in pieces]
        assert answers[:-1] == [None] * (len(pieces) - 1)
        return answers[-1]

    whole = serve([request])
    assert whole is not None
    assert whole.data.endswith(VALUE)
    assert all(serve(pieces) == whole for pieces in cuts(request))


@given(st.one_of(st.binary(max_size=60), mutated(st.sampled_from([ANSWER, CHALLENGE, NOT_FOUND]))), st.integers(0, 400))
def test_any_bytes_give_an_outcome_or_the_documented_error(data: bytes, cut: int) -> None:
    whole = tried(data)
    assert tried(data[:cut], data[cut:]) == whole
    assert tried(*(data[i : i + 1] for i in range(len(data)))) == whole


@given(mutated(st.just(get(known(Teller())).request())))
def test_any_request_gives_an_answer_or_the_documented_error(data: bytes) -> None:
    try:
        answer = ServerHandshake({"farm": authenticator()}, entropy=Entropy(), configurations={"farm": told}).receive(
            data, 0.0
        )
    except RemoteProtocolError:
        return
    assert answer is None or (answer.outcome is HandshakeOutcome.TOLD) == answer.data.endswith(VALUE)


@given(configurations)
def test_what_is_told_is_what_arrives(configuration: Configuration) -> None:
    assert Teller({"farm": lambda _: configuration.encode()}).ask(credentials()) == (configuration, 2)
