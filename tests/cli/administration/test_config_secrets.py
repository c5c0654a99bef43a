"""`gf-i2p config` with secrets: sealed on a server's machine, described, and brought into a new farm's directories."""

import asyncio
import json
import re
import signal
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.config import Config, Secrets
from gf_i2p.node.files.farm_file import FarmFile, ServerSection
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import CONFIG_FILE, DESTINATION_FILE, MASTER_FILE
from gf_i2p.node.files.sealed import MIN_N, SealedTable
from gf_i2p.node.recovery.farm_secrets import gather
from gf_i2p.wire.digest import Secret
from integration.harness.local_farm import LocalFarm, until
from tests.cli.program import PATIENCE, gf, gf_json
from tests.cli.test_from_afar import Administered
from tests.netdb.strategies import KEYS

WORDS = "correct horse batteries"
WRONG = "the passphrase is wrong, or the file is damaged"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "passphrase"
    path.touch(mode=0o600)
    path.write_text(f"{WORDS}\n")
    return path


def plain_secrets(farm: Path) -> list[bytes]:
    """Return each secret of a farm's directory in the forms in which it could leak."""
    found = [WORDS.encode(), KEYS.base64.encode(), KEYS.key.private, KEYS.key.private.hex().encode()]
    for path in [*farm.glob("*-*.toml")]:
        file = ClientFile.load(path)
        found += [each.get_secret_value().encode() for each in (file.key, file.password) if each is not None]
    for path in farm.glob("server-*"):
        secrets = Secrets.load(path)
        found += [each.get_secret_value().encode() for each in (secrets.key, secrets.password) if each is not None]
        for verifier in secrets.verifiers.values():
            if isinstance(verifier, Secret):
                found += [verifier.md5.encode(), verifier.sha256.encode()]
    return found + [each.removeprefix(b"ed25519-private:") for each in found]


async def test_a_farm_is_sealed_and_made_again_by_its_operator(tmp_path: Path, words: Path) -> None:
    """The whole way: export on a server, the farm is gone, new directories from the file, and all users are back."""
    file, said = tmp_path / "farm.toml", []

    async def run(*arguments: str | Path) -> tuple[int, dict[str, object]]:
        code, output, error = await gf(*arguments, "--json")
        said.append(output + error)
        return code, json.loads(output)

    sealing = ("--secrets", "--passphrase-file", words)
    with Administered(tmp_path / "farm", servers=1) as farm:
        server = farm.node(1)
        (server / MASTER_FILE).touch(mode=0o600)
        (server / MASTER_FILE).write_bytes(KEYS.encode())
        farm.start_all()
        await farm.leader()

        async def known() -> bool:
            return (await gf("config", "export", server))[0] == 0

        await until("the server knows what is committed", PATIENCE, known)
        assert (await gf_json("farm", "set", farm.admin, "margin=70"))[0] == 0

        code, answer = await run("config", "export", farm.admin, *sealing, "--out", file)
        assert (code, "do not leave a server by the network" in str(answer["error"])) == (2, True)
        code, answer = await run("config", "export", server, *sealing)
        assert (code, "--secrets needs --out FILE" in str(answer["error"])) == (2, True)
        assert not file.exists()
        code, answer = await run("config", "export", server, *sealing, "--out", file)
        kinds = {"users": 3, "logins": 3, "publishing": "own", "branches": 0}
        assert (code, answer) == (0, {"ok": True, "file": str(file), "secrets": kinds, "left_out": []})
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        before = file.read_bytes()
        code, answer = await run("config", "export", server, *sealing, "--out", file)
        assert (code, "File exists" in str(answer["error"]), file.read_bytes()) == (1, True, before)

        code, answer = await run("config", "diff", server, file)
        assert (code, answer["differences"], answer["sealed"]) == (0, [], True)
        code, answer = await run("config", "import", farm.admin, file, "--yes")
        assert (code, answer["changes"], answer["sealed"]) == (0, [], True)
        for words_ in (("config", "diff", server, file), ("config", "import", farm.admin, file, "--yes")):
            assert f"{file} has a sealed part with secrets, which was left aside" in (await gf(*words_))[1]
        for place in (server, farm.admin, farm.viewer):
            assert "sealed" not in (await gf("config", "export", place))[1], "only --secrets seals"

        old = {path.name: ClientFile.load(path) for path in farm.directory.glob("*-*.toml")}
        plain = plain_secrets(farm.directory)
        own, fingerprint = Secrets.load(server), Config.load(server).servers[0].fingerprint
        farm.kill(1, signal.SIGTERM)
        for secret in plain:
            assert secret not in farm.log(1).read_bytes()

    code, answer = await run("config", "make", file, *sealing, "--into", tmp_path / "new")
    assert (code, answer["secrets"], answer["left_sealed"]) == (0, {"farm": kinds}, [])
    new = tmp_path / "new" / "farm"
    assert {path.name for path in new.glob("*-*.toml")} == set(old), "nobody gets rights who had none"
    for name, user in old.items():
        again = ClientFile.load(new / name)
        assert (again.key, again.password) == (user.key, user.password)
    assert (new / "server-1" / MASTER_FILE).read_bytes() == KEYS.encode()
    assert stat.S_IMODE((new / "server-1" / MASTER_FILE).stat().st_mode) == 0o600
    assert Secrets.load(new / "server-1").key != own.key, "a server's own identity never comes back"
    assert Config.load(new / "server-1").servers[0].fingerprint != fingerprint

    with LocalFarm(new, servers=1) as remade:
        remade.start_all()
        await remade.leader()

        async def imported() -> bool:
            return (await run("config", "import", new / "admin-ops.toml", file, "--yes"))[0] == 0

        await until("the new farm takes the administrator's import", PATIENCE, imported)
        code, answer = await gf_json("config", "diff", new / "viewer-wall.toml", file)
        assert (code, answer["differences"]) == (0, [])

    for secret in plain:
        assert secret not in before
        assert not [text for text in said if secret in text.encode()]


