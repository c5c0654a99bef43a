"""Leaf members from the command line: invited, run, looked at, removed."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridges.i2cp.settings import RouterKind
from gf_i2p.cli.commands import leaf
from gf_i2p.cli.main import main
from gf_i2p.farm.record.status_record import FIRST_LEAF_MEMBER_ID
from gf_i2p.node.clock import now_ms
from gf_i2p.node.files.config import Secrets
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.leaf_file import LEAF_FILE, REPORT_FILE
from gf_i2p.node.membership.leaf_invitation import invite, leaf_members_of
from gf_i2p.node.membership.leaf_member import LeafMemberReport
from gf_i2p.storage.private_files import Lock
from gf_i2p.wire.endpoint import Endpoint
from integration.harness.local_farm import LocalFarm, until
from integration.harness.processes import spawn
from tests.bridges.i2cp.fake_router import FakeRouter
from tests.bridges.sam.scripted_sam import scripted
from tests.cli.program import PATIENCE, gf, gf_json
from tests.netdb.strategies import KEYS

MEMBER = FIRST_LEAF_MEMBER_ID
PEER = KEYS.destination.b32


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    servers = {1: Endpoint("127.0.0.1", 4001), 2: Endpoint("127.0.0.1", 4002)}
    make_farm(tmp_path, servers, cluster="farm", profile="lan", clients=[])
    return tmp_path


def test_a_member_is_invited_accepted_and_removed(farm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["members", "invite-leaf", str(farm / "server-1"), "--into", str(farm / "new"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["id"], answer["unknown"], answer["reloaded"]) == (MEMBER, [], False)
    assert leaf_members_of(Secrets.load(farm / "server-1")) == [MEMBER], "the inviting one knows it at once"
    assert leaf_members_of(Secrets.load(farm / "server-2")) == []
    assert main(["members", "accept", str(farm / "server-2"), answer["accept"]]) == 0
    assert "accepted; no node runs here now" in capsys.readouterr().out
    assert leaf_members_of(Secrets.load(farm / "server-2")) == [MEMBER]
    for changed in (True, False):
        assert main(["members", "remove-leaf", str(farm / "server-2"), str(MEMBER), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["changed"] is changed
    assert leaf_members_of(Secrets.load(farm / "server-2")) == []


def test_the_next_steps_are_told(farm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["members", "invite-leaf", str(farm / "server-1"), "--id", str(MEMBER + 7), "--into", str(farm)]) == 0
    text = capsys.readouterr().out
    assert f"gf-i2p members accept DIR accept-leaf-{MEMBER + 7}.toml" in text
    assert f"gf-i2p leaf run leaf-{MEMBER + 7}" in text
    assert "password" not in text
    for words in (["invite-leaf", str(farm / "server-1"), "--id", "7", "--into", str(farm)], ["remove-leaf", "d", "7"]):
        with pytest.raises(SystemExit) as end:
            main(["members", *words])
        assert end.value.code == 2


def report(directory: Path, **changes: Any) -> None:
    found = {
        "id": MEMBER,
        "cluster": "farm",
        "posted": 3,
        "index": 7,
        "committed": None,
        "router": None,
        "leaves": [[PEER, True, None]],
        "troubles": [],
        "error": None,
        "failed": None,
    }
    (directory / REPORT_FILE).write_text(json.dumps({**found, **changes}))


def test_the_status_of_a_member_that_does_not_run(farm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member = invite(farm / "server-1", farm / "new").member
    assert main(["leaf", "status", str(member)]) == 1
    assert "the member has never run here" in capsys.readouterr().err
    report(member, committed=1000, error="no\x1bbody leads")
    assert main(["leaf", "status", str(member)]) == 3
    text = capsys.readouterr().out
    assert f"does not run. Start it: gf-i2p leaf run {member}" in text
    assert "the farm does not list the leaf any more, or will drop it soon" in text
    assert "no\\x1bbody leads" in text
    assert main(["leaf", "status", str(member / LEAF_FILE), "--json"]) == 3, "the file will do, too"
    assert json.loads(capsys.readouterr().out)["running"] is False
    report(member, error="Not committed yet: server 1 knows no leader.")
    assert main(["leaf", "status", str(member)]) == 3
    text = capsys.readouterr().out
    assert "router   not known yet" in text
    assert "trouble  Not committed yet: server 1 knows no leader." in text
    report(member, router="up")
    assert main(["leaf", "status", str(member)]) == 3
    assert "router   up" in capsys.readouterr().out
    report(member, router="it is off", leaves=[], troubles=["it has not answered yet"])
    assert main(["leaf", "status", str(member)]) == 3
    text = capsys.readouterr().out
    assert "record   nothing yet" in text
    assert "router   it is off" in text
    (member / REPORT_FILE).write_text("{")
    assert main(["leaf", "status", str(member)]) == 1
    assert "Start the member anew" in capsys.readouterr().err


@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_a_leaf_that_is_down_is_a_degraded_state_with_its_reason(
    farm: Path, capsys: pytest.CaptureFixture[str], json_: list[str]
) -> None:
    member = invite(farm / "server-1", farm / "new").member
    lock = Lock(member / REPORT_FILE)
    try:
        other = "short.b32.i2p"
        well = {"committed": now_ms(), "router": "up"}
        report(member, **well)
        assert main(["leaf", "status", str(member), *json_]) == 0
        report(member, **well, leaves=[], troubles=["leaf one: the router is off"])
        assert main(["leaf", "status", str(member), *json_]) == 3
        capsys.readouterr()
        why = "it no longer answers pings"
        report(member, **well, leaves=[[PEER, True, None], [other, False, why]], troubles=["start it", "mend it"])
        assert main(["leaf", "status", str(member), *json_]) == 3
        said = capsys.readouterr().out
        if json_:
            assert json.loads(said)["leaves"] == [[PEER, True, None], [other, False, why]]
            assert json.loads(said)["healthy"] is False
        else:
            assert said.splitlines()[-4:] == [
                f"leaf     {PEER}  up",
                f"leaf     {other.ljust(len(PEER))}  down: {why}",
                "trouble  start it",
                "trouble  mend it",
            ]
    finally:
        lock.close()


def test_the_report_of_a_member_of_an_older_version(farm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    member = invite(farm / "server-1", farm / "new").member
    report(member, leaves=[[PEER, False]])
    path = member / REPORT_FILE
    older = json.loads(path.read_text())
    del older["troubles"]
    path.write_text(json.dumps(older))
    assert main(["leaf", "status", str(member)]) == 3
    assert f"leaf     {PEER}  down\n" in capsys.readouterr().out


def test_a_file_that_others_can_read_is_not_run(farm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    invited = invite(farm / "server-1", farm / "new")
    (invited.member / LEAF_FILE).chmod(0o644)
    assert main(["leaf", "run", str(invited.member)]) == 2
    assert "chmod 600" in capsys.readouterr().err
    invited.accept.chmod(0o644)
    assert main(["members", "accept", str(farm / "server-1"), str(invited.accept)]) == 2
    assert "chmod 600" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "status"])
def test_a_directory_that_is_no_members(farm: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main(["leaf", command, str(farm / "server-1")]) == 1
    assert "gf-i2p members invite-leaf" in capsys.readouterr().err


@contextmanager
def running(member: Path) -> Iterator[subprocess.Popen[bytes]]:
    log = member / "output.log"
    process = spawn([sys.executable, "-m", "gf_i2p.cli.main", "leaf", "run", str(member)], log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_a_member_runs_beside_its_router(tmp_path: Path) -> None:
    async with scripted() as router, FakeRouter(RouterKind.I2PD) as i2cp:
        i2cp.netdb[KEYS.destination.hash] = KEYS.destination
        with LocalFarm(tmp_path, servers=1) as farm:
            farm.start_all()
            await farm.leader()
            code, answer = await gf_json("members", "invite-leaf", farm.node(1), "--into", tmp_path / "new")
            assert (code, answer["reloaded"]) == (0, True)
            member = Path(answer["member"])
            file = member / LEAF_FILE
            text = file.read_text().replace('# leaf = "....b32.i2p"', f'leaf = "{PEER}"')
            text = text.replace("127.0.0.1:7656", f"127.0.0.1:{router.sam.port}")
            file.write_text(text.replace("127.0.0.1:7654", f"127.0.0.1:{i2cp.port}"))

            told: dict[str, Any] = {}
            listed: dict[str, Any] = {}

            async def healthy() -> bool:
                code, answer = await gf_json("leaf", "status", member)
                told.update(answer)
                return code == 0 and told["leaves"] != []  # the router's own status may come first

            async def known() -> bool:
                code, answer = await gf_json("members", "list", farm.node(1))
                assert code == 0
                listed.update(answer)
                return any(each["leaves"] for each in listed["leaf_members"])

            with running(member) as process:
                await until("the member does well, and knows its leaf", PATIENCE, healthy)
                assert (told["id"], told["leaves"], told["error"], told["router"]) == (
                    MEMBER,
                    [[PEER, True, None]],
                    None,
                    "up",
                )
                await until("the farm knows its leaf", PATIENCE, known)
                assert [each["id"] for each in listed["leaf_members"]] == [MEMBER]
                assert listed["leaf_members"][0]["leaves"] == [{"address": PEER, "up": True}]
                code, _, error = await gf("leaf", "run", file)
                assert (code, f"runs already (process {process.pid})" in error) == (1, True)
                process.send_signal(signal.SIGHUP)
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, PATIENCE) == 0, (
                    "it ends in order, and not of the first signal"
                )
            code, after = await gf_json("leaf", "status", member)
            assert (code, after["running"], after["posted"] >= 1) == (3, False, True)
            key = next(line for line in text.splitlines() if line.startswith("key")).split('"')[1]
            assert key not in (member / "output.log").read_text()


def test_a_full_disk_ends_no_member(tmp_path: Path) -> None:
    made = LeafMemberReport(MEMBER, "farm", 5)
    leaf._write(tmp_path / "nowhere" / REPORT_FILE, made)
    leaf._write(tmp_path / REPORT_FILE, made)
    assert (tmp_path / REPORT_FILE).stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / REPORT_FILE).read_text())["id"] == MEMBER
