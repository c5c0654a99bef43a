"""`gf-i2p keys`: written files, shown values, and refusals."""

import io
import json
import stat
import time
from pathlib import Path
from typing import Any, Final

import pytest

from gf_i2p.cli.commands.keys import DEFAULT_DAYS, MAX_DAYS
from gf_i2p.cli.main import main
from gf_i2p.cli.shared.router_setup import master_keys
from gf_i2p.farm.choice.tree import BRANCHES
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.netdb.session_config import META_OPTIONS, SERVICE_OPTIONS, SessionConfig
from gf_i2p.node.files.config import Config
from gf_i2p.node.files.file_names import CONFIG_FILE
from gf_i2p.node.publish.branch_keys import branch_keys
from gf_i2p.node.publish.publishing_keys import MAX_FILE_BYTES, PublishingKeys, Purpose
from tests.cli.shared.test_router_setup import edit, write
from tests.netdb.strategies import KEYS

DAY: Final = 86_400
META: Final = ('mode = "off"', 'mode = "meta"')
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def master(tmp_path: Path) -> Path:
    path = tmp_path / "offline" / "service.master"
    path.parent.mkdir()
    write(path, KEYS.encode())
    return path


@pytest.fixture
def node(tmp_path: Path, capsys: Capture) -> Path:
    assert main(["init", str(tmp_path), "--server", "1=i2p", "--server", "2=i2p", "--server", "3=i2p"]) == 0
    capsys.readouterr()
    return tmp_path / "server-2"


def run(capsys: Capture, *words: str | Path) -> tuple[int, Any]:
    """Run `keys …` with --json; the output must hold no secret of the master's."""
    code = main(["keys", *map(str, words), "--json"])
    output = capsys.readouterr().out
    assert KEYS.base64[-60:] not in output
    return code, json.loads(output)


def told(capsys: Capture, *words: str | Path) -> str:
    assert main(["keys", *map(str, words)]) == 0
    return capsys.readouterr().out


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The master ---------------------------------------------------------------------------------------------------------


def test_a_new_master(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "new"
    text = told(capsys, "master", "new", path)
    keys = DestinationKeys.parse(path.read_bytes())
    assert mode(path) == 0o600
    assert keys.destination.b32 in text
    assert f"gf-i2p keys delegate {path} --server" in text
    assert keys.base64[-60:] not in text
    before = path.read_bytes()
    code, answer = run(capsys, "master", "new", path)
    assert (code, answer["ok"]) == (1, False)
    assert "exists already" in answer["error"]
    assert path.read_bytes() == before
    code, answer = run(capsys, "master", "show", path)
    assert (answer["destination"], answer["delegated"], answer["ends"]) == (keys.destination.base64, False, None)
    assert [each.name for each in tmp_path.iterdir()] == ["new"], "nothing else is left"


def test_where_nothing_can_be_written(tmp_path: Path, capsys: Capture) -> None:
    for path, why in (
        (tmp_path, "is a directory"),
        (tmp_path / "none" / "new", "is not a directory: make that directory"),
    ):
        code, answer = run(capsys, "master", "new", path)
        assert code != 0
        assert why in answer["error"]


@pytest.mark.parametrize("form", ["bytes", "base64", "lines"])
@pytest.mark.parametrize("source", ["file", "-"])
def test_a_routers_keys_are_imported(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, form: str, source: str
) -> None:
    lines = "\r\n".join(KEYS.base64[at : at + 76] for at in range(0, len(KEYS.base64), 76))
    data = {"bytes": KEYS.encode(), "base64": f"{KEYS.base64}\n".encode(), "lines": lines.encode()}[form]
    given = tmp_path / "router.dat"
    write(given, data, 0o644)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    path = tmp_path / "imported"
    code, answer = run(capsys, "master", "import", given if source == "file" else "-", "--out", path)
    assert (code, answer["master"], answer["delegated"]) == (0, KEYS.destination.b32, False)
    assert path.read_bytes() == KEYS.encode()
    assert mode(path) == 0o600
    assert any("chmod 600" in note for note in answer["notes"]) is (source == "file")
    assert any("tunnel" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "holds no private keys"),
        (KEYS.encode()[:-1], "holds no private keys"),
        (KEYS.base64[:-8].encode(), "holds no private keys"),
        (b"x" * (MAX_FILE_BYTES + 1), "longer than"),
        (b"\0" * (MAX_FILE_BYTES + 1), "longer than"),
        (KEYS.delegate(2**31).encode(), "delegated keys of"),
        (PublishingKeys.delegate(KEYS, 2**31, 2**30).encode(), "holds no private keys"),
    ],
    ids=["empty", "cut", "cut in base64", "long text", "long zeros", "delegated", "a server's key file"],
)
def test_what_is_no_master_is_not_imported(tmp_path: Path, capsys: Capture, data: bytes, why: str) -> None:
    given, path = tmp_path / "given", tmp_path / "imported"
    write(given, data)
    code, answer = run(capsys, "master", "import", given, "--out", path)
    assert code == 2
    assert why in answer["error"]
    assert not path.exists()


