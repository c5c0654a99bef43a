"""Parts for tests of replays: lives of farms, and their logs as a history has them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gf_i2p.farm.choice.publisher import Choice
from gf_i2p.farm.state import FarmState
from gf_i2p.pipeline.backtest.measures import Measures
from gf_i2p.pipeline.backtest.replay import ParameterRun, Replay, ReplayedEntry
from gf_i2p.pipeline.backtest.replay_measures import ReplayMeter
from gf_i2p.simulator.facts import Voters
from gf_i2p.simulator.life.farm import FarmLife
from gf_i2p.simulator.life.plan import draw
from gf_i2p.simulator.registers import CLUSTER
from gf_i2p.storage.history_lines import ApplicationLine, parse_line, record_line

Said = tuple[int | None, str, tuple[Any, ...], tuple[Any, ...]]
"""The decision after an entry: publisher, mode, listed entries, branches."""
NOTHING: Said = (None, "off", (), ())


def of_choice(choice: Choice) -> Said:
    return choice.publisher, choice.mode, choice.entries, choice.branches


def of_run(run: ParameterRun) -> Said:
    return run.publisher, run.mode, run.entries, run.branches


def as_kept(value: bytes) -> bytes:
    """Give a value as a history holds the value: the same JSON, written anew."""
    line = parse_line(record_line(1, 1, 1, value))
    assert isinstance(line, ApplicationLine)
    return json.dumps(line.value, ensure_ascii=False).encode() if line.raw is None else line.raw


def row(index: int, value: bytes | Voters, *, term: int = 1) -> ReplayedEntry:
    if isinstance(value, bytes):
        return ReplayedEntry(index, term, 1_700_000_000_000 + index, "other", as_kept(value))
    return ReplayedEntry(index, term, 1_700_000_000_000 + index, "servers", servers=tuple(value))


class Life:
    """Hours of a farm, from a seed: the log, and the choices of all servers at each index, also after restarts."""

    def __init__(self, seed: int) -> None:
        self.chosen: dict[int, Said] = {}
        self.different: list[int] = []
        """Indexes at which servers chose differently."""
        life = FarmLife(draw(seed))
        for node in life.nodes.values():
            node.pull = self._listening(life, node.pull, node)  # type: ignore[method-assign]
        committed = life.checker.committed

        def watched(value: bytes | Voters) -> None:
            committed(value)
            self._note(len(life.log), life.checker.state)

        life.checker.committed = watched  # type: ignore[method-assign]
        first = life.log[0]
        life.run()
        self.log = life.log
        state = FarmState(CLUSTER)
        assert not isinstance(first, bytes)
        state.configure(first)
        self._note(1, state)

    def _listening(self, life: FarmLife, pull: Callable[[], None], node: Any) -> Callable[[], None]:
        def pulled() -> None:
            pull()
            if node.poster.is_server and node.applied:
                self._note(node.applied, node.state)

        return pulled

    def _note(self, index: int, state: FarmState) -> None:
        decision = of_choice(state.choice)
        if self.chosen.setdefault(index, decision) != decision:
            self.different.append(index)


def replayed(farm: str, rows: Sequence[ReplayedEntry]) -> dict[int, Said]:
    """Give a replay's words at each index that the replay takes in."""
    replay, decision, decisions_by_index = Replay(farm), NOTHING, {}
    for each in rows:
        before = replay.entries
        if replay.feed(each):
            decision = of_run(replay.runs[0])
        if replay.entries > before:
            decisions_by_index[each.index] = decision
    return decisions_by_index


def decisions(farm: str, rows: Iterable[ReplayedEntry]) -> Iterator[dict[str, Any]]:
    """Give the decisions of a farm with its own parameters."""
    replay = Replay(farm)
    for row in rows:
        if replay.feed(row):
            yield replay.decision(row)


def measure(farm: str, rows: Iterable[ReplayedEntry], sets: Sequence[Mapping[str, Any]] = ({},)) -> list[Measures]:
    """Measure some parameter sets on a log."""
    meter = ReplayMeter(farm, sets)
    for row in rows:
        meter.replay.feed(row)
    return meter.results()
