"""The charts without an axis of time: trials of parameters, floodfills, the quarantine, sizes of tables."""

import json
from typing import Any, Final

from gf_i2p.pipeline.report import formats
from gf_i2p.pipeline.report.chart_data import (
    MADE_BY,
    Backtest,
    Closest,
    Floodfills,
    Near,
    Quarantine,
    TableSize,
    TrialRow,
)
from gf_i2p.pipeline.report.layout import WIDTH, block, dot, folded, note, plot, row, table
from gf_i2p.pipeline.report.markup import Markup, element, joined

_BAR: Final = 16
_DAY: Final = 20
_LEAST_BITS: Final = 16
"""Least number of bits on the scale of distances."""
_PARAMETERS: Final = 12
"""Most parameters of a set that are shown."""
_NOTHING: Final = "as in the log"
"""Text for the live set, and for a set whose values the farm has at the end of the log."""


def backtest(results: Backtest) -> Markup:
    """Show the results with the live parameters and with the best other sets, and the recommendation."""
    live = next((each for each in results.trials if each.live), None)
    head = [
        "parameters",
        "cost a day",
        "gain",
        "outage",
        "changes",
        "unneeded",
        "stale",
        "missing",
        "sets",
        "imbalance",
    ]
    rows = []
    for each in results.trials:
        marks = [
            element("strong", text)
            for text, holds in (("live ", each.live), ("recommended ", each.recommended))
            if holds
        ]
        cells = [
            element("td", *marks, element("span", differences(each, live))),
            *(
                element("td", text, class_="n")
                for text in (
                    "" if each.cost is None else formats.lasting(round(each.cost * 1000)),
                    each.gain,
                    formats.lasting(each.outage_ms),
                    formats.count(each.changes),
                    formats.count(each.unneeded),
                    formats.lasting(each.stale_ms),
                    formats.lasting(each.missing_ms),
                    formats.count(each.set_changes),
                    formats.percent(each.imbalance),
                )
            ),
        ]
        rows.append(element("tr", *cells, class_="best" if each.recommended else None))
    names = (element("th", name, scope="col", class_="n" if at else None) for at, name in enumerate(head))
    caption = element("caption", "The farm's measures with other parameters, by a replay of its log")
    tables = element("table", caption, element("thead", element("tr", *names)), element("tbody", *rows))
    hidden = results.total - len(results.trials)
    remark = (
        f"{'' if live is None else live.advice} Less is better in all columns but the gain. cost: all measures, as "
        "time of outage. gain: the saved share of the live set's cost on the last days, with its interval. outage: "
        "time in which no server served clients, though one was able. stale: time in which a listed leaf was down, "
        "added up over leaves. missing: the same for leaves that were up and not listed. sets: changes of the "
        "published set. imbalance: the part of new clients that would have to go to another leaf for a fair use of "
        "free room."
    ).strip()
    if hidden > 0:
        remark += f" {formats.plural(hidden, 'more set')} cost more and are not shown."
    return joined(
        element("div", tables, class_="wide", role="region", aria_label="Backtest", tabindex="0"), note(remark)
    )


def differences(trial: TrialRow, live: TrialRow | None) -> str:
    """Return a text with the values in which a set differs from the live set; without differences, `_NOTHING`."""
    values, live_values = _values(trial.parameters), {} if live is None else _values(live.in_force or live.parameters)
    if trial.live:
        return _NOTHING
    changes = [f"{name} = {value}" for name, value in values.items() if live_values.get(name, None) != value]
    ellipsis = ", …" if len(changes) > _PARAMETERS else ""
    return ", ".join(changes[:_PARAMETERS]) + ellipsis or _NOTHING


