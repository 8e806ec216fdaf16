"""An attack on a curator who resamples labels within clusters and releases the clusters' noisy label distributions.

The curator adds Laplace noise of scale σ/n to the shares of K classes in a cluster of n users. Then every share is
lifted to at least the threshold τ; the result is q̃. The attack runs on many copies of one small cluster, and each copy
is an independent trial. The target is the first user of each cluster. In the first of two worlds she holds label a = 0,
in the second b = 1.

The attack counts how often two things happen together: the target's noisy label is a, and q̃ lies in an event. The
event is e^(2/σ) times as likely in the first world (`p2p_sim/privacy/rivals`). There are two kinds of event. In the
first kind, q̃ equals τ at all labels except a. In the second kind, for K >= 3, q̃(b) = τ and q̃(a) is little above τ.

The event is fixed before any trial, on draws of q̃ from its law. So the frequencies of both things together have
Clopper-Pearson bounds, one in each world. The logarithm of the ratio of these bounds is a lower bound of ε at the
stated error, whatever the mechanism really does.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.one_run import SHARDS, Floats, claim_of
from p2p_sim.base import BLOCK, InputError, Streams, one_thread
from p2p_sim.mechanisms import ClusterRRConfig
from p2p_sim.privacy.audit_statistics import ERROR, epsilon_lower
from p2p_sim.privacy.rivals import ClusterResampling, released_distribution
from p2p_sim.replicate import Replicate
from p2p_sim.scenario import Scenario

Draw = Callable[
    [NDArray[np.uint8], NDArray[np.int64], np.random.Generator, np.random.Generator], tuple[NDArray[np.uint8], Floats]
]
"""A function that draws noisy labels (n,), and released distributions q̃ (C, K) over K classes, for C clusters. Its
arguments are the labels (n,), the cluster boundaries (C + 1,), a generator for the noise of q̃, and a generator for the
labels."""
LARGEST_CLUSTER = 200
"""Largest number of users in the attacked cluster."""
REHEARSALS = 100_000
"""Number of draws of q̃ on which an event is chosen."""
WIDTHS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""The largest distances by which q̃(a) may exceed τ in an event, in units of the noise's scale."""
_TIE = 1e-9
"""Shares that differ by less count as equal."""


@dataclass(frozen=True)
class CuratorEvent:
    """An event that the attack counts, and the cluster that it attacks.

    counts: how many users hold each label in the first world, in which the target holds a = 0. everywhere: True if the
    released distribution q̃ must equal the threshold τ at all labels except a; False if only at label b = 1. largest:
    the largest q̃(a) in the event.
    """

    counts: tuple[int, ...]
    everywhere: bool
    largest: float

    def holds(self, released: Floats, threshold: float) -> NDArray[np.bool_]:
        """Whether the event occurs, for each of C clusters: a mask (C,).

        In the event, q̃ gives class 0 a share above τ and at most `largest`. With `everywhere`, all other classes have
        the share τ. Without it, class 1 has the share τ, and further classes do not matter. Shares count as equal up to
        rounding.

        Args:
            released: (C, K) the distribution q̃ of each cluster over K classes. threshold: τ, the least released share.
        """
        others = released[:, 1:] if self.everywhere else released[:, 1:2]
        clipped = np.asarray((others <= threshold + _TIE).all(axis=1))
        return clipped & (released[:, 0] > threshold + _TIE) & (released[:, 0] <= self.largest)


@dataclass(frozen=True)
class CuratorAudit:
    """A finished audit of a curator.

    scenario: its name. cluster_size, num_classes, resampling_prob, noise_scale, threshold: n, K, λ, σ, τ of the
    attacked mechanism. epsilon_attained: lower bound of ε at δ = 1e-12, so also of the pure ε. epsilon_true: upper
    bound of the pure ε. epsilon_paper: ε as Theorem 1 of the clustering paper states it. epsilon_lower_confidence: the
    lower bound that the attack proves. expected: approximately the lower bound to expect if the mechanism is exactly
    right. trials: number of clusters in each world. hits: in how many clusters of the first world the attack counted
    its event. misses: in how many clusters of the second world. error: the largest probability that a sound mechanism
    fails the audit.
    """

    scenario: str
    cluster_size: int
    num_classes: int
    resampling_prob: float
    noise_scale: float
    threshold: float
    epsilon_attained: float
    epsilon_true: float
    epsilon_paper: float
    epsilon_lower_confidence: float
    expected: float
    hits: int
    misses: int
    trials: int
    error: float

    @property
    def passed(self) -> bool:
        """Whether the lower bound that the attack proves is at most the certified upper bound of ε."""
        return self.epsilon_lower_confidence <= self.epsilon_true

    @property
    def paper_refuted(self) -> bool:
        """Whether the lower bound that the attack proves is above the ε that the clustering paper states."""
        return self.epsilon_lower_confidence > self.epsilon_paper


