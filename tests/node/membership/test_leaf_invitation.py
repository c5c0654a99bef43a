"""An invitation tells a leaf member about the servers, and tells the servers about the leaf member."""

import stat
from pathlib import Path

import pytest

from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.netdb.encoding import to_b32_address
from gf_i2p.node.access.login_keys import LoginKey
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.leaf_file import LEAF_FILE, MAX_LEAVES, LeafFile
from gf_i2p.node.membership import leaf_invitation
from gf_i2p.node.membership.invitation import invite as invite_server
from gf_i2p.node.membership.leaf_invitation import accept, invite, invites_leaf_member, leaf_members_of, remove
from gf_i2p.wire.endpoint import Endpoint


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    servers = {1: Endpoint("127.0.0.1", 4001), 2: Endpoint("127.0.0.1", 4002)}
    make_farm(tmp_path, servers, cluster="farm", profile="lan", clients=["web"])
    return tmp_path


def test_the_member_knows_the_servers_and_the_servers_its_key(farm: Path) -> None:
    invited = invite(farm / "server-1", farm / "new")
    assert invited.id == FIRST_LEAF_MEMBER_ID
    assert invited.unknown == ()
    file = LeafFile.load(LeafFile.find(invited.member))
    assert (file.id, file.user, file.cluster) == (FIRST_LEAF_MEMBER_ID, f"leaf-{FIRST_LEAF_MEMBER_ID}", "farm")
    listed = [(each.id, each.endpoint, each.fingerprint) for each in file.servers]
    assert listed == [(each.id, each.endpoint, each.fingerprint) for each in Config.load(farm / "server-1").servers]
    assert file.key is not None
    expected = LoginKey.parse(file.key.get_secret_value()).public
    for number in (1, 2):
        directory = farm / f"server-{number}"
        others = Secrets.load(directory).verifiers
        assert accept(directory, invited.accept)
        assert Secrets.load(directory).verifiers == {**others, file.user: expected}
        assert not accept(directory, invited.accept), "once is enough"


def test_nobody_else_reads_what_lets_speak_for_the_member(farm: Path) -> None:
    invited = invite(farm / "server-1", farm / "new")
    accept(farm / "server-1", invited.accept)
    for path in (invited.accept, invited.member / LEAF_FILE, farm / "server-1" / "secrets.toml"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    invited.accept.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        accept(farm / "server-2", invited.accept)


def test_each_member_has_an_id_of_its_own(farm: Path) -> None:
    for number in range(3):
        invited = invite(farm / "server-1", farm / "new")
        assert invited.id == FIRST_LEAF_MEMBER_ID + number
        accept(farm / "server-1", invited.accept)
    assert leaf_members_of(Secrets.load(farm / "server-1")) == [FIRST_LEAF_MEMBER_ID + number for number in range(3)]
    with pytest.raises(ConfigError, match="known already"):
        invite(farm / "server-1", farm / "other", FIRST_LEAF_MEMBER_ID + 1)
    with pytest.raises(ConfigError, match="exists already"):
        invite(farm / "server-2", farm / "new", FIRST_LEAF_MEMBER_ID + 1)
    for wrong in (7, FIRST_LEAF_MEMBER_ID - 1, 2**32 - 1):
        with pytest.raises(ConfigError, match="id is from 2147483648 to 4294967294"):
            invite(farm / "server-1", farm / "other", wrong)


def test_two_that_were_invited_with_one_id_are_told_apart(farm: Path) -> None:
    first, second = invite(farm / "server-1", farm / "a"), invite(farm / "server-2", farm / "b")
    assert first.id == second.id
    accept(farm / "server-1", first.accept)
    before = (farm / "server-1" / "secrets.toml").read_text()
    with pytest.raises(ConfigError, match="another user leaf-2147483648"):
        accept(farm / "server-1", second.accept)
    assert (farm / "server-1" / "secrets.toml").read_text() == before


def test_a_member_that_is_removed_is_no_user_any_more(farm: Path) -> None:
    invited = invite(farm / "server-1", farm / "new")
    before = Secrets.load(farm / "server-1").verifiers
    accept(farm / "server-1", invited.accept)
    assert remove(farm / "server-1", invited.id)
    assert Secrets.load(farm / "server-1").verifiers == before
    assert not remove(farm / "server-1", invited.id)


def test_a_server_that_joins_knows_the_members(farm: Path) -> None:
    accept(farm / "server-1", invite(farm / "server-1", farm / "new").accept)
    written = invite_server(farm / "server-1", farm / "more", 3, Endpoint("127.0.0.1", 4003))
    assert leaf_members_of(Secrets.load(written.server)) == [FIRST_LEAF_MEMBER_ID]


def test_an_invitation_is_for_one_farm_and_of_one_kind(farm: Path) -> None:
    make_farm(farm / "b", {1: Endpoint("127.0.0.1", 4009)}, cluster="other", profile="lan", clients=[])
    invited = invite(farm / "server-1", farm / "new")
    with pytest.raises(ConfigError, match="is for the farm 'farm'"):
        accept(farm / "b" / "server-1", invited.accept)
    server = invite_server(farm / "server-1", farm / "more", 3, Endpoint("127.0.0.1", 4003))
    assert invites_leaf_member(invited.accept)
    assert not invites_leaf_member(server.accept)


def test_no_server_is_invited_with_a_members_id(farm: Path) -> None:
    with pytest.raises(ConfigError, match="belong to leaf members"):
        invite_server(farm / "server-1", farm / "more", FIRST_LEAF_MEMBER_ID, Endpoint("127.0.0.1", 4003))
    with pytest.raises(ConfigError, match="belong to leaf members"):
        make_farm(farm / "b", {FIRST_LEAF_MEMBER_ID: None}, cluster="farm", profile="auto", clients=[])


def test_a_farm_inside_i2p_is_reached_by_the_members_router(tmp_path: Path) -> None:
    make_farm(tmp_path, {1: None, 2: None}, cluster="farm", profile="auto", clients=[])
    file = LeafFile.load(invite(tmp_path / "server-1", tmp_path / "new").member / LEAF_FILE)
    assert all(Endpoint.parse(server.endpoint).is_i2p for server in file.servers)
    assert file.inside_proxy == file.router


def test_a_ca_goes_along(farm: Path) -> None:
    directory = farm / "server-1"
    path = directory / "gf-i2p.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("fingerprint")]
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="no CA"):
        invite(directory, farm / "new")
    path.write_text("\n".join(lines).replace("[tls] ", '[tls]\nca = "mine.pem"'))
    (directory / "mine.pem").write_bytes((directory / "certificate.pem").read_bytes())
    invited = invite(directory, farm / "new")
    file = LeafFile.load(invited.member / LEAF_FILE)
    assert file.ca is not None
    assert Path(file.ca).read_bytes() == (directory / "mine.pem").read_bytes()