def _values(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {"parameters": text}
    return values if isinstance(values, dict) else {"parameters": text}


def floodfills(closest: Floodfills) -> Markup:
    """Draw the distance of the closest floodfills from each hash, day by day."""
    if not closest.hashes:
        return note("No hash was looked for.")
    equal_bits = [near.equal_bits for each in closest.hashes for day in each.days.values() for near in day]
    highest = max([_LEAST_BITS, *(bits + 1 for bits in equal_bits)])
    shown = [_closest(each, highest) for each in closest.hashes]
    omitted = f" {formats.count(closest.others)} more hashes are not drawn." if closest.others else ""
    return joined(
        element("div", *shown, class_="hashes"),
        note(
            f"Each dot is a floodfill. The place tells how many first bits the floodfill's hash shares with the "
            f"routing key of the hash above: 0 (left) to {highest} (right). Further right is closer. Routing keys "
            f"change at midnight UTC.{omitted}"
        ),
    )


def _closest(each: Closest, highest: int) -> Markup:
    rows, cells = [], []
    for day, near in sorted(each.days.items()):
        places = [WIDTH * one.closeness / highest for one in near]
        lines = [
            element("line", x1=(x := WIDTH * bits / highest), x2=x, y1=0, y2=_DAY, class_="grid")
            for bits in range(0, highest + 1, 4)
        ]
        # Dots at nearly the same place must not hide each other: closer floodfills are a bit higher.
        dots = [
            dot(
                place,
                _DAY * (0.3 + 0.4 * at / max(len(near) - 1, 1)),
                "first" if one.rank == 1 else "other",
                _floodfill_text(one),
            )
            for at, (place, one) in enumerate(zip(places, near, strict=True))
        ]
        closest = max((one.equal_bits for one in near), default=0)
        about = f"{day}: {formats.plural(len(near), 'floodfill')}, the closest shares {formats.plural(closest, 'bit')}"
        rows.append(row(day[5:], plot(_DAY, about, *lines, *reversed(dots)), f"{closest} bits", full_name=day))
        cells += [
            (day, str(one.rank), one.floodfill, str(one.equal_bits), one.distance[:16] + "…", _profile_text(one))
            for one in near
        ]
    name = each.name or "a hash"
    head = ["day", "rank", "floodfill", "equal bits", "distance", "profile"]
    return element(
        "div",
        element("h4", name),
        element("div", each.hash, class_="hash"),
        element("div", *rows, class_="rows"),
        folded("As a table", table(head, cells, f"The floodfills closest to {each.hash}", text_columns=6)),
        class_="closest",
    )


def _floodfill_text(near: Near) -> str:
    profile = _profile_text(near)
    return f"rank {near.rank}: {near.floodfill}, {formats.plural(near.equal_bits, 'equal bit')}" + (
        f", {profile}" if profile else ""
    )


def _profile_text(near: Near) -> str:
    return ", ".join(f"{name} {value}" for name, value in near.profile.items())


def quarantine(summary: Quarantine) -> Markup:
    """Draw how many files, lines and records did not fit, by reason."""
    if not summary.total:
        return note("Nothing is in quarantine.")
    most = max(each.count for each in summary.reasons)
    rows = []
    for each in summary.reasons:
        about = f"{each.what}: {each.reason}: {formats.count(each.count)}, {formats.size(each.length)}"
        bar = plot(_BAR, about, block(0, WIDTH * each.count / most, 2, _BAR - 4, "bar", about))
        rows.append(
            row(
                f"{each.what}: {each.reason}",
                bar,
                formats.count(each.count),
                full_name=f"{each.what}: {each.reason}",
            )
        )
    hidden = summary.total - sum(each.count for each in summary.reasons)
    others = formats.count(summary.kinds - len(summary.reasons))
    more = f" {formats.count(hidden)} more for {others} other reasons." if hidden else ""
    cells = ((each.what, each.reason, formats.count(each.count), formats.size(each.length)) for each in summary.reasons)
    return joined(
        element("div", *rows, class_="rows reasons"),
        note(
            f"{formats.plural(summary.total, 'piece')} in all; each is kept with its reason, and none is dropped.{more}"
        ),
        folded("As a table", table(["what", "reason", "count", "size"], cells, "Quarantine by reason", text_columns=2)),
    )


def sizes(tables: list[TableSize]) -> Markup:
    """Show the sizes of the tables."""
    cells = [
        (
            each.name,
            _absent(each.name) if each.rows is None else formats.count(each.rows),
            "–" if each.files is None else formats.count(each.files),
            "–" if each.bytes is None else formats.size(each.bytes),
        )
        for each in tables
    ]
    known_bytes = [each.bytes for each in tables if each.bytes is not None]
    total = note(f"{formats.size(sum(known_bytes))} in all.") if known_bytes else ""
    return joined(
        table(["table", "rows", "files", "on disk"], cells, "Tables of the lake"), *([total] if total else [])
    )


def _absent(table_: str) -> str:
    return f"not there: gf-i2p pipeline {MADE_BY[table_]} makes it" if table_ in MADE_BY else "not there"