def audit_scenario(
    scenario: Scenario, trials: int, cluster_size: int | None = None, data_dir: Path | None = None
) -> CuratorAudit:
    """Attacks a scenario's curator, as the first replicate deploys it.

    Args:
        scenario: has the mechanism (kind "cluster_rr", with the distributions released), the classes and the seed.
        trials: clusters in each of the two worlds.
        cluster_size: n of the attacked cluster, 2 to 200; None: the best one of a few sizes (`best_cluster_size`).
        data_dir: where data files are.

    Raises:
        InputError: the mechanism is no such curator or leaves nothing to attack; or an argument is out of range; or the
        cluster is too small for any event of the attack.
    """
    if cluster_size is not None and not 2 <= cluster_size <= LARGEST_CLUSTER:
        raise InputError(f"--cluster-size {cluster_size}: must lie in 2..{LARGEST_CLUSTER}")
    case = Replicate(scenario, 0, data_dir)
    response = claim_of(case, "an audit of a curator needs 'cluster_rr'", ClusterRRConfig).mechanism.response
    if response.bias_correction == 0.0:
        raise InputError(
            "mechanism.bias_correction = 0: the noisy distributions, which the audit attacks, are not released; give "
            "--set mechanism.bias_correction=0.5"
        )
    uniform = response.threshold >= 1.0 / response.num_classes
    if response.resampling_prob == 0.0 or math.isinf(response.noise_scale) or uniform:
        raise InputError(
            f"mechanism: nothing to attack at resampling_prob = {response.resampling_prob:g}, noise_scale = "
            f"{response.noise_scale:g}, threshold = {response.threshold:g}; the first must be above 0, the second "
            f"finite, the third below 1/K = {1.0 / response.num_classes:g}"
        )
    claimed = ClusterResampling(
        cluster_size or 2,
        response.num_classes,
        response.resampling_prob,
        response.noise_scale,
        response.threshold,
        released=True,
    )
    if cluster_size is None:
        claimed = replace(claimed, cluster_size=best_cluster_size(claimed, trials))
    with one_thread():
        return audit_curator(response.draw, claimed, trials, scenario.seed, scenario=scenario.name)


def audit_curator(
    draw: Draw, privacy: ClusterResampling, trials: int, seed: int, *, scenario: str = ""
) -> CuratorAudit:
    """Audits a sampler of the clustering paper's Algorithm 1. The result has the lower bound of ε that an attack on
    clusters of n users proves. It also has bounds of the pure ε from the claimed law, and the ε of the paper's Theorem
    1.

    The algorithm adds noise of scale σ/n to a cluster's shares of K labels, and lifts shares below τ to τ. With
    probability λ, it redraws each label from the resulting distribution q̃. The attack counts an event in two worlds.
    The target's label is class a = 0 in the first world, and class b = 1 in the second.

    Args:
        draw: the attacked sampler (`Draw`). privacy: the claimed law, with n, K, λ above 0, σ and τ. trials: clusters
        in each of the two worlds, at least 1. seed: root seed. scenario: a name for the result.

    Raises:
        InputError: the cluster is too small for any event of the attack.
    """
    # First the event is fixed. Then the event is counted in both worlds.
    event, expected = plan_event(privacy, trials)
    hits, misses = (count_event(draw, event, privacy.threshold, trials, seed=seed, world=world) for world in (0, 1))
    return CuratorAudit(
        scenario=scenario,
        cluster_size=privacy.cluster_size,
        num_classes=privacy.num_classes,
        resampling_prob=privacy.resampling_prob,
        noise_scale=privacy.noise_scale,
        threshold=privacy.threshold,
        epsilon_attained=privacy.epsilon(1e-12).epsilon_lower,
        epsilon_true=privacy.pure_epsilon,
        epsilon_paper=privacy.epsilon_paper,
        epsilon_lower_confidence=epsilon_lower(hits, misses, trials, 0.0, ERROR),
        expected=expected,
        hits=hits,
        misses=misses,
        trials=trials,
        error=ERROR,
    )


class PlannedEvent(NamedTuple):
    """An event, and `epsilon`, the lower bound of ε to expect from this event if the mechanism is exactly right."""

    event: CuratorEvent
    epsilon: float


