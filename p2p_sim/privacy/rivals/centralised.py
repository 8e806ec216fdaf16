"""Accountant of a curator who resamples labels within a cluster, Algorithm 1 of the clustering paper.

Each of n labels is replaced, with probability λ, by a draw from q̃, a noisy distribution of the cluster's K classes.
q̃ is at least τ for each class.

**Pure ε.** One changed label moves the shares of two classes by 1/n each. With Laplace noise of scale σ/n on every
share, q̃ costs 2/σ. Given q̃, the target's noisy label is a with probability λ q̃(a) + (1-λ) 1{her label is a}, and
q̃(a) >= τ. Together ε <= 2/σ + ln(1 + (1-λ)/(λτ)). This is Theorem 1 with its first term doubled. If τ = 1/K, q̃ is
uniform whatever the noise, and the first term is 0.

**Events that attain the pure ε where q̃ is released.** Let the target hold label a in one world and b in the other. The
ratio of an event is that of its probabilities in the two worlds. In both of the following events the noise on the
shares of a and b lies in its exponential tail, on the side where the change costs 1/σ for each of the two shares:

- corner: q̃ is τ everywhere except at a, because the noisy share of a is at least 1-(K-1)τ, and every other at most τ.
  This event has ratio e^(2/σ) if the true share of a is at most 1-(K-1)τ and every other at least τ;
- edge (K >= 3): q̃(b) = τ and τ < q̃(a) <= τ + x. This implies that b was clipped to τ and that the noisy share of a is
  above τ. The event has ratio e^(2/σ) if the true share of a is at most τ and that of b at least τ. It happens, for
  example, if the noisy share of b is at most τ, that of a is in (τ, τ + x], and that of a third class is at least
  1-(K-1)τ.

Together with "her noisy label is a", either event has the log-ratio 2/σ + ln(1 + (1-λ)/(λ q̃(a))).

Where q̃ is not released (bias correction β = 0), the learner sees the noisy labels alone. Then the randomness of these
labels hides more: for two classes `resampled_counts` brackets δ(ε); for any number of classes `resampled_classes`
bounds it from above.

**One resampled label together with the noisy shares** (`resampled_delta`). A changed label moves two shares by 1/n
each, that is, by 1/σ scales of their Laplace noise. The δ(t) of the noisy shares, called Δ(t), is known exactly
(`histograms.laplace_delta`). Clipping and renormalising are a post-processing.

Given q̃, the target's noisy label is y with probability λ q̃(y), plus 1-λ if y is her own label. Because q̃ >= τ, the
δ(t) of this label for t >= 0 is at most (1-λ) - (e^t - 1) λτ, or 0 if this is negative. This is the divergence of two
laws on three outcomes: their probabilities are p = 1-λ+λτ, λτ and w = λ-2λτ in one world, and λτ, p and w in the other.
This pair of laws is its own mirror image.

Given q̃, the others' noisy labels do not depend on the target's. So the product of the two pairs, one for the shares
and one for the target's noisy label, dominates both together (adaptive composition; Zhu, Dong and Wang 2022, Theorem
10). With l = ln(p/(λτ)),

    δ(ε) <= p Δ(ε-l) + λτ Δ(ε+l) + w Δ(ε),   where Δ(-t) = 1 - e^-t + e^-t Δ(t).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import LARGEST_CLUSTER as LARGEST_SIZE
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, check_delta, check_epsilon, check_range
from p2p_sim.privacy.conditions import LABEL_FREE_CLUSTERS, Condition
from p2p_sim.privacy.disk_cache import disk_cached
from p2p_sim.privacy.randomized_response import bisect, crossing
from p2p_sim.privacy.rivals.histograms import laplace_delta
from p2p_sim.privacy.rivals.noisy_share import released_delta
from p2p_sim.privacy.rivals.resampled_classes import LARGEST_CLUSTER, LEAST_THRESHOLD, classes_delta
from p2p_sim.privacy.rivals.resampled_counts import affordable, counts_delta
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

CURATOR_CONDITIONS = (
    Condition("trusted-curator", "a trusted curator holds all labels"),
    LABEL_FREE_CLUSTERS,
    Condition("exact-laplace", "the noise is exact: floating-point Laplace noise is not"),
)
PURE = "pure: Theorem 1 with the sensitivity of two shares"
COUNTED = "noisy labels alone: certified over all data sets"
_PRECISION = 1e-4
"""Relative precision of the bisection of ε."""
_WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Widths x of the edge events that are tried, in scales σ/n of the noise."""


