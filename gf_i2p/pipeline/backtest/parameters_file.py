"""The file with recommended parameters: TOML with a table `[farm.parameters]`, by the names in the farm's log.

The table `[farm]` names the farm as `cluster`, because the best parameters differ from farm to farm.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gf_i2p.farm.parameters import Parameters
from gf_i2p.farm.strict_json import RecordError
from gf_i2p.pipeline.backtest.grid import read_toml
from gf_i2p.pipeline.backtest.result_rows import (
    BacktestRow,
    compared,
    live_row,
    recommended_command,
    recommended_row,
    recommended_values,
)
from gf_i2p.pipeline.days import DAY_MS
from gf_i2p.pipeline.errors import UsageError

MAX_BYTES: Final = 64 << 10


def quoted(text: str) -> str:
    """Return a text as a TOML string: JSON's quotes and escapes, an escape for DEL, and no lone surrogates."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def fragment(results: Sequence[BacktestRow]) -> str:
    """Return the recommendation for one farm as TOML for `gf-i2p pipeline post`. Without one: only comments.

    `results`: all rows of the farm.
    """
    live, best = live_row(results), recommended_row(results)
    name = quoted(live.farm)  # a name with a line break must not end the comment
    days = f"{live.entries} entries, {live.counts.farm_ms / DAY_MS:.1f} days of farm time"
    lines = [f"# Farm {name}, by gf-i2p pipeline backtest: {days}."]
    if not live.exact:
        lines.append("# The log has gaps, so the farm may have decided otherwise here and there.")
    lines.append(f"# {live.advice}")
    if best is None:
        return "\n".join([*lines, ""])
    lines.append("# The whole log with the farm's and with these parameters:")
    lines += [f"#   {name:23} {_short(old):>10} -> {_short(new)}" for name, old, new in compared(live, best)]
    lines += ["# Parameters are in the farm's log, for the whole farm. Set these by gf-i2p pipeline post, or by"]
    lines += [f"#   {recommended_command(results)}", "", "[farm]", f"cluster = {quoted(live.farm)}", ""]
    lines.append("[farm.parameters]")
    for name, value in recommended_values(results).items():
        lines.append(f"{name} = {json.dumps(value)}  # until now {json.dumps(live.in_force.get(name))}")
    return "\n".join([*lines, ""])


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def read_parameters(path: Path, cluster: str) -> dict[str, Any]:
    """Read a file with recommended parameters; return their values by the names in the log.

    `cluster`: the farm that will get the parameters. A file without the name of a farm fits any farm. Raises
    `UsageError` and `OSError`.
    """
    farm = read_toml(path, MAX_BYTES, "give a file of pipeline backtest --out").get("farm")
    farm = farm if isinstance(farm, dict) else {}
    parameters = farm.get("parameters")
    if not isinstance(parameters, dict) or not parameters:
        raise UsageError(f"{path} has no parameter in [farm.parameters]: give a file of pipeline backtest --out.")
    if farm.get("cluster", cluster) != cluster:
        raise UsageError(f"{path} is for the farm {farm['cluster']!r}, and not for {cluster!r}: nothing was posted")
    try:
        Parameters().changed(parameters)
    except RecordError as error:
        raise UsageError(f"{path}: {error}") from None
    return parameters