def plan_event(privacy: ClusterResampling, trials: int) -> PlannedEvent:
    """The event with which the attack is expected to prove the largest lower bound of ε, and this bound. Each of the
    two worlds has `trials` clusters.

    The attack tries several events before any trial, on simulated draws of q̃ from the claimed law. Each event is
    e^(2/σ) times as likely if the target holds class 0 as if she holds class 1. In the first kind of event, all classes
    except 0 have the least share τ. In the second kind, for K of 3 or more, class 1 has the share τ and class 0 has
    little more.

    privacy: the claimed law, with n, K, σ, τ and the resampling probability λ.

    Raises:
        InputError: the cluster is too small for any of these events.
    """
    best: PlannedEvent | None = None
    lam, ratio = privacy.resampling_prob, math.exp(-2.0 / privacy.noise_scale)
    drawn = Streams(0, 0).generator("rehearsal").laplace(size=(REHEARSALS, privacy.num_classes))
    noise = privacy.noise_scale / privacy.cluster_size * drawn
    for events in _candidates(privacy):
        released = released_distribution(np.array(events[0].counts) / privacy.cluster_size, noise, privacy.threshold)
        for event in events:
            # In the first world, the target's noisy label is a with probability 1 - λ + λ q̃(a). In the second world
            # this probability is λ q̃(a), and such q̃ are rarer by the factor `ratio`.
            own = released[event.holds(released, privacy.threshold), 0]
            hits = float((1.0 - lam + lam * own).sum()) / REHEARSALS
            misses = ratio * lam * float(own.sum()) / REHEARSALS
            epsilon = epsilon_lower(round(hits * trials), round(misses * trials), trials, 0.0, ERROR)
            if best is None or epsilon > best.epsilon:
                best = PlannedEvent(event, epsilon)
    if best is None:
        raise InputError(
            f"--cluster-size {privacy.cluster_size}: too small for an attack at threshold = {privacy.threshold:g} and "
            f"{privacy.num_classes} classes"
        )
    return best


def _candidates(privacy: ClusterResampling) -> Iterator[list[CuratorEvent]]:
    """Yields lists of events, from which the attack chooses one. All events of a list have the same `counts` of users,
    so they can be tried on the same draws. The first list has a single event, in which all classes except 0 have the
    least share τ. The second list, only for K of 3 or more and τ above 0, has seven events. In these events class 1 has
    the share τ, and class 0 has little more. A list is left out if the cluster is too small for its events.

    privacy: the claimed law, with the number n of users of a cluster, K, τ and the noise.
    """
    n, k, tau = privacy.cluster_size, privacy.num_classes, privacy.threshold
    top, many, few = 1.0 - (k - 1) * tau, math.ceil(n * tau), math.floor(n * tau)
    if n - (k - 1) * many >= 1:
        counts = (n - (k - 1) * many, *[many] * (k - 1))
        yield [CuratorEvent(counts, True, 1.0)]
    if k > 2 and few >= 1 and few + many <= n:
        counts = (few, many, n - few - many, *[0] * (k - 3))
        yield [CuratorEvent(counts, False, tau + min(width * privacy.noise_scale / n, top - tau)) for width in WIDTHS]


def count_event(draw: Draw, event: CuratorEvent, threshold: float, trials: int, *, seed: int, world: int) -> int:
    """In how many of `trials` clusters the event occurs and the target's noisy label is also class 0.

    Args:
        draw: the attacked sampler (`Draw`). event: a condition on q̃, with the number of users of the cluster who hold
        each label. threshold: τ, the least share in q̃. trials: number of clusters. seed: root seed. world: the label,
        0 or 1, of the target, a cluster's first user. The two worlds have independent random numbers.
    """
    cluster = np.repeat(np.arange(len(event.counts), dtype=np.uint8), event.counts)
    cluster[0] = world
    together, hits = max(1, SHARDS * BLOCK // cluster.size), 0
    for batch, start in enumerate(range(0, trials, together)):
        clusters = min(together, trials - start)
        offsets = np.arange(clusters + 1, dtype=np.int64) * cluster.size
        streams = Streams(seed, 2 * batch + world)
        noisy, released = draw(
            np.tile(cluster, clusters), offsets, streams.generator("curator-noise"), streams.generator("curator-labels")
        )
        hits += int((event.holds(released, threshold) & (noisy[:: cluster.size] == 0)).sum())
    return hits


def best_cluster_size(privacy: ClusterResampling, trials: int) -> int:
    """The cluster size, of a few that are tried, in which the attack is expected to prove the largest ε. The sizes
    tried are K + 1 users and, if τ > 0, 1/τ, 2/τ, 4/τ, …, 32/τ users, rounded up, but at most 200.

    The attack needs shares that equal τ. In a cluster of n users this is likeliest if nτ is whole or little below. For
    K of 3 or more, a large n brings q̃(a) closer to τ. privacy: the claimed law, with K and τ; its size is ignored.
    trials: clusters in each of the attack's two worlds.
    """
    n, tau = privacy.num_classes + 1, privacy.threshold
    sizes = {n} | {min(math.ceil(users / tau), LARGEST_CLUSTER) for users in (1, 2, 4, 8, 16, 32) if tau > 0.0}
    epsilons = {}
    for size in sorted(sizes):
        try:
            epsilons[size] = plan_event(replace(privacy, cluster_size=size), trials).epsilon
        except InputError:
            continue
    return max(epsilons, key=epsilons.__getitem__, default=n)