class ShareEvent(NamedTuple):
    """An event of the noisy distribution q̃ whose probability changes by the factor e^(2/σ) between the target's labels
    a and b; σ/n is the scale of the noise on each share of n users.

    probability: its probability if the target holds a. least, most: bounds of q̃(a) in the event.
    """

    probability: float
    least: float
    most: float


@dataclass(frozen=True)
class ClusterResampling(Accountant):
    """Privacy of one user's label against the learner, in one cluster whose labels a curator resamples.

    Args:
        cluster_size: n, at least 1.
        num_classes: K, at least 2.
        resampling_prob: λ in [0, 1], the probability that a label is replaced by a draw from the noisy distribution.
        noise_scale: σ in [0, ∞]; the Laplace noise on each share has scale σ/n.
        threshold: τ in [0, 1/K], the least noisy share.
        released: whether the learner gets the noisy distribution of the cluster (true if the bias correction β > 0).
        counted: whether bounds for noisy labels alone take into account what the labels' own randomness hides; if not,
            `epsilon` states the pure ε. It has no effect if `released` is True.
    """

    requires = ANYWHERE
    conditions = CURATOR_CONDITIONS

    cluster_size: int
    num_classes: int
    resampling_prob: float
    noise_scale: float
    threshold: float
    released: bool
    counted: bool = True

    def __post_init__(self) -> None:
        check_range("cluster_size", self.cluster_size, 1, LARGEST_SIZE, whole=True)
        if not isinstance(self.num_classes, int) or self.num_classes < 2:
            raise ValueError(f"num_classes = {self.num_classes}: must be a whole number, at least 2")
        check_range("resampling_prob", self.resampling_prob, 0.0, 1.0)
        if not self.noise_scale >= 0.0:
            raise ValueError(f"noise_scale = {self.noise_scale}: must be at least 0")
        check_range("threshold", self.threshold, 0.0, 1.0 / self.num_classes)

    @property
    def pure_epsilon(self) -> float:
        """The pure ε, rounded up: 2/σ + ln(1 + (1-λ)/(λτ)), without the term 2/σ if τ = 1/K.

        λ is the probability that a label is replaced, σ/n the scale of the noise on each share of n users, τ the least
        noisy share, K the number of classes. The example has n, K, λ, σ, τ in this order.

        >>> round(ClusterResampling(100, 3, 0.9, 1.0, 0.1, True).pure_epsilon, 4)
        2.7472
        """
        return (self._noise_epsilon + self._label_epsilon) * (1.0 + 2.0**-50)

    @property
    def epsilon_paper(self) -> float:
        """The ε that Theorem 1 of the clustering paper prints: 1/σ + ln(1 + (1-λ)/(λτ)). It is too small by 1/σ
        unless τ = 1/K, where K is the number of classes.

        λ is the probability that a label is replaced, σ/n the scale of the noise on each share of n users, τ the least
        noisy share.
        """
        return (1.0 / self.noise_scale if self.noise_scale > 0.0 else math.inf) + self._label_epsilon

    @property
    def _uniform(self) -> bool:
        """Whether the noisy distribution of the cluster, from which labels are redrawn, is uniform whatever the noise:
        its least share τ is 1/K for K classes.
        """
        return self.threshold >= 1.0 / self.num_classes

    @property
    def _noise_epsilon(self) -> float:
        """The pure ε of the cluster's noisy distribution of labels alone: 2/σ, or 0 if it is uniform whatever the
        noise.

        σ/n is the scale of the Laplace noise on each share of n users; a changed label moves two shares by 1/n. With
        σ = 0 the result is infinite, unless the distribution is uniform.
        """
        if self._uniform:
            return 0.0
        return 2.0 / self.noise_scale if self.noise_scale > 0.0 else math.inf

    @property
    def _laid_open(self) -> bool:
        """Whether a label can be learned with certainty: labels are never replaced, or shares get no noise and are
        released, and are not uniform whatever the noise.
        """
        return self.resampling_prob == 0.0 or (self.released and self.noise_scale == 0.0 and not self._uniform)

    @property
    def _label_epsilon(self) -> float:
        """The pure ε of the noisy labels, given the noisy distribution from which they are redrawn:
        ln(1 + (1-λ)/(λτ)).

        λ is the probability that a label is redrawn, τ the least share of the noisy distribution.
        """
        if self.resampling_prob == 1.0:
            return 0.0
        least = self.resampling_prob * self.threshold
        return math.log1p((1.0 - self.resampling_prob) / least) if least > 0.0 else math.inf

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), ε at least 0: the largest hockey-stick divergence over neighbouring data sets."""
        check_epsilon(epsilon)
        pure = self.pure_epsilon
        if epsilon >= pure:
            return Bracket(0.0, 0.0)
        if self._laid_open:
            return Bracket(1.0, 1.0)
        if epsilon > LARGEST_EPSILON:  # e^ε is not formed: δ is no larger than at 700
            return Bracket(0.0, self.delta(LARGEST_EPSILON).upper)
        # two bounds that hold whatever is released: of any mechanism with this pure ε, and of shares and labels
        # together
        noise = math.inf if self._uniform else self.noise_scale
        upper = min(
            -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure)) * (1.0 + 1e-12),
            resampled_delta(self.resampling_prob, noise, self.threshold, epsilon),
        )
        # bounds by the randomness of the noisy labels alone
        shape = (self.cluster_size, self.resampling_prob, self.noise_scale, self.threshold)
        if self._countable:
            counted = counts_delta(*shape, epsilon)
            return Bracket(counted.lower, max(counted.lower, min(upper, counted.upper)))
        if self._bounded:
            upper = min(upper, classes_delta(*shape, epsilon=epsilon, classes=self.num_classes))
        return Bracket(self._attained_delta(epsilon), min(1.0, upper))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ in (0, 1). The upper bound is the pure ε, or a smaller ε if the learner sees noisy labels
        alone.
        """
        check_delta(delta)
        pure, basis = self.pure_epsilon, PURE
        if self._laid_open:
            bracket = Bracket(pure, pure)
        elif self._countable:
            bracket, basis = _bisected(self, delta), COUNTED
        elif self._bounded and (least := _bisected(self, delta).upper) < pure:
            bracket, basis = Bracket(min(self._attained_epsilon(delta), least), least), COUNTED
        else:  # the pure ε; for noisy labels alone a smaller ε would be computed in a smaller cluster
            bracket = Bracket(min(self._attained_epsilon(delta), pure), pure)
            if self._labels_alone and not self._bounded:
                basis = f"{PURE}; what the noise of the labels adds is not computed at this size"
        return PrivacyBound(
            bracket.lower,
            bracket.upper,
            delta,
            observer="learner",
            adjacency="label",
            basis=basis,
            conditions=self.conditions,
        )

    @property
    def _labels_alone(self) -> bool:
        """Whether the learner sees the noisy labels without the noisy distribution from which they are redrawn, and the
        bounds use that the redrawn labels are random too. False if a label can be learned with certainty, or if the
        noisy distribution is uniform whatever the noise.
        """
        return self.counted and not (self.released or self._laid_open or self._uniform)

    @property
    def _bounded(self) -> bool:
        """Whether an upper bound of δ(ε) better than that of the pure ε is computed for the noisy labels alone, for any
        number of classes. This bound takes into account that the other users' noisy labels are random too.

        It is used if the noisy distribution of the cluster is not released, the bounds for two classes (`_countable`)
        do not apply, the least share τ is at least 1e-9, and there are at most 131,072 users.
        """
        alone = self._labels_alone and not self._countable
        return alone and self.threshold >= LEAST_THRESHOLD and self.cluster_size <= LARGEST_CLUSTER

    @property
    def _countable(self) -> bool:
        """Whether both a lower and an upper bound of δ(ε) are computed for the noisy labels alone, from the law of how
        many of them are 1.

        They are computed for two classes if the noisy distribution of the cluster is not released and the computation
        takes a few seconds at most.
        """
        return (
            self._labels_alone
            and self.num_classes == 2
            and affordable(self.cluster_size, self.noise_scale, self.threshold)
        )

    def _attained_delta(self, epsilon: float) -> float:
        """A lower bound of δ(ε); 0 if q̃ is neither released nor uniform.

        q̃ is the noisy distribution of the cluster's labels, from which labels are redrawn. Some events combine q̃ with
        the target's noisy label; let P and P' be the probabilities of such an event for two of her labels. The bound is
        the largest excess P - e^ε P' of these events. For two classes it is at least the bound that follows from bins
        of the released share of label 1.
        """
        lam, excess = self.resampling_prob, math.expm1(epsilon - self._noise_epsilon)
        # for an event together with the noisy label a: p (1-λ - (e^(ε-2/σ) - 1) λ q̃(a)), at the worse end of q̃(a)
        values = (
            event.probability * (1.0 - lam - excess * lam * (event.most if excess > 0.0 else event.least))
            for event in self._events()
        )
        best = max(0.0, max(values, default=0.0) * (1.0 - 1e-12))
        if self._binned:
            best = max(best, released_delta(self.cluster_size, lam, self.noise_scale, self.threshold, epsilon))
        return best

    @property
    def _binned(self) -> bool:
        """Whether a lower bound of δ(ε) is also computed from intervals (bins) of the released noisy share of label 1.

        It is computed for two classes and at least two users, if the noisy distribution is released and depends on the
        labels, and the scale of the noise is positive and finite.
        """
        two_of_many = self.num_classes == 2 and self.cluster_size > 1
        return two_of_many and self.released and not self._uniform and 0.0 < self.noise_scale < math.inf

    def _attained_epsilon(self, delta: float) -> float:
        """A lower bound of ε at δ; 0 if q̃, the noisy distribution from which labels are redrawn, is neither released
        nor uniform.

        It is the larger of two: that of the best of some events of q̃ and the target's noisy label, and that of
        intervals (bins) of the released share of label 1.
        """
        explicit = self._explicit_epsilon(delta)
        if not self._binned or explicit >= LARGEST_EPSILON or self._attained_delta(explicit) <= delta:
            return explicit
        top = min(self.pure_epsilon, LARGEST_EPSILON)
        return bisect(lambda epsilon: self._attained_delta(epsilon) > delta, explicit, top, _PRECISION).above

    def _explicit_epsilon(self, delta: float) -> float:
        """A lower bound of ε at δ by a formula, the largest of those for some events of q̃ together with the target's
        noisy label; 0 if there are no such events.

        q̃ is the noisy distribution of the cluster's labels, from which labels are redrawn. The formula gives the ε at
        which P - e^ε P' falls to δ, where P and P' are the event's probabilities for two labels of the target.
        """
        lam, best = self.resampling_prob, 0.0
        for event in self._events():
            # the ε at which p (1-λ - (e^(ε-2/σ) - 1) λ q̃(a)) falls to δ
            gap = 1.0 - lam - delta / event.probability if delta < event.probability else -1.0
            slope = lam * (event.most if gap > 0.0 else event.least)
            excess = gap / slope if lam * event.most > 0.0 else math.copysign(math.inf, gap)
            if excess > -1.0:
                best = max(best, self._noise_epsilon + math.log1p(excess))
        return best * (1.0 - 1e-12)

    def _events(self) -> Iterator[ShareEvent]:
        """Yield events of q̃ that are e^(2/σ) times as likely under one of the target's labels as under another.

        q̃ is the noisy distribution from which a curator redraws labels, at least τ for each class; σ/n is the scale of
        the noise on each share of n users. If q̃ is released, the events are the corner and, for three or more classes,
        the edges, as far as there are enough users for them. In the corner, q̃ is τ at all classes but one. At an edge,
        q̃ is τ at one class and little above τ at another. If q̃ is uniform whatever the noise, the only event is the
        one that always happens, with factor 1 in place of e^(2/σ). Otherwise there is none.
        """
        n, k, tau, sigma = self.cluster_size, self.num_classes, self.threshold, self.noise_scale
        if self._uniform:  # q̃ is known, released or not
            yield ShareEvent(1.0, tau, tau)
            return
        if not self.released:
            return
        # the corner: `many` users hold each class but a, all others hold a
        top, many = 1.0 - (k - 1) * tau, math.ceil(n * tau)
        if n - (k - 1) * many >= 1:
            yield ShareEvent(0.5**k * math.exp(-2.0 * (k - 1) * (many - n * tau) / sigma), top, top)
        # edges: `few` users hold a, `many` hold b, and all others a third class
        few = math.floor(n * tau)
        if k == 2 or few < 1 or few + many > n:
            return
        third = n - few - many
        for width in _WIDTHS:
            x = min(width * sigma / n, top - tau)
            between = -0.5 * math.exp(-(n * tau - few) / sigma) * math.expm1(-n * x / sigma)
            probability = 0.5 * math.exp(-(many - n * tau) / sigma) * between * laplace_tail(n * top - third, sigma)
            if probability > 0.0:
                yield ShareEvent(probability, tau, tau + x)


