"""Commands against real node processes."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gf_i2p.node.files.file_names import CONFIG_FILE, SECRETS_FILE
from integration.harness.local_farm import LocalFarm, until
from tests.cli.program import PATIENCE, gf, gf_json, logged


async def test_a_farm_from_the_command_line(tmp_path: Path) -> None:
    deep = tmp_path / ("deeper than the address of a Unix socket is long " * 3)
    deep.mkdir()
    with LocalFarm(deep) as farm:
        farm.start_all()
        leader = await farm.calm()
        follower = next(server for server in farm.ids if server != leader)

        code, status = await gf_json("status", farm.node(follower))
        assert (code, status["ok"], status["leader"], status["role"]) == (0, True, leader, "follower")
        code, explained = await gf_json("explain", farm.node(follower))
        assert (code, explained["farm"]["publisher"]) == (0, None), "publishing is off, and all is well"
        assert explained["this"]["mode"] == "off"
        assert explained["lines"][0].startswith("nobody publishes: no server says that it is set to publish")
        code, text, _ = await gf("status", farm.node(leader))
        assert code == 0
        assert f"server {leader}, leader in term" in text

        code, answer = await gf_json("post", farm.node(follower), '{"hello": "farm"}')
        assert code == 0
        code, text, _ = await gf("post", farm.node(leader), stdin="one\n\ntwo\n")
        assert (code, text) == (0, f"committed at index {answer['index'] + 2}\n")

        code, text, _ = await gf("events", farm.node(follower))
        assert code == 0
        assert f"  server {leader} leads, in term " in text
        assert "  the farm has the servers 1, 2, 3\n" in text
        code, found = await gf_json("events", farm.node(follower), "--last", "1")
        assert (code, len(found["events"])) == (0, 1)

        code, page = await gf_json("entries", farm.node(leader), "--first", str(answer["index"]))
        assert code == 0
        assert [entry["value"] for entry in page["entries"]] == ['{"hello": "farm"}', "one", "two"]
        code, found = await gf_json("find", farm.client_file)
        assert (code, found["leader"], found["trouble"]) == (0, leader, None)
        assert [server["id"] for server in found["servers"] if server["in_file"] and server["in_farm"]] == [1, 2, 3]
        code, text, _ = await gf("find", farm.client_file)
        assert code == 0
        assert f"leader   server {leader}\n" in text
        # A file that lists a follower only: the leader is known, and the message names the missing entry.
        head, *tables = farm.client_file.read_text().split("[[servers]]")
        table = next(table for table in tables if f"id = {follower}\n" in table)
        alone = tmp_path / "client-alone.toml"
        alone.touch(mode=0o600)
        alone.write_text(f"{head}[[servers]]{table}")
        code, found = await gf_json("find", alone)
        assert (code, found["leader"]) == (3, leader)
        assert [server["id"] for server in found["servers"] if server["connected"]] == [follower]
        code, text, _ = await gf("find", alone)
        assert code == 3
        assert f"Add the [[servers]] table of server {leader} with its fingerprint" in text

        code, _, notes = await gf("entries", farm.node(follower))
        assert (code, "newer entries may exist: this server does not lead" in notes) == (0, True)
        code, failure = await gf_json("entries", farm.node(follower), "--newest")
        assert (code, failure["ok"]) == (1, False)
        assert f"the leader, server {leader}, can promise" in failure["error"]
        code, text, _ = await gf("post", farm.node(leader), "--timeout", "20", "last")
        assert (code, text) == (0, f"committed at index {answer['index'] + 3}\n"), "an option may stand before the text"

        # After a reload to JSON, each log line is a JSON object; the level changes together with the format.
        path = farm.node(leader) / CONFIG_FILE
        text = path.read_text()
        path.write_text(text.replace('format = "text"', 'format = "json"').replace('"lan"', '"fast"'))
        farm.send_signal(leader, signal.SIGHUP)
        await until("the mistake is named", PATIENCE, lambda: logged(farm, leader, "timing.profile"))
        path.write_text(text.replace('format = "text"', 'format = "json"'))
        farm.send_signal(leader, signal.SIGHUP)
        await until("reloaded", PATIENCE, lambda: logged(farm, leader, '"event": "reloaded"'))

        assert farm.kill(leader, signal.SIGTERM) == 0
        assert not (farm.node(leader) / "node.sock").exists()
        await farm.leader()
        others = [server for server in farm.ids if server != leader]
        assert farm.kill(others[0]) == -signal.SIGKILL
        await until("no leader", PATIENCE, lambda: degraded(farm, others[1]))
        code, text, _ = await gf("status", farm.node(others[1]))
        assert code == 3
        assert "Only 1 of 3 servers can be reached from here, and a majority is 2" in text
        code, failure = await gf_json("post", farm.node(others[1]), "x", "--timeout", "0.3")
        assert (code, failure["outcome"]) == (3, "no")
        code, failure = await gf_json("entries", farm.node(others[1]), "--newest")
        assert (code, failure["outcome"]) == (3, "no")


async def degraded(farm: LocalFarm, server: int) -> bool:
    answer = await farm.status(server)
    return answer is not None and answer["leader"] is None


async def test_two_processes_never_run_one_node(tmp_path: Path) -> None:
    with LocalFarm(tmp_path, servers=1) as farm:
        farm.start_all()
        await farm.leader()
        code, output, error = await gf("run", farm.node(1))
        assert (code, output) == (1, "")
        assert "log.sqlite" in error
        assert await farm.leader() == 1


@pytest.mark.parametrize(
    ("name", "mistake"),
    [(CONFIG_FILE, "a line of no kind\n"), (CONFIG_FILE, "[nodes]\n"), ("key.pem", None), (SECRETS_FILE, None)],
)
async def test_a_mistake_in_the_files_has_the_exit_code_after_which_systemd_does_not_restart(
    name: str, mistake: str | None, tmp_path: Path
) -> None:
    with LocalFarm(tmp_path, servers=1) as farm:
        path = farm.node(1) / name
        if mistake is None:
            path.unlink()
        else:
            path.write_text(f"{path.read_text()}{mistake}")
        code, output, error = await gf("run", farm.node(1))
        assert (code, output) == (2, "")
        assert name in error


@pytest.mark.slow  # three more nodes; tests/node/consensus has servers that stand still
async def test_who_stood_still_does_not_take_it_for_the_leaders_silence(tmp_path: Path) -> None:
    """Otherwise the stopped server's time-outs would be many times too long for minutes, and votes would be refused."""
    with LocalFarm(tmp_path) as farm:
        for server in farm.ids:
            path = farm.node(server) / CONFIG_FILE
            path.write_text(path.read_text().replace('profile = "lan"', 'profile = "auto"'))
        farm.start_all()
        leader = await farm.leader()
        stopped = next(server for server in farm.ids if server != leader)
        await until("its time-outs are short", PATIENCE, lambda: elects_within(farm, stopped, 2.0))
        farm.send_signal(stopped, signal.SIGSTOP)
        end = time.monotonic() + 8.0  # the silence of this server is the subject of the test
        await until("it stood still for eight seconds", PATIENCE, lambda: passed(end))
        farm.send_signal(stopped, signal.SIGCONT)
        commit = (await status_of(farm, leader))["log"]["commit"]
        code, answer = await gf_json("post", farm.node(leader), "news")
        assert code == 0
        assert answer["index"] > commit
        await until("it has heard of it", PATIENCE, lambda: has(farm, stopped, answer["index"]))
        assert (await status_of(farm, stopped))["timing"]["silence"]["worst"] < 7.0


async def passed(moment: float) -> bool:
    return time.monotonic() >= moment


async def status_of(farm: LocalFarm, server: int) -> dict[str, Any]:
    status = await farm.status(server, seconds=PATIENCE)
    assert status is not None
    return status


async def elects_within(farm: LocalFarm, server: int, seconds: float) -> bool:
    status = await farm.status(server)
    return status is not None and status["timing"]["election_max"] <= seconds


async def has(farm: LocalFarm, server: int, index: int) -> bool:
    status = await farm.status(server)
    return status is not None and status["log"]["commit"] >= index
