"""Login by a key: who gets in, and what a thief, a relay, a replay and a downgrade get."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gf_i2p.node.access.login_keys import LoginKey, is_signed
from gf_i2p.wire.digest import Authenticator, Credentials, Refused, Secret, Verifier
from gf_i2p.wire.http_get import Challenges, HandshakeRefused, Retry
from gf_i2p.wire.key_credentials import KeyCredentials, Login
from gf_i2p.wire.key_proof import NOBODY, Dialled, KeyAnswer, PublicKey, proof_text
from gf_i2p.wire.upgrade import Upgraded
from tests.wire.handshakes import CONFIG_PATH, KEY, PASSWORD, PATH, Entropy, Node, handshake

USER = "server-2"
OURS, OTHER = LoginKey(bytes(range(32))), LoginKey(bytes(range(1, 33)))
HERE = Dialled(1, "sha256:" + "ab" * 32)
TEXT = proof_text(HERE, realm="farm", method="GET", path=PATH, nonce="n", count="00000001", cnonce="c", user=USER)


def authenticator(
    users: dict[str, Verifier] | None = None, *, at: Dialled = HERE, key: bytes = KEY, checks: list[bytes] | None = None
) -> Authenticator:
    def verify(public: bytes, signature: bytes, text: bytes) -> bool:
        if checks is not None:
            checks.append(public)
        return is_signed(public, signature, text)

    users = {USER: OURS.public} if users is None else users
    return Authenticator("farm", users, key=key, dialled=at, verify_signature=verify)


def dial(node: Node, credentials: Credentials, now: float = 0.0, channel: str = HERE.channel) -> bytes:
    """Connect until upgraded, as a link does; return the last request."""
    challenges = Challenges(credentials.others)
    while True:
        client = handshake(credentials, now)
        request = client.request(channel)
        outcome = client.receive(node.answer(request, now).data, now)
        if isinstance(outcome, Upgraded):
            return request
        assert isinstance(outcome, Retry)
        assert challenges.admit(outcome), "challenged again"


def ours(keys: Sequence[LoginKey] = (OURS,), password: str | None = None, server: int = 1) -> KeyCredentials:
    return KeyCredentials(USER, server, keys, password)


def answered(node: Node, request: bytes, now: float = 0.0) -> bytes:
    return node.answer(request, now).data


def test_a_key_logs_in_and_its_nonce_serves_the_next_connections() -> None:
    node, credentials = Node(authenticator()), ours()
    request = dial(node, credentials)
    assert b"\r\nAuthorization: GarlicFarm-Key username=" in request
    assert [user.user for user in node.users] == [USER]
    assert len(node.requests) == 2
    dial(node, credentials)
    assert len(node.requests) == 3, "one request: the challenge is kept"


def test_strangers_see_no_difference() -> None:
    with_keys, with_digest = Node(authenticator()), Node(Authenticator("farm", {}, key=KEY))
    first = handshake(ours(), 0.0).request(HERE.channel)
    assert b"uthorization" not in first
    assert answered(with_keys, first) == answered(with_digest, first)


def test_a_replay_is_stale_and_lets_nobody_in() -> None:
    node = Node(authenticator())
    request = dial(node, ours())
    assert b" 401 " in (again := answered(node, request))
    assert again.count(b"stale=true") == 2
    assert len(node.users) == 1
    another = Node(authenticator(key=bytes(32)))
    assert b" 401 " in answered(another, request)
    assert another.users == []


@pytest.mark.parametrize("there", [Dialled(3, HERE.channel), Dialled(1, "sha256:" + "cd" * 32)], ids=["id", "channel"])
def test_a_dialled_server_cannot_pass_the_proof_on(there: Dialled) -> None:
    """The dialled server hands on the nonce of another server, and the proof for that nonce."""
    victim = Node(authenticator(at=there))
    credentials = ours()
    client = handshake(credentials, 0.0)
    assert client.receive(answered(victim, client.request(HERE.channel)), 0.0) == Retry()
    relayed = handshake(credentials, 0.0).request(HERE.channel)
    answer = answered(victim, relayed)
    assert b" 401 " in answer
    assert b"stale" not in answer, "no hint that the nonce was good"
    assert victim.users == []
    victim.authenticator.dialled = HERE
    assert b" 101 " in answered(victim, relayed), "only the server's name was wrong"


def test_each_part_of_the_text_counts() -> None:
    """No part may be moved into its neighbour, or changed."""
    parts = {"realm": "farm", "method": "GET", "path": PATH, "nonce": "n", "count": "00000001", "cnonce": "c"}
    texts = {
        TEXT,
        proof_text(HERE, **parts, user=USER + "1"),
        proof_text(Dialled(11, HERE.channel), **parts, user=USER),
    }
    for name, value in parts.items():
        texts.add(proof_text(HERE, **parts | {name: value + "x"}, user=USER))
    assert len(texts) == 3 + len(parts)
    assert TEXT.startswith(b"\0\0\0\x1fgf-i2p: login by key, version 1\0\0\0\x04farm\0\0\0\x03GET")


def test_another_path_or_method_needs_another_proof() -> None:
    node = Node(authenticator())
    header = dial(node, ours()).decode().split("Authorization: ")[1].split("\r\n")[0]
    answer = KeyAnswer.parse(header)
    assert answer is not None
    fresh = replace(answer, count="00000002").header()
    checker = node.authenticator
    assert checker.verify(fresh, "GET", PATH, 0.0) == Refused(stale=False), "the count is signed"
    assert checker.verify(header, "GET", CONFIG_PATH, 0.0) == Refused(stale=False)
    assert checker.verify(header, "HEAD", PATH, 0.0) == Refused(stale=False)
    assert checker.verify(header, "GET", PATH, 0.0) == Refused(stale=True)
    assert checker.verify(header, "GET", "http://proxy" + PATH, 0.0) == Refused(stale=True), "proxies change the form"


def test_a_server_that_has_a_users_key_refuses_the_users_digest() -> None:
    """The thief has the HA1 of the user, or the user's client was made to answer by Digest."""
    node = Node(authenticator())
    with pytest.raises(HandshakeRefused, match="or its password"):
        dial(node, Credentials(USER, PASSWORD))
    both = KeyCredentials(USER, 1, [OTHER], PASSWORD)
    with pytest.raises(HandshakeRefused, match="or its key"):
        dial(node, both)
    assert node.users == []


