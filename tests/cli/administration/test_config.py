"""`gf-i2p config`: a farm's configuration goes into a file, and from the file into the farm."""

import json
from pathlib import Path

from gf_i2p.cli.shared.farm_import import escaped
from gf_i2p.cli.shared.pieces import requests_of
from gf_i2p.netdb.encoding import to_b32_address
from integration.harness.local_farm import until
from tests.cli.program import PATIENCE, gf, gf_json
from tests.cli.test_from_afar import administered

LEAF = to_b32_address(bytes(range(32)))


async def test_a_farm_is_exported_and_changed_to_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "farm.toml"
    async with administered(tmp_path / "farm") as farm:
        place = farm.directory / "server-1"

        async def known() -> bool:
            return (await gf("config", "export", place))[0] == 0

        await until("server 1 knows what is committed", PATIENCE, known)
        code, answer = await gf_json("config", "export", farm.viewer, "--out", file)
        assert (code, answer["file"]) == (0, str(file))
        assert (await gf("config", "diff", place, file))[:2] == (0, "the farm is as the file says\n")
        code, _, error = await gf("config", "export", place, "--out", file)
        assert (code, "cannot be written: File exists. Name a new file" in error) == (1, True), "nothing is overwritten"

        more = f'\n[[leaves]]\naddress = "{LEAF}"\nexcluded = true\nreason = "old"\n\n[parameters]\nmargin = 70\n'
        file.write_text(file.read_text() + more)
        code, text, _ = await gf("config", "diff", farm.viewer, file)
        assert (code, text.splitlines()) == (
            3,
            ["parameters: margin default -> 70", f"leaf {LEAF}: included -> excluded (old)"],
        )
        code, answer = await gf_json("config", "import", farm.viewer, file, "--yes")
        assert (code, answer["ok"]) == (2, False), "a viewer changes nothing"
        code, answer = await gf_json("config", "import", farm.admin, file)
        assert (code, answer["error"]) == (2, "nothing was changed: add --yes, or see `gf-i2p config diff`")
        code, answer = await gf_json("config", "import", farm.admin, file, "--yes", "--reason", "new farm")
        assert (code, answer["differences"]) == (0, [])
        assert answer["changes"] == ["set margin = 70", f"exclude {LEAF}"]

        async def here() -> bool:
            return (await gf("config", "diff", place, file))[0] == 0

        await until("server 1 has the entries, too", PATIENCE, here)
        posted = (await gf_json("farm", "log", place))[1]["log"][-2:]
        assert [(each["by"], each["reason"]) for each in posted] == [("admin-ops", "new farm"), ("admin-ops", "old")]
        assert (await gf("config", "import", place, file, "--yes"))[:2] == (0, "nothing was to change by an import\n")

        file.write_text(file.read_text().replace('cluster = "farm"', 'cluster = "other"'))
        code, _, error = await gf("config", "import", place, file, "--yes")
        assert (code, "describes the farm 'other', and this is 'farm'" in error) == (2, True)


async def test_a_file_is_checked_without_a_farm(tmp_path: Path) -> None:
    file = tmp_path / "farm.toml"
    file.write_text(f'format = 1\ncluster = "farm"\n[[leaves]]\naddress = "{LEAF}"\ncost = 300\n[servers]\n')
    code, answer = await gf_json("config", "check", file)
    assert (code, answer["ok"]) == (1, False)
    for part in ("leaves[1].cost: ", "servers: write double brackets"):
        assert part in answer["error"]
    file.write_text(f'format = 1\ncluster = "farm"\n[[leaves]]\naddress = "{LEAF}"\ncost = 30\n')
    text = (await gf("config", "check", file))[1]
    assert text == f"{file} describes the farm farm. servers: 0; leaves: 1; parameters: 0\n"


def test_many_changes_go_in_several_requests() -> None:
    values = [b"x" * 20] * 5 + [b"y" * 90]
    pieces = list(requests_of(values, 100, escaped))
    assert [value for piece in pieces for value in piece] == values
    assert [len(piece) for piece in pieces] == [2, 2, 1, 1]
    assert all(len(json.dumps({"values": [value.decode() for value in piece]})) < 300 for piece in pieces)
