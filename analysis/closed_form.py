"""Compares the closed form of docs/theorem.md with the smallest flip probability that meets a privacy target.

Run as `python -m analysis.closed_form` or by `make published`; it takes some CPU minutes.
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from analysis.study import Frame, command
from p2p_sim.base import Streams
from p2p_sim.privacy import calibrate_flip_prob, local_flip_prob, sufficient_flip_prob

SEED = 7
DELTAS = (1e-12, 1e-9, 1e-6, 1e-3, 1e-1)
SMALLEST, RATES, EPSILONS = 30, (0.01, 1.0), (0.01, 3.0)
"""The smallest number n of users, and the ranges of the sampling rate θ and of ε. Random n, θ and ε are drawn uniformly
on a logarithmic scale."""
SMALL, LOW, HIGH, BETWEEN = "n < 100", "ε < .7 θ", "ε > 1.5 θ", "between"
REGIMES = (LOW, HIGH, BETWEEN, SMALL)
"""Names of the groups of targets. Targets with fewer than 100 users are one group. Other targets are grouped by ε/θ."""
DRAWN = 5_000
"""Largest number of random targets drawn for each regime (group of targets) and each δ. The first targets that belong
to the regime are taken."""


@dataclass(frozen=True)
class Target:
    """A privacy target of the label exchange: (ε, δ) in a cluster of n users at the sampling rate θ."""

    n: int
    sampling_rate: float
    epsilon: float
    delta: float

    @property
    def regime(self) -> str:
        """The target's group: "n < 100" for fewer than 100 users. Otherwise ε/θ decides: "ε < .7 θ", "ε > 1.5 θ" or
        "between".
        """
        ratio = self.epsilon / self.sampling_rate
        return SMALL if self.n < 100 else LOW if ratio < 0.7 else HIGH if ratio > 1.5 else BETWEEN

    @property
    def sufficient(self) -> float:
        """The flip probability α* of the closed form, which suffices for this target."""
        return sufficient_flip_prob(self.n, self.sampling_rate, self.epsilon, self.delta)

    @property
    def local(self) -> bool:
        """Whether α* is at least 99.9% of the α with which randomised response alone has this ε."""
        return self.sufficient >= 0.999 * local_flip_prob(self.epsilon)


def main(frame: Frame, targets: int = 8, largest: int = 100_000) -> list[Path]:
    """Compares the flip probability α* of the closed form with the smallest α that meets the target, for random
    targets. Returns the file of the table.

    Args:
        frame: runs the study and writes its files. targets: how many are compared for each regime (group) and δ.
        largest: the largest number of users in a target.
    """
    wanted = [t for cell in itertools.product(REGIMES, DELTAS) for t in itertools.islice(_of(*cell, largest), targets)]
    return [frame.table("table.csv", frame.each(_line, wanted))]


def _of(regime: str, delta: float, largest: int) -> Iterator[Target]:
    """Yields random privacy targets of one regime (group of targets) at one δ, from at most 5,000 draws. The number n
    of users (30 to `largest`), θ and ε are drawn uniformly on logarithmic scales. A target is yielded only if α* > 0.
    From n = 100 on, α* must also be below 99.9% of the α of randomised response.
    """
    rng = Streams(SEED, 0).generator(f"{regime} {delta:g}")
    for _ in range(DRAWN):
        n, rate, epsilon = (
            float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((SMALLEST, largest), RATES, EPSILONS)
        )
        target = Target(round(n), rate, epsilon, delta)
        if target.regime == regime and target.sufficient > 0.0 and (regime == SMALL or not target.local):
            yield target


def _line(target: Target) -> dict[str, object]:
    """The target's row in the table: the closed form's flip probability, the smallest one that meets the target, and
    their ratio.
    """
    smallest = calibrate_flip_prob([target.n], 2, target.sampling_rate, target.epsilon, target.delta)
    return {
        "regime": target.regime, **asdict(target), "local": target.local,
        "sufficient": target.sufficient, "smallest": smallest, "factor": target.sufficient / smallest,
    }  # fmt: skip


if __name__ == "__main__":
    command("closed-form", main)
