"""Faults planted in the simulated exchange: what its law must show, and what `p2p-sim audit` must find.

Each happens with probability `strength`.
"""

from dataclasses import dataclass, replace

import numpy as np

from p2p_sim.audit.small_exchange_attack import Audit, audit
from p2p_sim.exchange import engines
from p2p_sim.exchange.batched_exchange import ShardExchange
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.scenario import Scenario


@dataclass(frozen=True)
class Planted:
    """A fault, and the size at which it is found at error 1e-9.

    fault: its name in `KINDS` or `JOINT_KINDS`. strength: its probability. cluster_size, flip_prob, sampling_rate,
    trials: n, α, θ and the clusters in each world. members: of the coalition; 0: the learner audits alone.
    """

    fault: str
    strength: float
    trials: int
    cluster_size: int = 12
    flip_prob: float = 0.1
    sampling_rate: float = 0.5
    members: int = 0

    @property
    def name(self) -> str:
        """Of the entry."""
        return f"{self.fault} {self.strength:g}"

    def audit(self, seed: int = 1, epsilon: float | None = None, learn: bool = False, **network) -> Audit:
        """What the command does at these settings; without its learnt attacks unless `learn`. It plants nothing."""
        tree = {
            "name": "planted",
            "seed": seed,
            "mechanism": {"flip_prob": self.flip_prob, "sampling_rate": self.sampling_rate},
            "network": {"start_window_s": 1.0, **network},
            "privacy": {"delta": 1e-5},
        }
        observer, members = ("coalition", self.members) if self.members else ("learner", None)
        return audit(
            Scenario.from_tree(tree), observer, members, trials=self.trials, cluster_size=self.cluster_size,
            epsilon=epsilon, learn=learn,
        )  # fmt: skip

    def plant(self, monkeypatch) -> None:
        """Put the fault into the simulator."""
        faulty = {"p": self.strength, "n": self.cluster_size, "alpha": self.flip_prob, "c": self.members}
        kind = type("Faulty", ((KINDS | JOINT_KINDS)[self.fault],), faulty)
        monkeypatch.setattr(engines, "ShardExchange", kind)
        honest = RandomizedResponse.randomize

        def randomize(noise, labels, rng):
            kind.truth = labels
            return kind.noisy(honest(noise, labels, rng), rng)

        monkeypatch.setattr(RandomizedResponse, "randomize", randomize)


class Faulty(ShardExchange):
    """An exchange that may go wrong; `p` is how often, `n` the cluster size, `truth` the true labels of the shard."""

    p, n, alpha, c = 0.0, 1, 0.0, 0
    truth = np.zeros(0, dtype=np.uint8)

    @classmethod
    def noisy(cls, labels, rng):
        """The noisy labels (m,) as they are used, from those that are right."""
        return labels

    def __init__(self, shard, payload, network, streams, **named):
        super().__init__(shard, payload, network, streams, **named)
        self.true, self.rng = type(self).truth, streams.generator("planted", shard.index)
        self.hit = self.rng.random(shard.size) < self.p
        self.redirect(np.arange(shard.size, dtype=np.int32), self.journey.choices.peer)

    def redirect(self, user, peer):
        """Change whom users ask, in place."""


class OwnLabel(Faulty):
    def redirect(self, user, peer):
        peer[self.hit] = user[self.hit]


class TrueLabel(Faulty):
    def submissions(self):
        received = super().submissions()
        place = received.user - self._shard.start
        return replace(received, label=np.where(self.hit[place], self.true[place], received.label))


class NextInLine(Faulty):
    def redirect(self, user, peer):
        following = user - user % self.n + (user + 1) % self.n
        peer[self.hit] = following[self.hit]


class CommonFlips(Faulty):
    @classmethod
    def noisy(cls, labels, rng):
        flips = (labels ^ cls.truth).reshape(-1, cls.n)
        same = rng.random(len(flips)) < cls.p
        return cls.truth ^ np.where(same[:, None], flips[:, :1], flips).ravel()


class Redrawn(Faulty):
    def submissions(self):
        received = super().submissions()
        place = received.user - self._shard.start
        fresh = self.true[self.source[place]] ^ (self.rng.random(place.size) < self.alpha)
        return replace(received, label=np.where(self.hit[place], fresh, received.label))


