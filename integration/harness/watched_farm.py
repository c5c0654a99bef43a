"""A farm on loopback with figures for Prometheus, beside made-up routers, through which one server publishes."""

from pathlib import Path
from typing import Final

from gf_i2p.netdb.private_keys import DestinationKeys
from gf_i2p.node.files.file_names import CONFIG_FILE, HISTORY_DIRECTORY, MASTER_FILE
from integration.harness import short_sets
from integration.harness.commands import command
from integration.harness.local_farm import LocalFarm
from integration.harness.made_up_router import MadeUpRouter
from integration.harness.processes import free_ports

KEY_DAYS: Final = 90
_BUDGET_LINE: Final = "max_mib = 16384"
BUDGET_MIB: Final = 1024
"""The budget of each server's disk: the least that the settings take."""


class WatchedFarm(LocalFarm):
    """Servers 1 to 3. Only server 1 may publish. Call `place` before the first start."""

    def __init__(self, directory: Path, *, set_seconds: int) -> None:
        """`set_seconds`: life of a published set, 1,800 in a real farm."""
        super().__init__(directory, program=short_sets.program(set_seconds))
        self._ports = dict(zip(self.ids, free_ports(len(self.ids)), strict=True))
        self._master = directory / "service.master"

    @property
    def targets(self) -> list[str]:
        """Where Prometheus finds the figures of each server, "HOST:PORT"."""
        return [f"127.0.0.1:{port}" for port in self._ports.values()]

    async def place(self, routers: dict[int, MadeUpRouter]) -> None:
        """Put each server beside its router, with a delegated key of its own."""
        self._master.touch(mode=0o600)
        self._master.write_bytes(DestinationKeys.generate().encode())
        for server, router in routers.items():
            path = self.node(server) / CONFIG_FILE
            text = path.read_text()
            assert _BUDGET_LINE in text
            path.write_text(
                text.replace(_BUDGET_LINE, f"max_mib = {BUDGET_MIB}")
                + f'\n[monitoring]\nlisten = "127.0.0.1:{self._ports[server]}"\n\n{router.settings}\n\n'
                + f'[publish]\nmode = "meta"\npublish = "{"auto" if server == 1 else "off"}"\n'
                + f'leaf = "{router.leaf.destination.b32}"\nsense_minutes = 0\n'
            )
            await self.new_keys(server, KEY_DAYS)

    async def new_keys(self, server: int, days: int) -> None:
        """Put a new delegated key, which ends after so many days, in the place of the server's present one."""
        made = self.directory / f"new-{server}.keys"
        await command("keys", "delegate", self._master, "--server", str(server), "--days", str(days), "--out", made)
        made.replace(self.node(server) / MASTER_FILE)

    def packed_file(self, server: int) -> Path:
        """Path of a packed file of the server's history."""
        return self.node(server) / HISTORY_DIRECTORY / "earlier.jsonl.gz"
