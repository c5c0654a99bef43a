"""Hours of labelled farms, drawn from their courses, and a judge of the episodes that the rule finds in the hours.

The hours stand in for those that the job `health` makes of the farms' records. They are made in a second for months. A
test in `test_labelled_farms.py` compares them with the job's own.

    python -m tests.pipeline.health.labelled_hours LAKE OUT/labels.json

judges the table `anomalies` of a lake whose exports `gf-i2p pipeline synth OUT --incidents CLIMATE` has made.
"""

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray

from gf_i2p.netdb.encoding import to_base64
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.status_reports import FRESH_MS
from gf_i2p.pipeline.synth.incident_kinds import PosterCourse
from gf_i2p.pipeline.synth.labelled_farm import Climate, LabelledFarm
from gf_i2p.simulator.life.reporters import CONNECTIONS

BEGAN_MS: Final = 1_735_689_600_000
Table: TypeAlias = dict[str, NDArray[Any]]
Found: TypeAlias = Mapping[str, Any]
"""A row of the table `anomalies`."""
_MONTH_MS: Final = 30 * DAY_MS
_LATE_MS: Final = 2 * HOUR_MS
"""An episode may begin so late: the hour after an incident has a part of the incident, and evidence adds up."""
_NAMES: Final = {
    "lag_ms": "jobLag",
    "tunnels": "participatingTunnels",
    "in_bytes_s": "currentInboundBandwidth",
    "out_bytes_s": "currentOutboundBandwidth",
    "known_peers": "knownPeers",
}


def hours_of(farm: LabelledFarm) -> tuple[Table, Table]:
    """Return the farm's hours of servers and of leaves."""
    servers: dict[str, list[Any]] = {}
    leaves: dict[str, list[Any]] = {}
    clocks = np.array([_mean(each.clock_ms, each.posts) for each in farm.posters])
    clocks -= _quiet(np.nanmedian, clocks, 0)
    for poster, clock in zip(farm.posters, clocks, strict=True):
        length = len(clock)
        hours = {"hour_ms": BEGAN_MS + np.arange(length) * HOUR_MS, "server": np.full(length, poster.id)}
        hours["watched_ms"] = np.full(length, HOUR_MS)
        own = {"availability": _availability(poster, poster.up), "flaps": _flaps(poster, poster.up), "skew_ms": clock}
        own["records"] = poster.posts.reshape(-1, 60).sum(1).astype(float)
        own |= {name: _mean(poster.router[key], poster.posts & poster.up) for name, key in _NAMES.items()}
        for name, values in (hours | own).items():
            servers.setdefault(name, []).append(values)
        for leaf in poster.leaves:
            up = leaf.up & poster.up
            of_leaf = {"availability": _availability(poster, up), "flaps": _flaps(poster, up)}
            of_leaf["load"] = _mean(leaf.connections / CONNECTIONS, poster.posts)
            of_leaf["destination"] = np.full(length, to_base64(leaf.hash))
            for name, values in (hours | of_leaf).items():
                leaves.setdefault(name, []).append(values)
    return {name: np.concatenate(each) for name, each in servers.items()}, {
        name: np.concatenate(each) for name, each in leaves.items()
    }


def _quiet(call: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of hours without a value
        return call(*arguments)


def _mean(values: NDArray[Any], counts: NDArray[np.bool_]) -> NDArray[Any]:
    return np.asarray(_quiet(np.nanmean, np.where(counts, values, np.nan).reshape(-1, 60), 1))


def _availability(poster: PosterCourse, up: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the covered share of each hour. A record covers only time of the hour in which it was posted."""
    at = np.flatnonzero(poster.posts)
    covered = np.zeros(len(up))
    lasts = np.diff(np.append(at, at[-1] + 1)) * 60_000
    covered[at] = np.where(up[at], np.minimum(lasts, FRESH_MS), 0)
    return np.asarray(np.minimum(covered.reshape(-1, 60).sum(1) / HOUR_MS, 1.0))


def _flaps(poster: PosterCourse, up: NDArray[np.bool_]) -> NDArray[Any]:
    at = np.flatnonzero(poster.posts)
    changes = np.zeros(len(up))
    changes[at[1:]] = up[at[1:]] != up[at[:-1]]
    return np.asarray(changes.reshape(-1, 60).sum(1))


def farms(climate: Climate, seed: int, number: int, days: int) -> tuple[list[tuple[str, Table, Table]], list[Any]]:
    """Return the hours of some farms, and the labels of all."""
    tables, labels = [], []
    for at in range(number):
        farm = LabelledFarm(at, days, seed, climate)
        tables.append((f"farm-{at}", *hours_of(farm)))
        labels += [each.encode(f"farm-{at}", BEGAN_MS) for each in farm.labels]
    return tables, labels


@dataclass(frozen=True, slots=True)
class Verdict:
    """The incidents that were found, and the episodes that are no incidents."""

    found: Counter[str]
    """Number of incidents that an episode of the right measure and subject tells, by kind."""
    incidents: Counter[str]
    episodes: int
    false: Sequence[Found]
    """Episodes at a server and time without any incident."""
    months: float
    """Server-months, of 30 days."""

    @property
    def recall(self) -> float:
        return self.found.total() / self.incidents.total()

    @property
    def false_a_month(self) -> float:
        """False episodes per server and month."""
        return len(self.false) / self.months

    def __str__(self) -> str:
        kinds = "\n".join(f"{kind:20} {self.found[kind]} of {number}" for kind, number in self.incidents.items())
        odd = "\n".join(f"false: {each['farm']}: {each['text']}" for each in self.false)
        return (
            f"{kinds}\n{self.found.total()} of {self.incidents.total()} incidents, {self.episodes} episodes, "
            f"{len(self.false)} false in {self.months:.1f} server-months: {self.false_a_month:.2f} a month\n{odd}"
        )


def judge(labels: Iterable[Mapping[str, Any]], episodes: Sequence[Found], months: float) -> Verdict:
    """Compare episodes with labels. An incident is found by an episode of one of its measures, at its own subject."""
    found: Counter[str] = Counter()
    incidents: Counter[str] = Counter()
    explained = set()
    for label in labels:
        incidents[label["kind"]] += 1
        near = [
            number
            for number, each in enumerate(episodes)
            if each["farm"] == label["farm"]
            and each["begin_ms"] < label["endMs"] + _LATE_MS
            and each["end_ms"] > label["beginMs"]
            and (label["server"] is None or label["server"] in each["servers"])
        ]
        explained.update(near)
        found[label["kind"]] += any(
            episodes[number]["measure"] in label["measures"] and _is_of(episodes[number], label) for number in near
        )
    false = [each for number, each in enumerate(episodes) if number not in explained]
    return Verdict(found, incidents, len(episodes), false, months)


def _is_of(episode: Found, label: Mapping[str, Any]) -> bool:
    if label["server"] is None:
        return bool(episode["subject"] == "farm")
    if label["destination"] is not None:
        return bool(episode["destination"] == label["destination"])
    return bool(episode["subject"] == "pair" or (episode["subject"], episode["server"]) == ("server", label["server"]))


def months_of(hours: int) -> float:
    """Return the server-months of so many hours of servers."""
    return hours * HOUR_MS / _MONTH_MS


def main(lake: Path, labels: Path) -> None:
    episodes = ds.dataset(lake / "anomalies").to_table().to_pylist()
    hours = ds.dataset(lake / "server_hours", partitioning="hive").count_rows()
    sys.stdout.write(f"{judge(json.loads(labels.read_text()), episodes, months_of(hours))}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
