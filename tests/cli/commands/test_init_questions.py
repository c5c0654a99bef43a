"""`gf-i2p init` without arguments: questions, and a farm that begins with one server."""

import tomllib
from pathlib import Path

import pytest

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config
from gf_i2p.node.membership.join_code import JoinCode
from integration.harness.local_farm import LocalFarm, until
from integration.harness.processes import free_ports
from tests.cli.program import PATIENCE, gf, gf_json


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_enter_is_enough_for_a_farm_inside_i2p(tmp_path: Path) -> None:
    code, text, error = await gf("init", stdin="\n" * 4)
    assert code == 0, error
    for word in ("my-farm", "i2p", "3", "failover", "Ctrl-C"):
        assert word in error
    for line in (
        "gf-i2p run my-farm/server-1",
        "gf-i2p members invite my-farm/admin-owner.toml 2=i2p --code",
        "gf-i2p join",
    ):
        assert f"  {line}\n" in text
    config = Config.load(tmp_path / "my-farm" / "server-1")
    assert (config.own_endpoint.is_i2p, config.publish.mode) == (True, "off")
    assert sorted(path.name for path in (tmp_path / "my-farm").iterdir()) == [
        ".gitignore",
        "admin-owner.toml",
        "server-1",
    ]


async def test_the_answers_are_checked_and_asked_for_again(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    answers = ["farm", "nowhere", f"127.0.0.1:{port}", "many", "5", "loud", "failover", "127.0.0.1:8081"]
    code, text, error = await gf("init", stdin="\n".join(answers) + "\n")
    assert code == 0, error
    assert "a whole number from 1 to 64" in error
    assert "one of off, failover, meta, dry-run" in error
    assert "2=tcp://HOST:PORT --code" in text
    assert "servers 2 to 5" in text
    config = Config.load(tmp_path / "farm" / "server-1")
    assert config.publish.mode == "failover"
    assert config.publish.service is not None
    assert config.publish.service.target == "127.0.0.1:8081"
    status, keys = await gf_json("keys", "status", tmp_path / "farm" / "server-1")
    assert (status, keys["due"]) == (0, False)
    for name in ("service.master", "admin-owner.toml", "server-1/secrets.toml", "server-1/master.dat"):
        assert (tmp_path / "farm" / name).stat().st_mode & 0o077 == 0


async def test_nothing_is_made_without_all_answers(tmp_path: Path) -> None:
    for answers in ("", "farm\n", "farm\ni2p\n3\n"):
        code, answer = await gf_json("init", stdin=answers)
        assert (code, "nothing was made" in answer["error"]) == (2, True)
        assert not made(tmp_path)
    for words in (["farm"], ["--server", "1=i2p"]):
        code, answer = await gf_json("init", *words)
        assert (code, "give DIR" in answer["error"]) == (2, True)


async def test_a_farm_that_is_there_is_not_asked_into_another(tmp_path: Path) -> None:
    assert (await gf("init", stdin="\n" * 4))[0] == 0
    before = tomllib.loads((tmp_path / "my-farm" / "admin-owner.toml").read_text())
    code, _, error = await gf("init", stdin="\n")
    assert (code, "exists already" in error) == (2, True)
    assert tomllib.loads((tmp_path / "my-farm" / "admin-owner.toml").read_text()) == before


async def test_the_farm_runs_and_its_codes_are_good(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    code, _, error = await gf("init", stdin=f"farm\n127.0.0.1:{port}\n2\noff\n")
    assert code == 0, error
    admin = tmp_path / "farm" / "admin-owner.toml"
    _, answer = await gf_json("members", "invite", admin, "2=tcp://127.0.0.1:1", "--code")
    assert JoinCode.parse(answer["code"]).servers == ClientFile.load(admin).servers

    class Farm(LocalFarm):
        def _make(self, client: str) -> None:
            """The command has made it."""

    with Farm(tmp_path / "farm", servers=1) as farm:
        farm.start_all()
        await farm.leader()

        async def is_shown() -> bool:
            return (await gf("status", admin))[0] == 0

        await until("the administrator sees the farm", PATIENCE, is_shown)