def further(number: int) -> str:
    return f'[[publish.leaves]]\nleaf = "{to_b32_address(bytes([number] * 32))}"\n'


def test_a_member_may_have_four_leaves(farm: Path) -> None:
    path = invite(farm / "server-1", farm / "new").member / LEAF_FILE
    path.write_text(
        path.read_text().replace("[router]", f"{''.join(further(number) for number in range(4))}[router]", 1)
    )
    assert len(LeafFile.load(path).publish.all_leaves) == MAX_LEAVES == 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("leaf-2147483648", "client-web"), "no leaf member"),
        (("leaf-2147483648", "leaf-7"), "names no leaf member"),
        (("[router]", "[i2p]\n[router]\n"), "leave this table out"),
        (('# leaf = "....b32.i2p"', 'leaf = "web"'), "no b32 address"),
        (("[router]", f"{''.join(further(number) for number in range(5))}[router]"), "5 leaves, and the most are 4"),
        (("[router]", '[router]\ni2pcontrol = "https://127.0.0.1:7650/"'), "i2pcontrol_password: is missing"),
        (("[router]", '[router]\ninfo_file = "router.info"'), "router.info_file: is for servers"),
        (("[router]", "[elsewhere]"), "router: is missing"),
    ],
)
def test_mistakes_in_the_file_are_named(farm: Path, change: tuple[str, str], why: str) -> None:
    path = invite(farm / "server-1", farm / "new").member / LEAF_FILE
    path.write_text(path.read_text().replace('user = "leaf', 'user = "leaf').replace(*change))
    with pytest.raises(ConfigError, match=why):
        LeafFile.load(path)


def test_a_directory_without_the_file_is_no_members(farm: Path) -> None:
    with pytest.raises(ConfigError, match="invite-leaf"):
        LeafFile.find(farm / "server-1")
    with pytest.raises(ConfigError, match="invite-leaf"):
        LeafFile.find(farm / "nowhere")
    assert leaf_invitation.user_of(FIRST_LEAF_MEMBER_ID) == "leaf-2147483648"


def test_behind_the_last_id_a_free_one_is_taken(farm: Path) -> None:
    last = leaf_invitation.invite_and_accept(farm / "server-1", farm / "new", 2**32 - 2)
    assert last.id == 2**32 - 2
    for number in range(2):
        assert leaf_invitation.invite_and_accept(farm / "server-1", farm / "new").id == FIRST_LEAF_MEMBER_ID + number