def test_keys_are_never_an_argument(tmp_path: Path, capsys: Capture) -> None:
    code, _ = run(capsys, "master", "import", KEYS.base64[:200], "--out", tmp_path / "imported")
    assert code == 1


# A node's keys ------------------------------------------------------------------------------------------------------


def test_keys_that_are_made_where_they_belong_are_not_to_be_copied_and_removed(
    master: Path, node: Path, capsys: Capture
) -> None:
    text = told(capsys, "delegate", master, "--server", "2", "--days", "1", "--out", node / "new.keys")
    assert "(1 day)." in text
    assert "[publish] keys names the file's place" in text
    for word in ("scp", "remove the file"):
        assert word not in text


def test_a_server_is_given_keys_of_its_own(
    tmp_path: Path, master: Path, node: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = told(capsys, "delegate", master, "--server", "2")
    path = tmp_path / "publish-server-2.keys"
    assert mode(path) == 0o600
    assert KEYS.key.private not in path.read_bytes()
    for word in ("scp -p", "i2pd", "Java", f"({DEFAULT_DAYS} days)", "Nobody can revoke a stolen file"):
        assert word in text
    made = PublishingKeys.parse(path.read_bytes())
    assert made.keys.base64[-60:] not in text
    assert made.ends is not None
    assert abs(made.ends - time.time() - DEFAULT_DAYS * DAY) < 60
    assert made.server == 2
    config = made.signed_session(Purpose.META)
    assert config is not None
    SessionConfig.parse(config).verify()
    # The node takes the file unchanged.
    edit(node / CONFIG_FILE, META)
    path.rename(node / "master.dat")
    keys = master_keys(node, Config.load(node))
    assert keys is not None
    assert keys.encode() == made.encode()


def test_delegating_again_makes_other_keys_and_overwrites_none(tmp_path: Path, master: Path, capsys: Capture) -> None:
    path, other = tmp_path / "one", tmp_path / "other"
    assert run(capsys, "delegate", master, "--server", "1", "--days", "7", "--out", path)[0] == 0
    before = path.read_bytes()
    assert run(capsys, "delegate", master, "--server", "1", "--out", path)[0] == 1
    assert path.read_bytes() == before
    code, answer = run(capsys, "delegate", master, "--server", "1", "--days", str(MAX_DAYS), "--out", other)
    assert (code, answer["routers"], answer["stage"]) == (0, ["i2pd", "java"], "good")
    assert answer["ends"] - answer["made"] == MAX_DAYS * DAY
    keys = [PublishingKeys.parse(each.read_bytes()).keys.key.public for each in (path, other)]
    assert keys[0] != keys[1]
    code, answer = run(capsys, "delegate", path, "--server", "1", "--out", tmp_path / "third")
    assert code == 2
    assert "delegated keys cannot authorise further keys" in answer["error"]


def test_options_of_the_session_that_serves_are_signed(tmp_path: Path, master: Path, capsys: Capture) -> None:
    path = tmp_path / "keys"
    words = ("--option", "inbound.length=2", "--option", "outbound.length=2", "--option", "i2cp.x=a=b")
    assert run(capsys, "delegate", master, "--server", "1", "--out", path, *words)[0] == 0
    made = PublishingKeys.parse(path.read_bytes())
    assert made.signed_options(Purpose.META) == META_OPTIONS
    others = {"inbound.length": "2", "outbound.length": "2", "i2cp.x": "a=b"}
    assert made.signed_options(Purpose.SERVICE) == {**SERVICE_OPTIONS, **others}


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("inbound.length", "has a character that cannot be sent to the router, or none at all"),
        ("length=1", "is no option of I2CP"),
        ("inbound.length=", "or none at all"),
        ("i2cp.leaseSetType=7", "i2cp.leaseSetType cannot be chosen"),
        ("i2cp.leaseSetEncType=0", "i2cp.leaseSetEncType cannot be chosen"),
        ("inbound.nickname=" + "x" * 300, "nothing was made"),
    ],
)
def test_options_that_are_none(tmp_path: Path, master: Path, capsys: Capture, option: str, why: str) -> None:
    path = tmp_path / "keys"
    try:
        code = main(["keys", "delegate", str(master), "--server", "1", "--out", str(path), "--option", option])
    except SystemExit as caught:
        code = int(caught.code or 0)
    assert code == 2
    assert why in capsys.readouterr().err
    assert not path.exists()


