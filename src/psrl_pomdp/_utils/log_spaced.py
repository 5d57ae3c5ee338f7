"""The checkpoint times of runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_PER_DECADE = 10


def log_spaced(horizon: int, per_decade: int = _PER_DECADE) -> npt.NDArray[np.int64]:
    """Return integers from 1 to the horizon, evenly spaced on a logarithmic scale.

    >>> log_spaced(100, 2).tolist()
    [1, 3, 10, 32, 100]
    """
    exponents = np.arange(0, np.log10(horizon) * per_decade + 1e-9) / per_decade
    times = np.unique(np.round(10.0**exponents).astype(np.int64))
    return np.append(times[times < horizon], horizon)
