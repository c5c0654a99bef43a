"""`make attack`: attacks on a farm of three real node processes on loopback, with a row for each attack.

    python -m integration.attack [--only NAME ...] [--seconds 2] [--seed N] [--json]

An honest client posts 20 small values a second meanwhile. A row has the load of the attack, whether term and leader
stayed (else the old and the new leader, and the seconds until the farm committed again), the client's p99 before and
during the attack, and the memory of the largest node before, at most, and afterwards. `shown` marks a cost that
docs/design/access.md accepts.

The exit code is 1 when an attack has done harm: a node ended, the leader fell to an attacker without a server's key,
an honest post got no answer, a committed entry changed, the attacker's bytes got into the log, or memory did not come
back.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from integration.attack.attack import Attack, Outcome, Rights, Scene
from integration.attack.attacked_farm import AttackedFarm
from integration.attack.catalogue import ATTACKS, BY_NAME, WITHOUT_FARM
from integration.attack.table import Row, heading, lines
from integration.attack.trial import RATE, result, start, suffer
from integration.harness.local_farm import becomes
from integration.harness.long_run import Figures, between, run
from integration.harness.processes import Processes
from integration.load.steady_load import Paced


class Run:
    """A run of some attacks: farms, rows and progress."""

    def __init__(self, directory: Path, *, seconds: float, seed: int, quiet: bool) -> None:
        self.rows: list[Row] = []
        self._directory = directory
        self._seconds = seconds
        self._seed = seed
        self._quiet = quiet

    async def on_one_farm(self, name: str, attacks: Sequence[Attack]) -> None:
        """Attack one farm several times."""
        directory = self._directory / name
        directory.mkdir()
        clients = [attack.name for attack in attacks if attack.rights is Rights.CLIENT]
        with AttackedFarm(directory, clients) as farm:
            farm.start_all()
            await farm.leader()
            async with Paced(farm.client_file, RATE) as load:
                for attack in attacks:
                    trial = await suffer(farm, load, attack, seconds=self._seconds, seed=self._seed)
                    self._add(Row.of(trial))

    async def without_farm(self, attack: Attack) -> None:
        """Run an attack that needs no farm."""
        scene = Scene(str(self._directory), self._seconds, self._seed, 1, 0, 0, 0, 0)
        with Processes() as processes:
            process = start(processes, self._directory, attack, scene)
            await becomes(f"the end of {attack.name}", lambda: process.poll() is not None, 60 + self._seconds)
            load = result(self._directory, attack, process)
        self._add(Row(attack.name, load, list(load.harm), None))

    def _add(self, row: Row) -> None:
        if not self._quiet:
            if not self.rows:
                print(heading())
            print(lines(row), flush=True)
        self.rows.append(row)


async def attack_all(directory: Path, attacks: Sequence[Attack], *, seconds: float, seed: int, quiet: bool) -> Figures:
    """Run the attacks; return the figures. Attacks whose cost is accepted have a farm of their own each."""
    works = Run(directory, seconds=seconds, seed=seed, quiet=quiet)
    together = [each for each in attacks if each.outcome is not Outcome.SHOWN and each not in WITHOUT_FARM]
    if together:
        await works.on_one_farm("farm", together)
    for attack in attacks:
        if attack in WITHOUT_FARM:
            await works.without_farm(attack)
        elif attack.outcome is Outcome.SHOWN:
            await works.on_one_farm(attack.name, [attack])
    wrong = [f"{row.name}: {each}" for row in works.rows for each in row.harm]
    figures: Figures = {"seed": seed, "attacks": len(works.rows), "wrong": wrong}
    return {**figures, "rows": [row.figures() for row in works.rows]} if quiet else figures


def main() -> int:
    """Parse the options, attack, and print; return 0 when the farm has borne all attacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=BY_NAME, default=list(BY_NAME), metavar="NAME", help=f"of {', '.join(BY_NAME)}"
    )
    parser.add_argument("--seconds", type=between(1, 60), default=2, help="most seconds of each attack, 1 to 60")
    parser.add_argument("--seed", type=between(0, 2**32 - 1), default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    attacks = [attack for attack in ATTACKS if attack.name in options.only]

    async def work(directory: Path) -> Figures:
        return await attack_all(directory, attacks, seconds=options.seconds, seed=seed, quiet=options.json)

    return run(options, "attack", work, limit=len(attacks) * (60 + 5 * options.seconds))


if __name__ == "__main__":
    sys.exit(main())