def test_keys_of_branches_are_written_once_for_all_servers(tmp_path: Path, master: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert run(capsys, "delegate", master, "--server", "1", "--out", out / "1")[1]["branches"] == []
    text = told(capsys, "delegate", master, "--server", "2", "--out", out / "2", "--branches")
    assert f"wrote {out / 'branch-0.dat'} to branch-15.dat" in text
    assert "Branch keys do not end" in text
    before = {path.name: path.read_bytes() for path in out.glob("branch-*.dat")}
    assert len(before) == BRANCHES
    assert {mode(path) for path in out.iterdir()} == {0o600}
    code, answer = run(capsys, "delegate", master, "--server", "3", "--out", out / "3", "--branches")
    assert (code, len(answer["branches"])) == (0, BRANCHES)
    # A server with a delegated key only uses the files, and gets the same destinations as with the master's key.
    delegated, own = PublishingKeys.parse((out / "3").read_bytes()).keys, branch_keys(KEYS, tmp_path / "master.dat")
    found = branch_keys(delegated, out / "master.dat")
    for number in range(BRANCHES):
        assert found(number).encode() == own(number).encode() == before[f"branch-{number}.dat"]
    (out / "branch-7.dat").write_bytes(b"another master's")
    assert run(capsys, "delegate", master, "--server", "4", "--out", out / "4", "--branches")[0] == 1
    assert (out / "branch-7.dat").read_bytes() == b"another master's"
    assert not (out / "4").exists()


@pytest.mark.parametrize("days", ["0", str(MAX_DAYS + 1), "-1", "1.5", "x"])
def test_days_have_a_limit(master: Path, capsys: Capture, days: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["keys", "delegate", str(master), "--server", "1", "--days", days])
    assert caught.value.code == 2
    capsys.readouterr()


def test_a_master_that_others_can_read_is_not_used(tmp_path: Path, master: Path, capsys: Capture) -> None:
    master.chmod(0o644)
    code, answer = run(capsys, "delegate", master, "--server", "1", "--out", tmp_path / "out")
    assert code == 2
    assert "chmod 600" in answer["error"]
    assert run(capsys, "master", "show", master)[0] == 2


def test_a_file_that_holds_no_keys_is_a_wrong_argument(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "letter"
    assert run(capsys, "master", "show", path)[0] == 1, "it is not there"
    write(path, b"Dear Ann")
    for words in (("master", "show", path), ("delegate", path, "--server", "1", "--out", tmp_path / "out")):
        code, answer = run(capsys, *words)
        assert (code, "neither a private key file" in answer["error"]) == (2, True)


# Until when ---------------------------------------------------------------------------------------------------------


def put(node: Path, keys: PublishingKeys) -> None:
    write(node / "master.dat", keys.encode())


def test_status_of_a_node(node: Path, capsys: Capture) -> None:
    code, answer = run(capsys, "status", node)
    assert (code, answer["mode"], answer["file"], answer["due"]) == (0, "off", None, False)
    edit(node / CONFIG_FILE, META)
    code, answer = run(capsys, "status", node)
    assert code == 1
    assert "gf-i2p keys delegate" in answer["error"]
    now = int(time.time())
    put(node, PublishingKeys(KEYS))
    code, answer = run(capsys, "status", node)
    assert (code, answer["stage"], answer["ends"], answer["due"]) == (0, "lasting", None, False)
    for left, stage, expected in ((60 * DAY, "good", 0), (13 * DAY, "ending", 3), (60, "ended", 3), (-DAY, "ended", 3)):
        put(node, PublishingKeys.delegate(KEYS, now + left, now - 60 * DAY, server=2))
        code, answer = run(capsys, "status", node)
        assert (code, answer["ok"], answer["stage"], answer["due"]) == (expected, True, stage, expected == 3)
        assert main(["keys", "status", str(node)]) == expected
        text = capsys.readouterr().out
        assert KEYS.destination.b32 in text
        assert ("gf-i2p keys delegate MASTERFILE --server 2" in text) is (expected == 3)


@pytest.mark.parametrize("kind", ["i2pd", "java", None])
def test_status_says_whether_the_router_takes_them(node: Path, capsys: Capture, kind: str | None) -> None:
    edit(node / CONFIG_FILE, META)
    if kind is not None:
        edit(node / CONFIG_FILE, ('# kind = "i2pd"', f'kind = "{kind}"'))
    now = int(time.time())
    put(node, PublishingKeys(KEYS.delegate(now + 60 * DAY)))
    code, answer = run(capsys, "status", node)
    assert answer["routers"] == ["java"]
    assert code == (3 if kind == "i2pd" else 0)
    assert main(["keys", "status", str(node)]) == code
    assert ("i2pd" in capsys.readouterr().out) is (kind != "java")
    put(node, PublishingKeys.delegate(KEYS, now + 60 * DAY, now, server=3))
    assert run(capsys, "status", node)[0] == 0
    assert "made for     server 3, and this is server 2" in told(capsys, "status", node)


def test_keys_are_not_delegated_to_ids_of_leaf_members(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["keys", "delegate", str(tmp_path / "none"), "--server", str(2**31)])
    assert end.value.code == 2
