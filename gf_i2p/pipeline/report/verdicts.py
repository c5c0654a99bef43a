"""Says what needs attention in a farm, in sentences, and which farm has the most trouble.

An episode becomes a sentence by the table of `verdict_kinds`. Episodes of one subject at the same time are one verdict:
the first kind of the table counts as the cause. Episodes of one kind and one subject are one verdict, too: the newest
episode gives the time.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gf_i2p.pipeline.backtest.result_rows import live_row, recommended_row
from gf_i2p.pipeline.days import DAY_MS, HOUR_MS
from gf_i2p.pipeline.health.episodes import Episode
from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.report_data import FarmReport, Period, Series, Turn
from gf_i2p.pipeline.report.verdict_kinds import KINDS, Kind

RECENT_MS: Final = 7 * DAY_MS
"""Trouble that ended earlier before the end of the period needs no attention."""
_SMALL_SKEW_MS: Final = 30_000
"""A clock that is less wrong is worth a look only. The alert `skew` of `stream` begins at this limit, too."""
_LEAST_AVAILABLE: Final = 0.9
_LEAST_VACANT: Final = 0.005
"""Least share of the last days without a publisher that needs attention."""
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence about trouble, with the kind of the trouble: likely cause and next step."""

    kind: Kind
    sentence: str
    with_: str
    """Other kinds of trouble at the same time; empty: none."""
    is_ongoing: bool
    end_ms: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All verdicts of a farm, the worst first."""

    attention: Sequence[Verdict]
    """Trouble of the last days."""
    older: Sequence[Verdict]

    @property
    def order(self) -> tuple[int, int, int]:
        """For sorting farms, the worst first: trouble that goes on, trouble of the last days, older trouble."""
        ongoing = sum(each.kind.gravity for each in self.attention if each.is_ongoing)
        ended = sum(each.kind.gravity for each in self.attention if not each.is_ongoing)
        return -ongoing, -ended, -sum(each.kind.gravity for each in self.older)


@dataclass(frozen=True, slots=True)
class _Case:
    """An episode with its kind, and the kinds of the episodes that came with it."""

    kind: Kind
    main: Episode
    others: Sequence[str]


def verdicts(farm: FarmReport) -> Verdicts:
    """Say what needs attention in a farm."""
    until_ms = farm.period.until_ms
    found = [*_of_episodes(farm), *_of_publishers(farm)]
    found += _rarely_available(farm)
    found += _of_backtest(farm)
    found.sort(key=lambda each: (not each.is_ongoing, -each.kind.gravity, -each.end_ms, each.sentence))
    recent = [each for each in found if each.is_ongoing or each.end_ms > until_ms - RECENT_MS]
    return Verdicts(recent, [each for each in found if each not in recent])


def _of_episodes(farm: FarmReport) -> Iterator[Verdict]:
    of_kind: dict[tuple[Any, ...], list[_Case]] = defaultdict(list)
    for case in _cases(farm):
        subject = case.main.subject, case.main.destination, case.main.server
        pair = case.main.servers if case.main.subject == "pair" else ()
        of_kind[case.kind.name, *subject, pair].append(case)
    for cases in of_kind.values():
        newest = max(cases, key=lambda case: case.main.end_ms)
        yield _verdict(newest, len(cases), farm.period)


def _cases(farm: FarmReport) -> Iterator[_Case]:
    """Yield a case for each cause, with the episodes that have this cause."""
    of_subject: dict[tuple[Any, ...], list[tuple[Kind, Episode]]] = defaultdict(list)
    for each in farm.episodes or ():
        kind = _kind(each, farm)
        if kind is not None:
            of_subject[each.subject, each.servers, each.destination].append((kind, each))
    order = list(KINDS)
    for of_one in of_subject.values():
        left = sorted(of_one, key=lambda pair: (order.index(pair[0].name), pair[1].begin_ms))
        while left:
            (kind, main), *left = left
            is_over = not _is_ongoing(main, farm.period)
            with_ = [
                pair
                for pair in left
                if main.is_together_with(pair[1]) and not (is_over and _is_ongoing(pair[1], farm.period))
            ]
            left = [pair for pair in left if pair not in with_]
            yield _Case(kind, main, list(dict.fromkeys(each.name for each, _ in with_)))


def _kind(episode: Episode, farm: FarmReport) -> Kind | None:
    """Return the first kind that fits; None for a measure that a later version has."""
    of = {"farm": "server", "leaves": "leaf"}.get(episode.subject, episode.subject)
    sides = ["", "low" if episode.value < episode.usual else "high"]
    if (*episode.servers[:1], episode.worst_ms) in farm.silent:
        sides.append("silent")
    if episode.measure == "skew_ms" and abs(episode.value) < _SMALL_SKEW_MS:
        sides.append("small")
    fits = {(of, episode.measure, side) for side in sides}
    return next((kind for kind in KINDS.values() if fits.intersection(kind.episodes)), None)


def _is_ongoing(episode: Episode, period: Period) -> bool:
    return episode.end_ms > period.until_ms - period.until_ms % HOUR_MS - HOUR_MS  # the last hour is a part of one


def _verdict(case: _Case, times: int, period: Period) -> Verdict:
    main, kind = case.main, case.kind
    is_ongoing = _is_ongoing(main, period)
    are_many = main.subject in ("farm", "leaves")
    sentence = kind.sentence.format(
        who=_subject(main),
        been=_been(is_ongoing=is_ongoing, are_many=are_many),
        s="s" if are_many else "",
        value=_shown(main.measure, main.value),
        usual=_shown(main.measure, main.usual, is_usual=True),
        when=_when(main.begin_ms, None if is_ongoing else main.end_ms, period.until_ms),
    )
    if times > 1:
        sentence += f", the last of {times} times"
    return Verdict(kind, _begun(sentence), ", ".join(case.others), is_ongoing, main.end_ms)


def _subject(episode: Episode) -> str:
    """Name the subject of an episode: "server 2", "leaf qjwctoz2….b32.i2p of server 1", "most servers (1, 2)"."""
    ids = [str(each) for each in episode.servers[:_SHOWN]] + ["…"][: len(episode.servers) - _SHOWN]
    if episode.subject == "pair":
        return " or of ".join(formats.server(each) for each in episode.servers)
    if episode.server is None:
        return f"{'leaves of ' if episode.subject == 'leaves' else ''}most servers ({', '.join(ids)})"
    server = formats.server(episode.server)
    if episode.destination is None:
        return server
    return f"leaf {formats.short(formats.address(episode.destination))} of {server}"


def _shown(measure: str, value: float, *, is_usual: bool = False) -> str:
    """Write a figure of an episode with its unit."""
    if measure == "skew_ms":
        return f"{formats.lasting(abs(value))} {'ahead' if value > 0 else 'behind'}"
    if measure in ("availability", "load"):
        return formats.percent(value)
    if measure == "lag_ms":
        return f"{formats.count(value)} ms"
    if measure in ("in_bytes_s", "out_bytes_s"):
        return f"{formats.size(max(value, 0))}/s"
    return formats.count(value) if is_usual or abs(value) >= 1 else formats.figure(round(value, 1))


def _been(*, is_ongoing: bool, are_many: bool) -> str:
    if is_ongoing:
        return "have been" if are_many else "has been"
    return "were" if are_many else "was"


def _when(begin_ms: int, end_ms: int | None, until_ms: int) -> str:
    """Write "since …" for `end_ms` None, else "from … to …", with the weekdays of the last seven days."""
    begin = _moment(begin_ms, until_ms)
    if end_ms is None:
        return f"since {begin}"
    end = _moment(end_ms, until_ms)
    return f"from {begin} to {end[-5:] if end[:-5] == begin[:-5] else end}"


def _moment(at_ms: int, until_ms: int) -> str:
    text = formats.moment(at_ms)
    if until_ms - at_ms > RECENT_MS:
        return text
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%A} {text}"


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def spans(turns: Sequence[Turn], period: Period) -> list[tuple[int, int, int | None]]:
    """Return the times of each leader, or publisher, inside the period: beginning, end and server (None: no server).

    Adjoining times of one server are joined.
    """
    times: list[tuple[int, int, int | None]] = []
    for number, turn in enumerate(turns):
        end = turns[number + 1].at_ms if number + 1 < len(turns) else period.until_ms
        start, end = max(turn.at_ms, period.since_ms), min(end, period.until_ms)
        if end <= start:
            continue
        if times and times[-1][2] == turn.who and times[-1][1] >= start:
            times[-1] = (times[-1][0], end, turn.who)
        else:
            times.append((start, end, turn.who))
    return times


def _of_publishers(farm: FarmReport) -> Iterator[Verdict]:
    """Yield a verdict if nobody published for a while, although somebody published in the period."""
    until_ms = farm.period.until_ms
    since_ms = max(farm.period.since_ms, until_ms - RECENT_MS)
    times = spans(farm.published.turns if farm.published else (), farm.period)
    vacant = [(max(begin, since_ms), end, begin) for begin, end, who in times if who is None and end > since_ms]
    vacant_ms = sum(end - begin for begin, end, _ in vacant)
    if not vacant or len(vacant) == len(times) or vacant_ms < _LEAST_VACANT * (until_ms - since_ms):
        return
    is_ongoing = vacant[-1][1] >= until_ms
    when = _when(vacant[-1][2], None if is_ongoing else vacant[-1][1], until_ms)
    if len(vacant) > 1:
        when += f", and for {formats.lasting(vacant_ms)} of the last {formats.lasting(until_ms - since_ms)}"
    kind = KINDS["no publisher"]
    been = _been(is_ongoing=is_ongoing, are_many=False)
    yield Verdict(kind, kind.sentence.format(been=been, when=when), "", is_ongoing, vacant[-1][1])


def _rarely_available(farm: FarmReport) -> Iterator[Verdict]:
    """Yield the servers and leaves that are always available too rarely, without those that an episode tells of."""
    kind = KINDS["low availability"]
    leaves = farm.leaves or {}
    odd = [
        each
        for each in farm.episodes or ()
        if each.measure == "availability" and each.end_ms > farm.period.until_ms - RECENT_MS
    ]
    told: set[int | str | None] = {each.destination for each in odd}
    told |= {server for each in odd if each.destination is None for server in each.servers}
    of_all: list[tuple[int | str, str, Series]] = [
        (id_, formats.server(id_), series) for id_, series in (farm.servers or {}).items()
    ]
    of_all += [(each, f"leaf {formats.short(formats.address(each))}", series) for each, series in leaves.items()]
    first = (farm.period.until_ms - RECENT_MS - farm.period.hour_ms) // farm.period.stretch_ms
    for subject, who, series in of_all:
        if subject in told:
            continue
        recent = mean([cell for at, cell in series.items() if at >= first], "availability")
        if recent is not None and recent < _LEAST_AVAILABLE:
            days = formats.lasting(min(RECENT_MS, farm.period.length_ms))
            value, when = formats.percent(recent), f"in the last {days}"
            sentence = kind.sentence.format(who=who, been="has been", value=value, when=when)
            yield Verdict(kind, _begun(sentence), "", is_ongoing=True, end_ms=farm.period.until_ms)


def mean(cells: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the mean of a figure over stretches, by their hours; None: not known."""
    known = [(cell[name], cell["hours"]) for cell in cells if cell[name] is not None]
    hours = sum(hours for _, hours in known)
    return sum(value * of for value, of in known) / hours if hours else None


def _of_backtest(farm: FarmReport) -> Iterator[Verdict]:
    trials = farm.trials or ()
    if recommended_row(trials) is not None:
        kind = KINDS["better parameters"]
        sentence = kind.sentence.format(value=live_row(trials).advice.split(". ")[0].rstrip("."))
        yield Verdict(kind, sentence, "", is_ongoing=False, end_ms=farm.period.until_ms)