def sealed_file(
    tmp_path: Path, cluster: str = "farm", *, passphrase: str = WORDS, ids: tuple[int, ...] = (1, 2)
) -> Path:
    """Make a farm's directory and the file of that farm as `config export --secrets` writes it, at a low cost."""
    directory = tmp_path / "old" / cluster
    make_farm(directory, dict.fromkeys((1, 2)), cluster=cluster, profile="lan", clients=[], admins=["ops"])
    (directory / "server-1" / MASTER_FILE).touch(mode=0o600)
    (directory / "server-1" / MASTER_FILE).write_bytes(KEYS.encode())
    table = SealedTable.seal(gather(directory / "server-1").secrets.encode(), passphrase, cluster, n=MIN_N)
    farm = FarmFile(
        format=1, cluster=cluster, servers=tuple(ServerSection(id=each, endpoint="i2p") for each in ids), sealed=table
    )
    path = tmp_path / f"{cluster}.toml"
    path.write_text(farm.encode(1, datetime(2026, 11, 27, tzinfo=UTC)))
    return path


@pytest.mark.slow  # ten passphrases are stretched
async def test_ten_farms_come_back_at_once_each_with_its_own_secrets(tmp_path: Path, words: Path) -> None:
    names = [f"farm-{number}" for number in range(10)]
    files = [sealed_file(tmp_path, name) for name in names]
    into = tmp_path / "new"
    code, text, _ = await gf("config", "make", *files, "--into", into, "--secrets", "--passphrase-file", words)
    assert code == 0
    assert "Stop the earlier farm first" in text
    addresses = set()
    for name in names:
        made, old = into / name, tmp_path / "old" / name
        assert ClientFile.load(made / "admin-ops.toml").key == ClientFile.load(old / "admin-ops.toml").key
        assert (
            Secrets.load(made / "server-2").verifiers["admin-ops"]
            == Secrets.load(old / "server-2").verifiers["admin-ops"]
        )
        assert not (made / "admin-owner.toml").exists()
        assert [(made / f"server-{server}" / MASTER_FILE).exists() for server in (1, 2)] == [True, False]
        addresses |= {
            (each / f"server-{server}" / DESTINATION_FILE).read_bytes() for each in (made, old) for server in (1, 2)
        }
    assert len(addresses) == 40, "no server has the address of an old one"


async def test_without_the_passphrase_the_sealed_part_is_left_aside_and_named(tmp_path: Path) -> None:
    file, into = sealed_file(tmp_path), tmp_path / "new"
    code, answer = await gf_json("config", "make", file, "--into", into)
    assert (code, answer["secrets"], answer["left_sealed"]) == (0, {}, [str(file)])
    assert not (into / "farm" / "server-1" / MASTER_FILE).exists()
    assert (into / "farm" / "admin-owner.toml").exists()
    code, answer = await gf_json("config", "check", file)
    assert (code, answer["sealed"], answer["secrets"]) == (0, True, None)
    text = (await gf("config", "check", file))[1]
    assert "--secrets and the passphrase show which kinds" in text
    assert "users" not in text


async def test_check_names_kinds_and_nothing_else(tmp_path: Path, words: Path) -> None:
    file = sealed_file(tmp_path)
    code, answer = await gf_json("config", "check", file, "--secrets", "--passphrase-file", words)
    kinds = {"users": 1, "logins": 1, "publishing": "own", "branches": 0}
    assert (code, answer["secrets"]) == (0, kinds)
    text = (await gf("config", "check", file, "--secrets", "--passphrase-file", words))[1]
    assert text.endswith(
        "\nsealed: users: 1, with their own key or password: 1; publishing keys: the master's own; "
        "keys of branches: 0\n"
    )
    assert "ops" not in text + json.dumps(answer)


