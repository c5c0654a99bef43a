"""Measures parameter sets on a farm's log, day by day. Without Spark.

The farm's stopwatch (`farm_time.FarmClock`) measures the time, with the default parameters for all sets. So a silence
of the whole farm counts little, and no wall clock is needed. The posters' own records tell, with hindsight, when a
server could serve (`hindsight`), and when a leaf was up. The owner of a leaf that was silent for longer than
`SILENT_MS` counts as dead from the last record before the silence on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gf_i2p.farm.choice import tree
from gf_i2p.farm.choice.candidates import OFF, PUBLISHES, Setting
from gf_i2p.farm.choice.cost import WORST
from gf_i2p.farm.farm_time import FarmClock
from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.posters import MAX_LEAF_MEMBERS
from gf_i2p.farm.record.destinations import Leaf
from gf_i2p.farm.record.status_record import StatusRecord
from gf_i2p.pipeline.backtest.hindsight import LATE_MS, Hindsight, lasting, within
from gf_i2p.pipeline.backtest.measures import Counts, Measures
from gf_i2p.pipeline.backtest.offices import Offices
from gf_i2p.pipeline.backtest.replay import ParameterRun, Replay
from gf_i2p.pipeline.days import DAY_MS

SILENT_MS: Final = Parameters().fresh_ms
"""Longest time between two records of a poster that lived all the time."""
AHEAD_MS: Final = Parameters().ahead_ms
LONG_MS: Final = 600_000
"""Milliseconds for which a replaced publisher must stay able to publish, so that the change counts as unneeded."""
SETTLE_MS: Final = 2 * SILENT_MS
"""Time after the beginning, or after a gap, that is not measured, so that every server can post first."""
BALANCE_MS: Final = 300_000
"""Time between two samples of the balance."""
FAILOVER: Final = "failover"
"""The mode in which the publisher serves by itself, and leaves are not used."""
MOST_DAYS: Final = 4096
"""Most days that are kept apart. Clocks that run wild could make up more days."""
LAST_DAY: Final = 2_932_896
"""The last day that a date can name, 9999-12-31, in days since the epoch: a wrong clock may tell any time."""
MOST_POSTERS: Final = 2 * MAX_LEAF_MEMBERS
"""Most posters that the meter remembers: the posters with the newest records."""


class _OwnedLeaf(NamedTuple):
    owner: int
    hash: bytes


@dataclass(slots=True)
class _NewestRecord:
    """The facts of a poster's newest record."""

    heard_ms: int
    able: bool
    """Whether the record says that the poster can publish."""
    leaves: dict[bytes, bool]
    """Hashes of the leaves in the record, and whether each leaf is up."""
    named: Sequence[Leaf] = ()
    """The leaves in the record."""


@dataclass(slots=True)
class _Tally:
    """The counts for one parameter set, while the replay runs."""

    counts: Counts = field(default_factory=Counts)
    """The counts of the present day."""
    days: dict[int, Counts] = field(default_factory=dict)
    offices: Offices = field(default_factory=Offices)
    publisher: int | None = None
    """The publisher of the run's latest decision; None before the first publisher."""
    replaced: dict[int, list[int]] = field(default_factory=dict)
    """For each replaced publisher, the times of the changes, as long as that server stays able to publish."""
    listed: dict[_OwnedLeaf, int] = field(default_factory=dict)
    """The listed leaves, and the time since which each leaf is listed."""
    past_listings: dict[_OwnedLeaf, list[tuple[int, int]]] = field(default_factory=dict)
    """For each leaf, the past periods (begin, end) in which the leaf was listed, since the newest record of the leaf's
    owner. The next record of that owner tells whether the leaf was up then."""