def test_a_public_half_lets_nobody_in() -> None:
    node = Node(authenticator())
    for seed in (OURS.public.raw, NOBODY.raw, bytes(32), OTHER.public.raw):
        with pytest.raises(HandshakeRefused, match=f"refuses user {USER} or its key: check both"):
            dial(node, ours([LoginKey(seed)]))
    with pytest.raises(HandshakeRefused):
        dial(node, Credentials(USER, OURS.public.raw.hex()))
    assert node.users == []


def test_a_foreign_peer_gets_digest_only_if_the_file_has_a_password() -> None:
    foreign = Node(Authenticator("farm", {USER: Secret.derive(USER, "farm", PASSWORD)}, key=KEY))
    with pytest.raises(HandshakeRefused, match="or its key"):
        dial(foreign, ours())
    assert not any(b"Authorization: Digest" in request for request in foreign.requests)
    credentials = ours(password=PASSWORD)
    assert b"Authorization: Digest" in dial(foreign, credentials)
    requests = len(foreign.requests)
    dial(foreign, credentials)
    assert len(foreign.requests) == requests + 1, "the client keeps to what the peer understands"


def test_several_keys_have_their_turns_until_one_is_accepted() -> None:
    node, credentials = Node(authenticator()), ours([OTHER, LoginKey(bytes(32)), OURS])
    dial(node, credentials)
    assert len(node.requests) == 4
    node.authenticator.replace({USER: OTHER.public})
    with pytest.raises(HandshakeRefused):
        dial(node, credentials)  # the last proof was refused, and the next attempt begins with the first
    dial(node, credentials)
    credentials.replace([OURS])
    node.authenticator.replace({USER: OURS.public})
    dial(node, credentials)
    assert len(node.users) >= 3


