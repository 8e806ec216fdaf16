"""Pushed labels: a user's noisy label makes a random walk over peers, and the last user on the walk submits the label.

With one step, this mechanism is the shuffle model without a trusted shuffler. The learner sees who submits a label. But
every user of the cluster is equally likely to be the source of this label. With two steps, the mechanism is a relay.
The first user on the walk knows whose label she got, but the submitter does not.

**The learner's ε.** The overlay is the graph of whom users may ask. If it is complete, the learner's view is a function
of the noisy labels in random order. So the bound for shuffled labels holds. For another overlay, let P_v be the
distribution of the last user of a walk that starts at user v. Let TV be the total variation distance, and

    D = Σ_v TV(P_v, uniform on the cluster).

Walks are independent of each other and of all labels. Let Pr and Pr' be the laws of the view for two neighbouring data
sets. Let Pr* and Pr*' be these laws if every walk ends at a uniformly random user of the cluster. Then Pr is within
total variation distance D of Pr*, and Pr' is within D of Pr*'. For every event S

    Pr[S] <= Pr*[S] + D <= e^ε Pr*'[S] + δ + D <= e^ε Pr'[S] + δ + (1 + e^ε) D.

Here shuffled labels are (ε, δ)-private. Liew et al. (Network shuffling, SIGMOD 2022) study such walks.

A message carries one number: the label times the number of steps, plus the number of remaining steps.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.exchange import Me, Protocol, Request
from p2p_sim.mechanisms.deployment import Accounted
from p2p_sim.mechanisms.outcome import Outcome
from p2p_sim.mechanisms.protocol_mechanism import ProtocolConfig, ProtocolMechanism
from p2p_sim.network import Overlay
from p2p_sim.privacy import Situation, worst_bound
from p2p_sim.privacy.rivals import ShuffledByWalks

LARGEST_MIXED = 2_048
"""Largest cluster for which the laws of walk ends are computed."""


@dataclass(frozen=True)
class PushedWalk(Protocol):
    """Protocol: each user's noisy label makes `steps` random steps. The last user on the walk submits the label."""

    steps: int

    symmetric: ClassVar[bool] = True

    def user(self, me: Me) -> Any:
        self._push(me, me.noisy_label, self.steps - 1)
        yield me.online()

    def answer(self, me: Me, request: Request) -> int | None:
        if request.payload is None:
            return None
        label, remaining = divmod(int(request.payload), self.steps)
        if remaining:
            self._push(me, label, remaining - 1)
        else:
            me.submit(label)
        return None

    def _push(self, me: Me, label: int, remaining: int) -> None:
        """Sends a label to a random user whom this user may ask. If there is no such user, this user submits the label.

        Args:
            me: the user who holds the label now. label: a noisy label. remaining: how many further steps the label
            makes after this one; 0: the receiver submits the label.
        """
        if (peer := me.random_peer()) is None:
            me.submit(label)
        else:
            me.send(peer, label * self.steps + remaining)


class PushedLabels(ProtocolMechanism):
    """The mechanism of pushed labels, with a bound for incomplete overlays (graphs of whom users may ask) too."""

    def account(
        self, outcome: Outcome, cluster_sizes: NDArray[np.int64], situation: Situation, delta: float
    ) -> Accounted:
        """The privacy bounds of a finished run at δ: the learner's bound for each cluster, and a bound for each
        results column. If the overlay is complete, nothing fails and all users follow the protocol, the learner's ε is
        the ε of shuffled labels.

        If only the overlay differs, the learner's ε grows with D: a distance of walk ends from the uniform law
        (`walk_distances`). In other cases, or if D is too large, only ε₀ is stated, the ε of one noisy label.

        Args:
            outcome: the result of the run, with the overlay. cluster_sizes: (C,) users of each cluster. situation:
            network faults, users who break the protocol, and who observes. delta: δ.
        """
        accounted = super().account(outcome, cluster_sizes, situation, delta)
        if situation.faults != ("network.overlay",) or self.applies(replace(situation, faults=())) is not None:
            return accounted
        assert isinstance(self.protocol, PushedWalk)
        distances = walk_distances(outcome.overlay, cluster_sizes, self.protocol.steps)
        noise, bounds = self.randomizer, []
        for size, distance, alone in zip(cluster_sizes.tolist(), distances, accounted.learner, strict=True):
            model = ShuffledByWalks(size, noise.flip_prob, noise.num_classes, distance)
            # if walk ends are too far from uniform, only ε₀ is known
            bounds.append(model.epsilon(delta) if model.delta(0.999 * model.pure_epsilon).upper <= delta else alone)
        return Accounted(tuple(bounds), accounted.statements | {"epsilon_upper": worst_bound(bounds)}, accounted.facts)


class PushedLabelsConfig(ProtocolConfig):
    """Users send their noisy labels on random walks; the user at the end of a walk submits the label."""

    kind: Literal["pushed_labels"] = "pushed_labels"
    mechanism: ClassVar[type[ProtocolMechanism]] = PushedLabels
    described: ClassVar[str] = "noisy labels pushed on random walks"
    steps: int = Field(default=1, ge=1, le=64)
    """L: number of steps of a walk, 1 to 64; 1 is a push to a random user, 2 a relay."""

    def protocol(self) -> PushedWalk:
        return PushedWalk(self.steps)


def walk_distances(overlay: Overlay | None, cluster_sizes: NDArray[np.int64], steps: int) -> list[float]:
    """An upper bound of D = Σ_v TV(P_v, uniform on the cluster) for each cluster. P_v is the law of the end of user v's
    walk, and TV is the total variation distance. In a cluster of more than 2,048 users D is not computed. The bound is
    then the number of users.

    Args:
        overlay: the graph of whom users may ask; None: everybody of their cluster. cluster_sizes: number of users of
        each cluster, in the population's order. steps: number of steps of a walk.
    """
    if overlay is None:
        return [0.0] * len(cluster_sizes)
    distances = []
    for size, last in zip(cluster_sizes.tolist(), np.cumsum(cluster_sizes).tolist(), strict=True):
        first = last - size
        if size > LARGEST_MIXED:
            distances.append(float(size))
            continue
        # one step leads to each neighbour with the same probability; a user without neighbours keeps the label
        step = np.zeros((size, size))
        for user in range(size):
            peers = overlay.indices[overlay.indptr[first + user] : overlay.indptr[first + user + 1]] - first
            step[user, peers if peers.size else user] = 1.0 / max(1, peers.size)
        ends = np.linalg.matrix_power(step, steps)
        # a product of two stochastic matrices adds at most n 2^-53 to the factors' own errors in each row, n = size.
        # So a row of step^L is off by at most L n 2^-53, and half of all rows' sum by L n² 2^-54. Twice this amount,
        # L/2 · n² 2^-52 with reserve, also covers the rounded entries of `step` and the last sum.
        rounding = size * max(2.0 * np.log2(2.0 * steps), steps / 2.0) * size * 2.0**-52
        distances.append(float(0.5 * np.abs(ends - 1.0 / size).sum() + rounding))
    return distances
