"""Lower ends for an exchange in one cluster, some of whose bits are known: all labels and all known bits are 0."""

import math
from dataclasses import dataclass

from p2p_sim.analysis.privacy.exchange.scan import Scan, Sources
from p2p_sim.analysis.privacy.exchange.unknown_bits import World
from p2p_sim.analysis.privacy.statement.inversion import cross
from p2p_sim.analysis.privacy.statement.local import local_delta


@dataclass(frozen=True)
class ZeroSources(Sources):
    """An exchange in which `known` of the sources, not the target, have noisy bits that are known to be 0.

    Their submissions are zeros like others: the learner cannot tell them.

    Args:
        known: at most sources - 1.
    """

    known: int

    def world(self, ones: int) -> World:
        """The world in which `ones` of the others with unknown bits hold label 1."""
        return World(self.sources, self.sources - 1 - self.known - ones, ones, self.flip_prob)


def attained(exchange: ZeroSources, met: float, delta: float) -> float:
    """An ε below which δ(ε) is above `delta` if all others hold label 0.

    Args:
        met: probability that somebody else sees the target's bit, who can tell whether it is hers.
    """
    alpha, seen = exchange.flip_prob, met * (1.0 - 2.0**-45)
    if alpha == 0.0:  # a submitted one is hers
        return math.inf if seen + (1.0 - met) * exchange.exposed.lower * (1.0 - 2.0**-45) > delta else 0.0
    scan = Scan(exchange, 8.0 * math.floor(math.log(delta) / 8.0))

    def above(epsilon: float) -> bool:
        direct = seen * local_delta(alpha, epsilon).lower
        if direct > delta or not exchange.trials or met >= 1.0:
            return direct > delta
        rest = scan.one(scan.views([0]), epsilon, False)
        return direct + (1.0 - met) * (1.0 - 2.0**-45) * rest > delta

    return cross(above, alpha)[0]
