"""The servers of an old farm, in the words for an operator who begins the farm anew."""

from pathlib import Path

import pytest

from gf_i2p.cli.shared.new_servers import invitations, must_not_run_again, next_steps
from gf_i2p.node.files.checked_read import ConfigError
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.log_values import ClusterServer

INSIDE = "tcp://ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkdq.b32.i2p:80"


def made(directory: Path, *, admin: bool = False) -> Path:
    servers = {server: Endpoint("127.0.0.1", 9100 + server) for server in (1, 2)}
    make_farm(directory, dict(servers), cluster="farm", profile="lan", clients=[], admins=["owner"] if admin else [])
    return directory / "server-1"


@pytest.mark.parametrize(
    ("others", "further", "begins"),
    [
        ([2], "", "- Server 2 must never run again with its present data: "),
        ([3, 2], "", "- Servers 2 and 3 must never run again with their present data: "),
        ([4, 2, 3], "", "- Servers 2, 3 and 4 must never run again with their present data: "),
        ([2], "any other", "- Server 2 and any other must never run again with their present data: "),
        ([], "any other", "- Any other must never run again with its present data: "),
    ],
)
def test_one_server_and_several_have_their_grammar(others: list[int], further: str, begins: str) -> None:
    assert must_not_run_again(others, further=further).startswith(begins)


def test_where_no_other_server_was_none_is_named() -> None:
    assert must_not_run_again([]) == ""


def test_each_old_server_gets_a_new_one_with_a_new_id(tmp_path: Path) -> None:
    server = made(tmp_path / "a farm")
    old = [
        ClusterServer(7, INSIDE),
        ClusterServer(3, "tcp://127.0.0.1:9103"),
        ClusterServer(1, "tcp://127.0.0.1:9101"),
        ClusterServer(5, "nonsense"),
        ClusterServer(6, "tcp://127.0.0.1:9101"),
    ]
    place = f"'{server}'"
    assert invitations(server, old) == (
        f"gf-i2p members invite {place} 8=tcp://127.0.0.1:9103 --into new-servers",
        f"gf-i2p members invite {place} 9=ENDPOINT --into new-servers",
        f"gf-i2p members invite {place} 10=i2p --into new-servers",
    ), "server 6 had the endpoint of the server that begins the farm"


def test_an_administrators_file_beside_the_directory_makes_codes(tmp_path: Path) -> None:
    server = made(tmp_path, admin=True)
    assert invitations(server, [ClusterServer(2, "tcp://127.0.0.1:9102")]) == (
        f"gf-i2p members invite {tmp_path}/admin-owner.toml 3=tcp://127.0.0.1:9102 --code",
    )


def test_in_the_directory_itself_the_administrators_file_is_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made(tmp_path, admin=True))
    assert invitations(Path(), [ClusterServer(2, "tcp://[2001:db8::1]:9102")]) == (
        f"gf-i2p members invite {tmp_path}/admin-owner.toml '3=tcp://[2001:db8::1]:9102' --code",
    ), "a shell would take the brackets for a pattern"


def test_settings_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        invitations(tmp_path, [])


def test_the_next_steps_can_be_copied() -> None:
    text = next_steps(Path("a farm/server-1"), ["gf-i2p members invite X"])
    assert text.splitlines()[0] == "  gf-i2p run 'a farm/server-1'"
    assert "  gf-i2p members invite X" in text.splitlines()
    assert "new certificates" in text
    assert next_steps(Path("server-1"), []) == "  gf-i2p run server-1"