def test_connections_side_by_side_skip_no_proof() -> None:
    node, credentials = Node(authenticator()), ours([OTHER, OURS])
    challenge = handshake(credentials, 0.0)
    assert challenge.receive(answered(node, challenge.request(HERE.channel)), 0.0) == Retry()
    clients = [handshake(credentials, 0.0), handshake(credentials, 0.0)]
    requests = [client.request(HERE.channel) for client in clients]
    for client, request in zip(clients, requests, strict=True):
        assert client.receive(answered(node, request), 0.0) == Retry()
    dial(node, credentials)
    assert credentials.turn == 1


def test_unknown_users_and_wrong_proofs_cost_the_same_and_get_the_same() -> None:
    checks: list[bytes] = []
    users: dict[str, Verifier] = {USER: OURS.public, "client-d": Secret.derive("client-d", "farm", PASSWORD)}
    answers = set()
    for user in (USER, "client-d", "server-77"):
        node = Node(authenticator(users, checks=checks), entropy=Entropy("same"))
        credentials = KeyCredentials(user, 1, [OTHER])
        client = handshake(credentials, 0.0)
        client.receive(answered(node, client.request(HERE.channel)), 0.0)
        answers.add(answered(node, handshake(credentials, 0.0).request(HERE.channel)))
    assert len(answers) == 1
    assert checks == [OURS.public.raw, NOBODY.raw, NOBODY.raw]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('username="server-2", ', ""),
        ("nc=00000001", "nc=00000000"),
        ("nc=00000001", "nc=1"),
        ("nc=00000001", "nc=0000000A"),
        ('signature="', 'signature="0'),
        ('signature="', 'signature="zz'),
        ("GarlicFarm-Key ", "GarlicFarm-Key x, "),
        ("GarlicFarm-Key ", 'GarlicFarm-Key username="a", '),
    ],
)
def test_a_header_that_is_no_proof_is_refused(old: str, new: str) -> None:
    header = KeyAnswer(USER, "n", "00000001", "c", OURS.sign(TEXT)).header()
    assert KeyAnswer.parse(header) is not None
    assert old in header
    damaged = header.replace(old, new)
    assert KeyAnswer.parse(damaged) is None
    assert authenticator().verify(damaged, "GET", PATH, 0.0) == Refused(stale=False)


def test_without_knowledge_of_itself_a_server_takes_no_proof() -> None:
    node = Node(authenticator())
    request = dial(node, ours()).decode()
    header = request.split("Authorization: ")[1].split("\r\n")[0]
    node.authenticator.dialled = None
    assert node.authenticator.verify(header, "GET", PATH, 0.0) == Refused(stale=False)


def test_the_nonce_window_is_that_of_digest() -> None:
    node, credentials = Node(authenticator()), ours()
    dial(node, credentials)
    late = handshake(credentials, 0.0).request(HERE.channel)
    for _ in range(3):
        dial(node, credentials)
    assert b" 101 " in answered(node, late), "overtaken by later counts"
    assert b"stale=true" in answered(node, late)


def test_texts_of_keys() -> None:
    assert PublicKey.parse(str(OURS.public)) == OURS.public
    assert LoginKey.parse(OURS.text) == OURS
    assert OURS.text not in repr(OURS)
    for wrong in ("", OURS.text, "ed25519:" + "A" * 64, "ed25519:" + "a" * 63):
        with pytest.raises(ValueError, match="is no public key"):
            PublicKey.parse(wrong)
    with pytest.raises(ValueError, match="is no private key") as error:
        LoginKey.parse(str(OURS.public))
    assert OURS.public.raw.hex() not in str(error.value)
    with pytest.raises(ValueError, match="32 bytes"):
        PublicKey(b"")


def test_a_login_needs_a_key_or_a_password_and_shows_neither() -> None:
    with pytest.raises(ValueError, match="neither a key nor a password"):
        Login(USER)
    login = Login(USER, "hidden", (OURS,))
    assert "hidden" not in repr(login)
    assert OURS.text not in repr(login)
    foreign = Node(Authenticator("farm", {USER: Secret.derive(USER, "farm", "hidden")}, key=KEY))
    dial(foreign, Login(USER, "hidden").at(3))
    assert len(foreign.requests) == 2
    with pytest.raises(ValueError, match="neither a key nor a password"):
        Login(USER, None, (OURS,)).at(3).replace([])