async def test_a_wrong_passphrase_and_damage_look_alike_and_make_nothing(tmp_path: Path, words: Path) -> None:
    good, other = sealed_file(tmp_path, "good"), sealed_file(tmp_path, "other", passphrase="another passphrase")
    renamed = tmp_path / "renamed.toml"
    renamed.write_text(good.read_text().replace('cluster = "good"', 'cluster = "else"'))
    damaged = tmp_path / "damaged.toml"
    data = re.search(r'data = "(.)', good.read_text())
    assert data is not None
    damaged.write_text(good.read_text().replace(data[0], f'data = "{"B" if data[1] == "A" else "A"}', 1))
    into = tmp_path / "new"
    sealing = ("--secrets", "--passphrase-file", words)
    for files in ((good, other), (renamed,), (damaged,)):
        code, answer = await gf_json("config", "make", *files, "--into", into, *sealing)
        assert (code, answer["ok"], answer["error"].startswith(f"{files[-1]}: {WRONG}")) == (1, False, True)
        code, answer = await gf_json("config", "check", files[-1], *sealing)
        assert (code, WRONG in answer["error"]) == (1, True)
        assert not into.exists()


async def test_secrets_that_fit_no_server_of_the_file_make_nothing(tmp_path: Path, words: Path) -> None:
    file, into = sealed_file(tmp_path, ids=(2, 3)), tmp_path / "new"
    code, answer = await gf_json("config", "make", file, "--into", into, "--secrets", "--passphrase-file", words)
    assert (code, "for server 1, and the file has no such server" in answer["error"], into.exists()) == (1, True, False)
    unsealed = tmp_path / "unsealed.toml"
    unsealed.write_text('format = 1\ncluster = "farm"\n[[servers]]\nid = 1\nendpoint = "i2p"\n')
    for command in (("make", "--into", into), ("check",)):
        words_ = ("config", command[0], unsealed, *command[1:], "--secrets", "--passphrase-file", words)
        code, answer = await gf_json(*words_)
        assert (code, "has no sealed part" in answer["error"], into.exists()) == (2, True, False)


async def test_hostile_parameters_are_refused_at_once(tmp_path: Path, words: Path) -> None:
    good = sealed_file(tmp_path).read_text()
    for old, new, key in (
        (f"n = {MIN_N}", "n = 1152921504606846976", "n"),
        ("r = 8", "r = 4194304", "r"),
        ("p = 1", "p = 4194304", "p"),
    ):
        assert old in good
        file = tmp_path / "hostile.toml"
        file.write_text(good.replace(old, new, 1))
        for command in (("check",), ("make", "--into", tmp_path / "new")):
            arguments = ("config", command[0], file, *command[1:], "--secrets", "--passphrase-file", words)
            code, answer = await asyncio.wait_for(gf_json(*arguments), PATIENCE)
            assert (code in {1, 2}, answer["ok"], f"sealed.{key}: " in answer["error"]) == (True, False, True)


def changed(path: Path, text: str, mode: int) -> None:
    path.write_text(text)
    path.chmod(mode)


async def test_what_lacks_is_a_mistake_of_use(tmp_path: Path, words: Path) -> None:
    file = sealed_file(tmp_path)
    server = tmp_path / "old" / "farm" / "server-1"
    for arguments, why in (
        (("export", server, "--secrets", "--out", tmp_path / "new.toml"), "nobody can be asked"),
        (("check", file, "--secrets"), "nobody can be asked"),
        (("make", file, "--into", tmp_path / "new", "--secrets"), "nobody can be asked"),
        (("check", file, "--passphrase-file", words), "add --secrets"),
    ):
        code, answer = await gf_json("config", *arguments)
        assert (code, why in answer["error"]) == (2, True)
    changed(words, "short\n", 0o600)
    code, answer = await gf_json("config", "check", file, "--secrets", "--passphrase-file", words)
    assert (code, WRONG in answer["error"]) == (1, True), "only a new seal asks for a strong passphrase"
    changed(words, WORDS, 0o644)
    code, answer = await gf_json("config", "check", file, "--secrets", "--passphrase-file", words)
    assert (code, "chmod 600" in answer["error"]) == (2, True)
    code, answer = await gf_json("config", "export", server, "--secrets", "--out", file, "--passphrase-file", words)
    assert (code, "File exists" in answer["error"]) == (1, True)
    assert (server / CONFIG_FILE).exists()