class ReplayMeter:
    """Replays and measures one farm's log under several parameter sets."""

    def __init__(self, farm: str, sets: Sequence[Mapping[str, Any]]) -> None:
        """`sets`: as for `Replay`."""
        self.replay = Replay(farm, sets, self)
        """Feed the rows of the log to this replay."""
        self._runs = self.replay.runs
        self._tallies = [_Tally() for _ in self._runs]
        self._clock = FarmClock()
        self._dates: dict[int, int] = {}
        self._newest: dict[int, _NewestRecord] = {}  # in the order of the posters' newest records
        self._servers: frozenset[int] = frozenset()
        self._truth = Hindsight()
        self._failover = False
        """Whether most servers are set to the mode `failover`."""
        self._settled_ms: int | None = None
        self._sampled_ms = 0
        self._day: int | None = None

    # Reports of the replay -------------------------------------------------------------------------------------------

    def begins(self, servers: Sequence[int]) -> None:
        """Judge what came before a gap. The replay begins anew with these servers, without earlier records."""
        self._judge_all()
        passed = self._clock.passed_ms
        self._clock = FarmClock()
        self._clock.passed_ms = passed
        self._dates, self._newest = {}, {}
        self._servers = frozenset(servers)
        self._truth = Hindsight()
        self._settled_ms = None
        for tally, run in zip(self._tallies, self._runs, strict=True):
            tally.publisher = None
            tally.offices = Offices()
            tally.replaced, tally.listed, tally.past_listings = {}, {}, {}
            # The run tells only what is different behind the gap.
            tally.offices.change(passed, run.publisher, failover=self._failover)
            self._update_listed(tally, run)

    def configured(self, servers: Sequence[int]) -> None:
        """Take in the farm's servers from now on, before any run does, and forget removed servers."""
        self._settle_offices(self._clock.passed_ms)  # what came before concerns the former servers
        self._servers = frozenset(servers)
        self._truth.keep(self._servers, self._clock.passed_ms)
        for server in self._dates.keys() - self._servers:
            del self._dates[server]
            self._newest.pop(server, None)
            for tally in self._tallies:
                tally.replaced.pop(server, None)

    def heard(self, record: StatusRecord) -> None:
        """Take in a record before any run does, and judge the time since the poster's last record."""
        poster, is_server = record.id, record.id in self._servers
        state = self._runs[0].state
        self._failover = state.common_setting.mode == FAILOVER
        if is_server:
            joined = poster not in self._dates
            self._dates[poster] = record.date_ms
            self._advance(joined=joined)
        now, before = self._clock.passed_ms, self._newest.pop(poster, None)
        leaves: dict[bytes, bool] = {}
        for leaf in record.leaves:
            leaves[leaf.hash] = (leaf.up and record.router_up) or leaves.get(leaf.hash, False)
        able = is_server and self._is_able(record)
        if is_server:
            interval_ms = None if record.config is None else record.config.interval_ms
            parameters = state.administration.parameters  # of the farm, whatever the run tries
            self._truth.heard(poster, now, record.date_ms, able=able, interval_ms=interval_ms, parameters=parameters)
        self._newest[poster] = _NewestRecord(now, able, leaves, record.leaves)
        if len(self._newest) > MOST_POSTERS:
            del self._newest[next(iter(self._newest))]
        if before is None:
            return
        silent = self._judge_leaves(poster, before, leaves)
        for hash_ in before.leaves.keys() - leaves.keys():
            if any(_OwnedLeaf(poster, hash_) in tally.listed for tally in self._tallies):
                leaves[hash_] = False  # the record no longer names the leaf, but the leaf is still listed
        if is_server:
            self._judge_server(poster, now, well=able and not silent)

    def decided(self, run: int, *, publisher_changed: bool, listing: bool, by_admin: bool) -> None:
        """Count a change of a run's publisher or mode (`publisher_changed`), or of its published set (`listing`).

        `run`: number of the run. `by_admin`: an administrator's entry is the cause.
        """
        parameter_run, tally = self._runs[run], self._tallies[run]
        if publisher_changed:
            failover = parameter_run.state.common_setting.mode == FAILOVER
            tally.offices.change(self._clock.passed_ms, parameter_run.publisher, failover=failover)
        if publisher_changed and parameter_run.publisher is not None:
            old, tally.publisher = tally.publisher, parameter_run.publisher
            if old is not None and old != parameter_run.publisher and self._is_settled:
                tally.counts.changes += 1
                if not by_admin and self._seems_well(old, parameter_run):
                    tally.replaced.setdefault(old, []).append(self._clock.passed_ms)
        if listing:
            tally.counts.set_changes += self._is_settled and not self._failover
            self._update_listed(tally, parameter_run)

    # The counting ----------------------------------------------------------------------------------------------------

    def results(self) -> list[Measures]:
        """Return the measures of each run. Call this once, after the last row."""
        self._judge_all()
        exact = self.replay.gaps == 0 and self.replay.exact
        return [
            Measures(
                run.fixed, run.state.parameters.all(), self.replay.entries, exact, dict(sorted(tally.days.items()))
            )
            for run, tally in zip(self._runs, self._tallies, strict=True)
        ]

    @property
    def _is_settled(self) -> bool:
        return self._settled_ms is not None and self._clock.passed_ms >= self._settled_ms

    def _is_able(self, record: StatusRecord) -> bool:
        meta, config, now = record.meta, record.config, self._clock.now_ms
        return (
            meta is not None
            and record.router_up
            and meta.publish_config in PUBLISHES
            and (config is None or config.mode != OFF)
            and now is not None
            and -AHEAD_MS <= now - record.date_ms <= SILENT_MS
        )

    def _seems_well(self, server: int, run: ParameterRun) -> bool:
        """Return whether the log gives no reason why another server replaces this server as publisher."""
        newest, record = self._newest.get(server), run.state.records.get(server)
        return (
            newest is not None
            and newest.able
            and server not in run.state.accused
            and record is not None
            and Setting.of(record) == run.state.common_setting
        )

    def _advance(self, *, joined: bool) -> None:
        clock = self._clock
        before = clock.passed_ms
        clock.update(self._dates.values(), len(self._servers), fresh_ms=SILENT_MS, ahead_ms=AHEAD_MS, joined=joined)
        if clock.now_ms is None:
            return
        if self._settled_ms is None:
            self._settled_ms = clock.passed_ms + SETTLE_MS
        self._begin_day(clock.now_ms // DAY_MS)
        step = clock.passed_ms - before
        if not step or not self._is_settled:
            return
        vacant = False
        for tally, run in zip(self._tallies, self._runs, strict=True):
            tally.counts.farm_ms += step
            vacant = vacant or run.publisher is None
        if vacant and self._anybody_able(before):
            for tally, run in zip(self._tallies, self._runs, strict=True):
                if run.publisher is None:
                    tally.counts.without_publisher_ms += step
        if clock.passed_ms - self._sampled_ms >= BALANCE_MS and not self._failover:
            self._sampled_ms = clock.passed_ms
            for tally, run in zip(self._tallies, self._runs, strict=True):
                self._sample_balance(tally, run)

    def _begin_day(self, day: int) -> None:
        """Count for this UTC day from now on. The counts of earlier days are as good as final."""
        day = min(day, LAST_DAY)
        if day == self._day:
            return
        self._settle_offices(self._clock.passed_ms - LATE_MS)
        if self._day is not None and day not in self._tallies[0].days and len(self._tallies[0].days) >= MOST_DAYS:
            return
        self._day = day
        for tally in self._tallies:
            tally.counts = tally.days.setdefault(day, Counts())

    def _settle_offices(self, until_ms: int) -> None:
        """Count the outages up to a time of which the truth is known."""
        since_ms = self._settled_ms
        if since_ms is None or until_ms <= since_ms:
            return
        self._truth.judge(until_ms)
        for tally, run in zip(self._tallies, self._runs, strict=True):
            republish_ms = run.state.administration.parameters.republish_max_ms
            tally.counts.outage_ms += tally.offices.settle(since_ms, until_ms, self._truth, self._servers, republish_ms)
        self._truth.forget(until_ms)

    def _anybody_able(self, at_ms: int) -> bool:
        return any(
            (newest := self._newest.get(server)) is not None and newest.able and at_ms - newest.heard_ms <= SILENT_MS
            for server in self._servers
        )

    def _judge_server(self, server: int, now_ms: int, *, well: bool) -> None:
        for tally in self._tallies:
            if server not in tally.replaced:
                continue
            if not well:
                del tally.replaced[server]
                continue
            times = tally.replaced[server]
            while times and now_ms - times[0] >= LONG_MS:
                del times[0]
                tally.counts.unneeded += 1
            if not times:
                del tally.replaced[server]

    def _judge_leaves(self, poster: int, newest: _NewestRecord, leaves: Mapping[bytes, bool] | None = None) -> bool:
        """Count the stale and the missing time of a poster's leaves since the record `newest`.

        `leaves`: the leaves of the poster's next record; None: the log ends, so only stale leaves are counted. Returns
        whether the poster was silent.
        """
        now = self._clock.passed_ms
        silent = now - newest.heard_ms > SILENT_MS
        if self._settled_ms is None or self._failover:
            return silent
        since = max(newest.heard_ms, self._settled_ms)
        for hash_, up in newest.leaves.items():
            leaf = _OwnedLeaf(poster, hash_)
            if silent or not up:
                for tally in self._tallies:
                    tally.counts.stale_ms += _listed_ms(tally, leaf, since, now)
            elif leaves is not None and leaves.get(hash_, False) and since < now:
                for tally, run in zip(self._tallies, self._runs, strict=True):
                    listed = tally.listed.get(leaf)
                    if listed is None or listed > since:
                        missing_ms = now - since - _listed_ms(tally, leaf, since, now)
                        if missing_ms > 0 and _could_be_listed(run, newest, leaf):
                            tally.counts.missing_ms += missing_ms
        return silent

    def _judge_all(self) -> None:
        for poster, newest in self._newest.items():
            self._judge_leaves(poster, newest)
        self._settle_offices(self._clock.passed_ms)

    def _update_listed(self, tally: _Tally, run: ParameterRun) -> None:
        now = self._clock.passed_ms
        entries = (*run.entries, *(entry for branch in run.branches for entry in branch.entries))
        leaves = {_OwnedLeaf(entry.owner, entry.hash) for entry in entries}
        for leaf in tally.listed.keys() - leaves:
            newest = self._newest.get(leaf.owner)
            judged = now if newest is None else newest.heard_ms
            times = [each for each in tally.past_listings.get(leaf, ()) if each[1] > judged]
            since = tally.listed.pop(leaf)
            if now > judged:
                times.append((since, now))
            if times:
                tally.past_listings[leaf] = times
            else:
                tally.past_listings.pop(leaf, None)
        for leaf in leaves - tally.listed.keys():
            tally.listed[leaf] = now

    @staticmethod
    def _sample_balance(tally: _Tally, run: ParameterRun) -> None:
        state, inputs = run.state, run.state.leaf_inputs()
        weights: list[int] = []
        rooms: list[float] = []
        for hash_, listed in state.listing.listed.items():
            poster = state.posters.by_id.get(listed.owner)
            leaf = None if poster is None else poster.leaves.get(hash_)
            if poster is not None and leaf is not None:
                weights.append(256 - listed.cost)
                rooms.append(max(1 - inputs.load(poster, listed.owner, leaf).total / WORST, 0.0))
        if len(rooms) > 1 and sum(rooms) > 0:
            tally.counts.imbalance_ms += BALANCE_MS * imbalance(weights, rooms)


def _could_be_listed(run: ParameterRun, newest: _NewestRecord, leaf: _OwnedLeaf) -> bool:
    """Return whether the set has room for a leaf, nothing speaks against the leaf, and no other owner's is listed."""
    state = run.state
    listed = state.listing.listed.get(leaf.hash)
    if listed is not None:
        return listed.owner == leaf.owner
    if len(state.listing.listed) >= tree.room(state.parameters.tree, state.parameters.max_entries):
        return False
    inputs = state.leaf_inputs()
    return not any(each.hash == leaf.hash and inputs.objection(each) is not None for each in newest.named)


def imbalance(weights: Sequence[float], rooms: Sequence[float]) -> float:
    """Return half the sum of the differences between the leaves' shares of `weights` and of `rooms`, 0 to 1.

    Both sums must be above 0.
    """
    weight, room = sum(weights), sum(rooms)
    return sum(abs(one / weight - other / room) for one, other in zip(weights, rooms, strict=True)) / 2


def _listed_ms(tally: _Tally, leaf: _OwnedLeaf, since_ms: int, until_ms: int) -> int:
    """Return for how many milliseconds between two times a leaf was listed; forget the leaf's past listings."""
    past_ms = lasting(within(tally.past_listings.pop(leaf, ()), since_ms, until_ms))
    listed = tally.listed.get(leaf)
    return past_ms if listed is None else past_ms + max(until_ms - max(listed, since_ms), 0)