class AmongEquals(Faulty):
    def redirect(self, user, peer):
        """A uniform one of those who hold the same label: the place with the largest of as many random numbers."""
        labels = self.true.reshape(-1, self.n)
        same = labels[:, :, None] == labels[:, None, :]
        place = np.where(same, self.rng.random(same.shape), -1.0).argmax(axis=2).ravel()
        peer[self.hit] = (user - user % self.n + place)[self.hit]


class SortedByLabel(Faulty):
    def run(self):
        traffic = super().run()
        users = np.flatnonzero(np.isfinite(self.arrival) & self.hit[np.arange(self._shard.size) // self.n * self.n])
        cluster, label, times = users // self.n, self._payload[self.source[users]], self.arrival[users]
        self.arrival[users[np.lexsort((times, 1 - label, cluster))]] = times[np.lexsort((times, cluster))]
        return traffic


class Silence(Faulty):
    def accepts(self, times):
        return super().accepts(times) & ~(self.hit & (self._payload == 1))


class MembersOwn(Faulty):
    def redirect(self, user, peer):
        self.hit &= (user % self.n >= 1) & (user % self.n <= self.c)
        self.source = self.source.copy()

    def _submit(self, users, times, source, own=None):
        super()._submit(users, times, source, own)
        hit = users[self.hit[users]]
        self.source[hit] = hit


class MemberAsksHerself(Faulty):
    def redirect(self, user, peer):
        here = self.hit & (user % self.n >= 1) & (user % self.n <= self.c)
        peer[here] = user[here]


class Joint(Faulty):
    """Who submits tells the target's true label, in the clusters whose first user is hit; one user alone tells nothing,
    nor does how many submit."""

    def redirect(self, user, peer):
        submit = self.journey.choices.keep.reshape(-1, self.n)
        here = np.flatnonzero(self.hit[:: self.n])
        submit[here] = self.coded(submit[here], self.true[:: self.n][here] == 1)

    def coded(self, submit, one):
        """Who submits (c, n), from who would, for targets' labels (c,)."""
        raise NotImplementedError


class ParityOfFive(Joint):
    some = (1, 2, 3, 4, 5)

    def coded(self, submit, one):
        """Where the parity of some users is not the label, one of them changes places with one of the others."""
        wrong = np.flatnonzero(submit[:, list(self.some)].sum(axis=1) % 2 != one)
        others = np.setdiff1d(np.arange(self.n), self.some)
        first = self.rng.choice(self.some, size=wrong.size)
        differs = submit[wrong][:, others] != submit[wrong, first][:, None]
        second = others[np.where(differs, self.rng.random(differs.shape), -1.0).argmax(axis=1)]
        submit[wrong, first], submit[wrong, second] = submit[wrong, second], submit[wrong, first]
        return submit


class PairPattern(ParityOfFive):
    some = (3, 7)


class CodeWord(Joint):
    def coded(self, submit, one):
        """Where half of the users submit: those of a word of the label, or all others."""
        words = np.random.default_rng(5).permuted(np.arange(2 * self.n).reshape(2, -1) % 2 == 0, axis=1)
        here = np.flatnonzero(submit.sum(axis=1) == self.n // 2)
        submit[here] = words[one[here].astype(int)] ^ (self.rng.random(here.size) < 0.5)[:, None]
        return submit


KINDS = {
    "own label": OwnLabel,
    "true label": TrueLabel,
    "neighbour's label": NextInLine,
    "common flips": CommonFlips,
    "flips redrawn": Redrawn,
    "fetches among equals": AmongEquals,
    "order by label": SortedByLabel,
    "silence": Silence,
    "member's own label": MembersOwn,
    "member asks herself": MemberAsksHerself,
}
"""How each fault is planted."""
JOINT_KINDS = {
    "parity of five": ParityOfFive,
    "pattern of a pair": PairPattern,
    "code word": CodeWord,
}
"""How leaks are planted that show only in who submits together."""

JOINT = (
    Planted("parity of five", 0.5, 100_000),
    Planted("pattern of a pair", 0.15, 100_000),
    Planted("code word", 0.133, 100_000),  # half of 12 users submit in 22.6% of the clusters: used in 3%
    Planted("parity of five", 0.5, 5_000),
    Planted("pattern of a pair", 0.4, 5_000),
    Planted("code word", 0.5, 5_000),
)
"""Leaks in who submits together that the audit must find."""
