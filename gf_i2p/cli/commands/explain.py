"""`gf-i2p explain`: tells why the farm has chosen its publisher, and why each leaf is listed or left out."""

import argparse
from datetime import UTC, datetime
from typing import Any, Final

from gf_i2p.cli.shared.answer_text import (
    in_touch,
    membership_lines,
    mode_words,
    publishing_lines,
    sensed_lines,
)
from gf_i2p.cli.shared.argument_types import NODE_HELP, NODE_METAVAR
from gf_i2p.cli.shared.command import Answer, path_argument
from gf_i2p.cli.shared.errors import Exit
from gf_i2p.cli.shared.local_client import ask
from gf_i2p.cli.shared.terminal import printable

add_arguments: Final = path_argument("directory", NODE_METAVAR, NODE_HELP)


def run(options: argparse.Namespace) -> Answer:
    """Ask the node of this directory for its explanation.

    The exit code is `DEGRADED` without a leader, on a removed server, and when the farm wants a publisher and has none.
    """
    answer = ask(options.directory, "GET", "/v1/explain")
    farm = answer["farm"]
    as_wanted = farm["publisher"] is not None or (farm["off"] and answer["this"]["mode"] == "off")
    code = Exit.OK if as_wanted and in_touch(answer) else Exit.DEGRADED
    return Answer(answer, show_explanation(answer), code, is_report=True)


def show_explanation(answer: dict[str, Any]) -> str:
    """Describe the farm's choice, the administrators' changes, and the publishing by this server, in lines."""
    farm, this_server = answer["farm"], answer["this"]
    membership = membership_lines(answer)
    lines = [*membership, *([""] if membership else []), *map(printable, answer["lines"])]
    if not answer["applied"]:  # nothing is known of the farm, so the other lines about the farm are left out
        lines = lines[: len(lines) - len(answer["lines"]) + 1]
    else:
        lines += _administration(farm["administration"])
    lines += ["", f"this server, {answer['id']}: mode {mode_words(this_server)}"]
    if this_server["publishing"] is None:
        lines.append(f"  it {'serves' if this_server['mode'] == 'failover' else 'publishes'} nothing now")
    else:
        lines += ["  " + line for line in publishing_lines(this_server["publishing"])]
    return "\n".join([*lines, *(f"  trouble: {printable(trouble)}" for trouble in this_server["trouble"])])


def _administration(administration: dict[str, Any]) -> list[str]:
    """Describe the administrators' changes that still count, and the last changes."""
    lines = []
    if administration["moved_to"] is not None:
        lines.append(f"  publishing was moved to server {administration['moved_to']}")
    lines += [f"  server {server} is drained{_by(change)}" for server, change in administration["drained"].items()]
    lines += [f"  {leaf} is excluded{_by(change)}" for leaf, change in administration["excluded"].items()]
    lines += [f"  {leaf} costs {cost}" for leaf, cost in administration["costs"].items()]
    if administration["changes"]:
        lines.append("  the last changes:")
        lines += [
            f"    {change['index']:>8}  {_when(change['date'])}  {_change_text(change)}"
            for change in administration["changes"]
        ]
    sensed = [printable(line) for line in sensed_lines(administration["sensed"])]
    if sensed:
        sensed = ["", sensed[0] + ":", *(f"  {line}" for line in sensed[1:])]
    return [*(["", "administrators:", *lines] if lines else ["", "administrators have changed nothing"]), *sensed]


def _by(change: dict[str, Any]) -> str:
    reason = f": {printable(change['reason'])}" if change.get("reason") else ""
    return f" by {printable(change['by'])} since {_when(change['date'])}{reason}"


def _change_text(change: dict[str, Any]) -> str:
    reason = f" ({printable(change['reason'])})" if change.get("reason") else ""
    return f"{printable(change['by'])}: {printable(change['what'])}{reason}"


def _when(date_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(date_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError):  # the date is the poster's, and can be any number
        return "at an unknown time"
