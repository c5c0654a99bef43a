"""`gf-i2p config make`: directories of many farms from files."""

from pathlib import Path

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from tests.cli.program import gf_json


def farm(directory: Path, cluster: str, *servers: str, more: str = "") -> Path:
    path = directory / f"{cluster}.toml"
    tables = "".join(f"\n[[servers]]\nid = {number}\n{server}\n" for number, server in enumerate(servers, 1))
    path.write_text(f'format = 1\ncluster = "{cluster}"\n{more}{tables}')
    return path


async def test_ten_farms_are_made_at_once(tmp_path: Path) -> None:
    files = [
        farm(
            tmp_path, f"farm-{number}", *(f'endpoint = "tcp://192.0.2.{server}:90{number:02}"' for server in (1, 2, 3))
        )
        for number in range(10)
    ]
    code, answer = await gf_json("config", "make", *files, "--into", tmp_path / "farms")
    assert (code, len(answer["written"])) == (0, 10)
    for number in range(10):
        made = tmp_path / "farms" / f"farm-{number}"
        configs = [Config.load(made / f"server-{server}") for server in (1, 2, 3)]
        assert {config.node.cluster for config in configs} == {f"farm-{number}"}
        assert len({str(config.servers) for config in configs}) == 1, "all know all, with the same certificates"
        assert ClientFile.load(made / "admin-owner.toml").cluster == f"farm-{number}"
        assert "admin-owner" in Secrets.load(made / "server-2").users


async def test_modes_come_from_the_file_and_addresses_inside_are_new(tmp_path: Path) -> None:
    old = f'endpoint = "tcp://{"a" * 52}.b32.i2p:80"\nmode = "dry-run"\npublish = "on"'
    file = farm(tmp_path, "barn", old, 'endpoint = "i2p"', 'endpoint = "tcp://192.0.2.1:9001"\nmode = "meta"')
    code, _ = await gf_json("config", "make", file, "--into", tmp_path / "farms")
    assert code == 0
    one, two, three = (Config.load(tmp_path / "farms" / "barn" / f"server-{number}") for number in (1, 2, 3))
    assert one.own_endpoint.is_i2p
    assert two.own_endpoint.is_i2p
    assert "aaaa" not in str(one.own_endpoint)
    assert (one.publish.mode, one.publish.publish, two.publish.mode) == ("dry-run", "on", "off")
    assert (three.publish.mode, three.router is not None) == ("meta", True)


async def test_all_or_nothing(tmp_path: Path) -> None:
    good = farm(tmp_path, "good", 'endpoint = "i2p"')
    into = tmp_path / "farms"
    for number, (tables, more) in enumerate(
        (
            (['endpoint = "nonsense"'], ""),
            ([], ""),
            (['endpoint = "i2p"\nmode = "loud"'], ""),
            (['endpoint = "i2p"'], "x = 1\n"),
        )
    ):
        bad = farm(tmp_path, f"bad-{number}", *tables, more=more)
        code, answer = await gf_json("config", "make", good, bad, "--into", into)
        assert (code in {1, 2}, answer["ok"]) == (True, False)
        assert not into.exists()
    code, answer = await gf_json("config", "make", good, good, "--into", into)
    assert (code, into.exists()) == (2, False)
    assert (await gf_json("config", "make", good, "--into", into))[0] == 0
    code, answer = await gf_json("config", "make", good, "--into", into)
    assert (code, "exists already" in answer["error"]) == (1, True)
    assert (into / "good" / "server-1" / "secrets.toml").exists(), "what was there stays"
