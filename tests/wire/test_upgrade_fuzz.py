"""The handshake fed whole, byte by byte, cut at every point, and with arbitrary bytes."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_get import HandshakeRefused, Retry
from gf_i2p.wire.limits import MAX_HTTP_HEAD_BYTES
from gf_i2p.wire.upgrade import AuthenticatedUser, HandshakeAnswer, HandshakeOutcome, ServerHandshake, Upgraded
from tests.wire.handshakes import (
    NOT_FOUND,
    REQUEST_1,
    USER,
    Entropy,
    Node,
    authenticator,
    handshake,
    i2pd_answer,
    known,
    request_2,
)


def serve(*pieces: bytes, at: float = 0.0) -> HandshakeAnswer | str | None:
    """Give the pieces to a server's handshake; return its outcome. The same bytes have the same outcome."""
    server = ServerHandshake({"farm": authenticator()}, entropy=Entropy("server"))
    try:
        for number, piece in enumerate(pieces):
            answer = server.receive(piece, at)
            if answer is not None:
                rest = answer.rest + b"".join(pieces[number + 1 :])
                return replace(answer, rest=rest if answer.user else b"")
    except RemoteProtocolError:
        return "closed"
    return None


def ask(*pieces: bytes) -> Upgraded | Retry | str | None:
    client = handshake(known(Node()), 0.0)
    client.request()
    try:
        for number, piece in enumerate(pieces):
            outcome = client.receive(piece, 0.0)
            if isinstance(outcome, Upgraded):
                return Upgraded(outcome.rest + b"".join(pieces[number + 1 :]))
            if outcome is not None:
                return outcome
    except HandshakeRefused:
        return "refused"
    return None


def cuts(data: bytes) -> list[list[bytes]]:
    byte_by_byte = [data[i : i + 1] for i in range(len(data))]
    return [byte_by_byte, *([data[:cut], data[cut:]] for cut in range(1, len(data)))]


REQUEST_2 = request_2(Node())
ANSWER_101 = b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
ANSWER_401 = Node().answer(REQUEST_1, 0.0).data


@pytest.mark.parametrize(
    "data", [REQUEST_2 + b"raft", i2pd_answer(REQUEST_2), REQUEST_1, b"GET / HTTP/1.1\r\r\n\n", b"x\n\n"]
)
def test_the_server_does_not_care_how_a_request_is_cut(data: bytes) -> None:
    whole = serve(data)
    assert whole is not None
    assert all(serve(*pieces) == whole for pieces in cuts(data))


@pytest.mark.parametrize("data", [ANSWER_101 + b"raft\n\r\n", i2pd_answer(ANSWER_101), ANSWER_401, NOT_FOUND, b"x\n\n"])
def test_the_client_does_not_care_how_an_answer_is_cut(data: bytes) -> None:
    whole = ask(data)
    assert whole is not None
    assert all(ask(*pieces) == whole for pieces in cuts(data))


def mutated(original: bytes) -> st.SearchStrategy[bytes]:
    """The original with up to four slices replaced by others."""

    def change(edits: list[tuple[int, int, bytes]]) -> bytes:
        data = original
        for place, length, new in edits:
            at = place % (len(data) + 1)
            data = data[:at] + new + data[at + length :]
        return data

    bits = [b"\r", b"\n", b"\r\n", b" ", b":", b",", b'"', b"\\", b"\xff", b"\x00", b"Host: x\r\n", b"Authorization: "]
    new = st.one_of(st.binary(max_size=4), st.sampled_from(bits))
    return st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 8), new), max_size=4).map(change)


@given(st.one_of(st.binary(max_size=60), mutated(REQUEST_1), mutated(REQUEST_2)), st.integers(0, 2000))
def test_any_bytes_give_an_answer_or_the_documented_error_to_the_server(data: bytes, cut: int) -> None:
    whole = serve(data)
    assert serve(data[:cut], data[cut:]) == whole
    assert serve(*(data[i : i + 1] for i in range(len(data)))) == whole
    if isinstance(whole, HandshakeAnswer):
        assert (whole.user is not None) == whole.data.startswith(b"HTTP/1.1 101 ")
        assert (whole.outcome is HandshakeOutcome.UPGRADED) == (whole.user is not None)
        assert whole.user in (None, AuthenticatedUser("farm", USER))


@given(st.one_of(st.binary(max_size=60), mutated(ANSWER_101), mutated(ANSWER_401)), st.integers(0, 2000))
def test_any_bytes_give_an_outcome_or_the_documented_error_to_the_client(data: bytes, cut: int) -> None:
    whole = ask(data)
    assert ask(data[:cut], data[cut:]) == whole
    assert ask(*(data[i : i + 1] for i in range(len(data)))) == whole


@pytest.mark.parametrize("unit", [b" ", b"\t", b"\r", b"\n ", b",", b'"', b"\\", b"a", b"=", b'a="', b"\x0b", b":"])
@pytest.mark.parametrize("name", [b"Authorization: Digest ", b"X: ", b"X:", b"", b"Connection: ", b"Content-Length: "])
def test_the_nastiest_request_costs_little_time(name: bytes, unit: bytes) -> None:
    room = MAX_HTTP_HEAD_BYTES - len(REQUEST_1) - len(name) - 4
    data = REQUEST_1[:-2] + name + (unit * room)[:room] + b"\x01\r\n\r\n"
    clean = data.replace(b"\x01", b"x")
    started = time.process_time()
    for attempt in (data, clean):
        serve(attempt)
    assert time.process_time() - started < 0.5  # milliseconds
