"""Records the files of a farm as this version writes them, for the tests of all later versions.

    python -m integration.upgrades.record VERSION [--into tests/upgrades/recorded]

Run this once for each release. A farm of three real nodes writes the files: logs with a snapshot, histories, the files
of a client, an administrator and a viewer, a leaf member's directory, a saved snapshot, an exported configuration, and
delegated keys. Servers 1 and 2 are stopped, and server 3 is killed, so that its log has a write-ahead log. All keys are
made for the record, and open nothing else.

`recorded/VERSION/` gets `files.tar.xz` and `contents.json`, the contents as this version reads them.
"""

import argparse
import asyncio
import io
import json
import signal
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from gf_i2p.cli.shared.logs import configure
from gf_i2p.farm.record.status_record import Leaf, Meta, ReportedConfig, StatusRecord
from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.client_file import ClientFile
from gf_i2p.node.files.farm_setup import make_farm
from gf_i2p.node.files.file_names import SOCKET_FILE
from gf_i2p.node.files.leaf_file import LeafFile
from integration.harness.commands import command
from integration.harness.local_farm import LocalFarm
from integration.harness.short_log import program
from integration.upgrades.contents import FARM_FILE, KEYS_FILE, SNAPSHOT_FILE, contents

FILES: Final = "files.tar.xz"
CONTENTS: Final = "contents.json"
RECORDED: Final = Path("tests/upgrades/recorded")
_FOREIGN: Final = b"\x00 no JSON, as a foreign program may post it \xff"
_LEFT_OUT: Final = {SOCKET_FILE, "node.log"}


class RecordedFarm(LocalFarm):
    """A farm with every kind of user."""

    def _make(self, client: str) -> None:
        make_farm(
            self.directory,
            self.endpoints(),
            cluster="farm",
            profile="lan",
            clients=[client],
            admins=["owner"],
            viewers=["guest"],
        )


def as_text(data: dict[str, object]) -> str:
    """Return contents as `contents.json` has them."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def unpack(recorded: Path, into: Path) -> None:
    """Unpack a recorded farm with the modes of its files."""
    with tarfile.open(recorded / FILES) as archive:
        # Unlike "data", "tar" keeps the modes of directories. Python 3.11.2, as Debian 12 has it, knows no filters.
        options: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
        archive.extractall(into, **options)


async def _fill(farm: LocalFarm) -> None:
    """Have the farm write every kind of entry, and save the files that commands write."""
    top = farm.directory
    await farm.leader()
    await command("members", "invite-leaf", farm.node(1), "--into", top)
    accept = next(top.glob("accept-*"))
    for server in farm.ids[1:]:
        await command("members", "accept", farm.node(server), accept)
    accept.unlink()
    master = top / "master.keys"
    await command("keys", "master", "new", master)
    await command("keys", "delegate", master, "--server", "1", "--out", top / KEYS_FILE)
    master.unlink()  # a record has no key that lasts
    member = LeafFile.load(LeafFile.find(next(top.glob("leaf-*"))))
    meta = Meta(DestinationKeys.generate().destination.base64, "auto", publishing=False)
    async with ClientFile.load(farm.client_file).open() as client, member.open() as leaf:
        for number in range(60):
            await client.post([json.dumps({"key": f"0:{number}"}).encode()])
        await client.post([_FOREIGN])
        await leaf.post([_record(member.id, None)])
    for server in farm.ids:
        record = _record(server, meta).decode()
        await command("post", farm.node(server), record)
    await command("farm", "set", farm.node(1), "margin=60")
    async with ClientFile.load(farm.client_file).open() as client:
        for number in range(60, 90):
            await client.post([json.dumps({"key": f"0:{number}"}).encode()])
    await farm.exported(await farm.converged())
    await command("snapshot", "save", farm.node(1), top / SNAPSHOT_FILE)
    await command("config", "export", farm.node(1), "--out", top / FARM_FILE)


def _record(poster: int, meta: Meta | None) -> bytes:
    leaf = Leaf(poster.to_bytes(32), up=True)
    return StatusRecord(
        "farm",
        int(time.time() * 1000),
        poster,
        router_up=True,
        router={"version": "2.45.1", "knownPeers": 1000},
        meta=meta,
        leaves=(leaf,),
        config=ReportedConfig(mode="dry-run", interval_ms=10_000),
    ).encode()


def _pack(farm: Path) -> bytes:
    """Pack the files in a fixed order, without the names of this machine's users."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
        for path in sorted(farm.rglob("*")):
            if path.name in _LEFT_OUT:
                continue
            entry = archive.gettarinfo(path, str(path.relative_to(farm)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if path.is_dir():
                archive.addfile(entry)
            else:
                with path.open("rb") as file:
                    archive.addfile(entry, file)
    return packed.getvalue()


def record(into: Path) -> None:
    """Write the record of this version into a new directory. Raises `FileExistsError` when the record is there."""
    if into.exists():
        raise FileExistsError(into)
    with tempfile.TemporaryDirectory(prefix="gf-i2p-record-") as place:
        with RecordedFarm(Path(place), program=program(40, 10)) as farm:
            farm.start_all()
            asyncio.run(_fill(farm))
            for server in farm.ids[:2]:
                farm.kill(server, signal.SIGTERM)
            farm.kill(farm.ids[2])
        into.mkdir(parents=True)
        (into / FILES).write_bytes(_pack(Path(place)))
    with tempfile.TemporaryDirectory(prefix="gf-i2p-record-") as place:
        unpack(into, Path(place))
        (into / CONTENTS).write_text(as_text(contents(Path(place))))


def main() -> int:
    """Parse the options and record."""
    configure("error", "text")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", metavar="VERSION", help="the number of the release")
    parser.add_argument("--into", type=Path, default=RECORDED, help="directory of the records (default: %(default)s)")
    options = parser.parse_args()
    into = options.into / options.version
    try:
        record(into)
    except FileExistsError:
        print(f"{into} is there already: a release is recorded once", file=sys.stderr)
        return 1
    for name in (FILES, CONTENTS):
        print(f"{into / name}: {(into / name).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
