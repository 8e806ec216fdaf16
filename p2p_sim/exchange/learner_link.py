"""The learner's own link, which the clusters share: submissions queue there in the order in which they come."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from p2p_sim.exchange.exchange_run import ExchangeRun
from p2p_sim.exchange.traffic import Traffic
from p2p_sim.network.shared_link import departures

Finished = tuple[ExchangeRun, Traffic]


def served(queue: list[Finished]) -> Iterator[Finished]:
    """Send all submissions through the learner's link, in order of arrival; the network's duplicates are left out."""
    if not queue:
        return
    came = [np.flatnonzero(np.isfinite(exchange.arrival)) for exchange, _ in queue]
    journey = queue[0][0].journey
    rate = journey.config.learner_bandwidth_bps
    assert rate is not None
    arrivals = np.concatenate([exchange.arrival[users] for (exchange, _), users in zip(queue, came, strict=True)])
    left = departures(arrivals, 8.0 * journey.bytes["submission"] / rate)
    parts = np.split(left, np.cumsum([users.size for users in came])[:-1])
    for (exchange, counts), users, part in zip(queue, came, parts, strict=True):
        exchange.arrival[users] = part
        end = max(counts.completion_time_s, float(part.max(initial=0.0)))
        yield exchange, replace(counts, completion_time_s=end)
