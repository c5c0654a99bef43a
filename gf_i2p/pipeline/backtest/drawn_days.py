"""The gain of one parameter set over another, with an interval: a bootstrap that draws whole days.

The costs of hours of one day hang together: an outage of the evening follows from a fault of the morning. So days are
drawn, and not entries. Both sets have lived through the same days, so their difference is taken day by day.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gf_i2p.pipeline.backtest.gain import Gain
from gf_i2p.pipeline.days import DAY_MS

DRAWS: Final = 2000
"""Number of times that days are drawn."""
CONFIDENCE: Final = 0.95
_SEED: Final = 150

Numbers = NDArray[np.float64]


class DrawnDays:
    """Days, and the draws from them. Equal days make equal draws."""

    def __init__(self, farm_ms: Sequence[float]) -> None:
        """`farm_ms`: the measured time of each day; two days at least."""
        self._days: Numbers = np.asarray(farm_ms, dtype=np.float64) / DAY_MS
        count = len(self._days)
        self._draws: Numbers = (
            np.random.default_rng(_SEED).multinomial(count, [1 / count] * count, size=DRAWS).astype(np.float64)
        )

    def gain(self, costs: Numbers, others: Numbers) -> Gain:
        """Return the gain of a set with `costs` over a set with `others`: seconds of outage on each of the days."""
        saved, paid = others - costs, float(others.sum())
        seconds = float(saved.sum() / self._days.sum())
        if paid <= 0:
            return Gain(0.0, 0.0, 0.0, seconds)
        share = float(saved.sum() / paid)
        drawn_paid = self._draws @ others
        # A draw of days on which the other set costs nothing shows no saving: a gain on one day of many is not sure.
        draws = np.divide(self._draws @ saved, drawn_paid, out=np.zeros(DRAWS), where=drawn_paid > 0)
        # Draws spread less than the days behind them, by this factor.
        draws = share + (draws - share) * math.sqrt(len(costs) / (len(costs) - 1))
        low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return Gain(share, float(low), float(high), seconds)