@disk_cached
def _bisected(resampling: ClusterResampling, delta: float) -> Bracket:
    """Bounds of ε at δ by bisection of δ(ε), at most the pure ε, stored on disk.

    The upper bound of ε follows from the upper bound of δ(ε). The lower bound of ε follows from the lower bound of δ(ε)
    if there are two classes, noisy labels alone are seen, and the cluster is not too large; otherwise it is 0.

    Args:
        resampling: the accountant. delta: δ in (0, 1).
    """
    pure, lower = resampling.pure_epsilon if resampling.pure_epsilon <= LARGEST_EPSILON else math.inf, 0.0
    if resampling._countable:
        lower, _ = crossing(lambda epsilon: resampling.delta(epsilon).lower > delta, pure, _PRECISION)
    _, upper = crossing(lambda epsilon: resampling.delta(epsilon).upper > delta, pure, _PRECISION)
    return Bracket(lower, min(upper, resampling.pure_epsilon))


def laplace_tail(distance: float, scale: float) -> float:
    """Pr[z >= distance], where z is Laplace noise of the given scale."""
    half = 0.5 * math.exp(-abs(distance) / scale)
    return half if distance >= 0.0 else 1.0 - half


def resampled_delta(resampling_prob: float, noise_scale: float, threshold: float, epsilon: float) -> float:
    """Upper bound of δ(ε) of noisy shares and noisy labels together.

    Args:
        resampling_prob: λ in [0, 1]. noise_scale: σ in [0, ∞]; ∞: the shares reveal nothing. threshold: τ in [0, 1/2].
        epsilon: ε, at least 0.
    """
    # p, λτ and w of the target's noisy label, and its loss l = ln(p/(λτ))
    least = resampling_prob * threshold
    own, rest = 1.0 - resampling_prob + least, resampling_prob - 2.0 * least
    loss = math.log(own / least) if least > 0.0 else math.inf
    # p Δ(ε-l) + λτ Δ(ε+l) + w Δ(ε), raised for rounding
    moved = 2.0 / noise_scale if noise_scale > 0.0 else math.inf
    parts = (
        own * _shares_delta(moved, epsilon - loss),
        least * _shares_delta(moved, epsilon + loss),
        rest * _shares_delta(moved, epsilon),
    )
    return min(1.0, math.fsum(parts) * (1.0 + 1e-12))


def _shares_delta(moved: float, epsilon: float) -> float:
    """δ(ε) of two shares with Laplace noise, each of which a changed label moves by half of `moved`.

    Args:
        moved: by how much both shares together move, in scales of the noise, at least 0; if infinite, δ is 1 for every
        ε of at least 0. epsilon: ε, which may be infinite. It may be negative, since another privacy loss is subtracted
        from the ε that is asked for; then δ(ε) = 1 - e^ε + e^ε δ(-ε).
    """
    if epsilon < 0.0:
        return -math.expm1(epsilon) + math.exp(epsilon) * _shares_delta(moved, -epsilon)
    if moved == math.inf:
        return 1.0
    return laplace_delta(moved, epsilon, cells=2) if moved > 0.0 else 0.0
