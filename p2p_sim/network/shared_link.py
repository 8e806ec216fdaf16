"""A link that everybody shares: first come, first served."""

import numpy as np
from numpy.typing import NDArray


def departures(arrivals: NDArray[np.float64], service_s: float) -> NDArray[np.float64]:
    """When messages leave a queue served one at a time, in order of arrival (ties: in the order given).

    Args:
        arrivals: (m,) seconds, in any order.
        service_s: time that one message takes, seconds, above 0.

    >>> departures(np.array([0.0, 0.1, 5.0]), 1.0).tolist()
    [1.0, 2.0, 6.0]
    """
    order = np.argsort(arrivals, kind="stable")
    place = np.arange(arrivals.size) * service_s
    left = np.empty_like(arrivals)
    left[order] = np.maximum.accumulate(arrivals[order] - place) + place + service_s  # Lindley's recursion, unrolled
    return left
