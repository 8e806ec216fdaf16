"""Accountant of private selection: several private runs are made, and only the best one is released.

**What is done.** One run draws a setting from a fixed law, by default uniformly, and yields y = (score, model,
setting). Draw K from a public law, and make K independent runs. Release the y with the best score, or a constant if
K = 0. A uniform random tag of each run settles ties and reveals nothing. In two neighbouring worlds, let p and p' be
the densities of y. Let u(y) and u'(y) be the probabilities that a run is better than y. If y is drawn from p, 1-u(y) is
uniform. Let φ(x) = E x^K, and let φ' be its derivative. Then the released y has the density p(y) φ'(1-u(y)) in one
world and p'(y) φ'(1-u'(y)) in the other. The factor φ'(1-u) is called the weight of y. The constant has the same
probability in both worlds.

**What follows for u and u' from the privacy of one run.** Let δ(ε) be the δ of one run over all neighbouring worlds in
both directions. A run is score and model together. "Better than y" is an event. So u' <= T(u), where T(u) is the least
value of e^ε u + δ(ε) and 1 - e^-ε (1-u-δ(ε)) over all ε >= 0. T is concave, and piecewise linear for the `LossLaw` of
one run. So

    ln φ'(1-u)/φ'(1-u') <= C(u) := ln φ'(1-u) - ln φ'(1-T(u)).

Between two corners of T, C is monotone for every law of `selection_run_laws`. The reason is that the weight, as a
function of u, is a power or the exponential of a linear function.

**Hockey-stick bounds.** The excess p φ'(1-u) - e^ε p' φ'(1-u') is at most φ'(1-u) (p - e^(ε-C(u)) p').

1. *One ratio.* Let c be the largest C(u), and m = max(0, p - e^(ε-c) p'). The function m is at most p, and its integral
is at most δ(ε-c). The integral of φ'(1-u) m is largest if m is p at the best y and 0 elsewhere. So it is at most
1 - φ(1-δ(ε-c)) <= E K δ(ε-c). For ε < c, use δ(-x) = 1 - e^-x (1 - δ(x)).
2. *Bands.* Cut [0, 1] into bands of u, at all corners of T and at further points. In band j let w_j be the largest
weight and C_j the largest C(u). Let m_j be the integral over the band of max(0, p - e^(ε-C_j) p'). Then m_j is at most
the width of the band. For every C, the sum of the m_j over all bands with C_j <= C is at most δ(ε-C). The largest Σ w_j
m_j under these constraints is a bound. The constraints are nested. So the largest sum is found by filling the bands in
the order of their weights.

**Rényi bound.** Let D be the divergence of order λ of what is released. e^((λ-1)D) is φ(0), for the constant, plus the
integral of p^λ p'^(1-λ) φ'(1-u)^λ φ'(1-u')^(1-λ). Let ε_λ be the Rényi ε of one run. Then the Rényi ε of the selection
is

    ε'_λ <= ln(φ(0) + e^((λ-1) ε_λ + B))/(λ-1),    B = max over u of ln φ'(1-u) + (λ-1) C(u).

B is at most ln E K + (λ-1) c. Consider the event "better than y, or a coin of probability γ comes up". The event's
probabilities in two worlds obey the run's Rényi ε_ν of every order ν. So for the truncated negative binomial law
(parameters η and γ), c is at most (1+η)((1-1/ν) ε_ν + ln(1/γ)/ν): Theorem 2 of Papernot and Steinke (2022). For the
Poisson law of mean μ, take an a with e^a <= λ/(λ-1). Then u' <= e^a u + δ(a) makes B at most ln μ + (λ-1) μ δ(a), as in
their Theorem 6, which has no φ(0).

**Pure ε.** If one run is ε-private with δ = 0, the selection is (ε + c)-private. With
T(u) = min(e^ε u, 1 - e^-ε (1-u)), C is largest at u = 1/(1+e^ε). For the truncated negative binomial law this gives
ε + (1+η) ln((γ+e^ε)/(1+γe^ε)). This is less than (2+η) ε, the value in Papernot and Steinke's Corollary 3.

Each stated bound is the least of these. Koskela, Redberg and Wang (2024) also bound privacy profiles of selections.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.binomial_windows import UNIT, Floats
from p2p_sim.privacy.bound import LARGEST_EPSILON, Bracket, PrivacyBound, check_delta, check_epsilon
from p2p_sim.privacy.conditions import Condition
from p2p_sim.privacy.conversions import loss_law, renyi
from p2p_sim.privacy.dominating_law import LossLaw
from p2p_sim.privacy.randomized_response import bisect
from p2p_sim.privacy.rivals.selection_run_laws import RunLaw
from p2p_sim.privacy.where_bounds_hold import ANYWHERE

SELECTION_CONDITIONS = (
    Condition(
        "whole-run",
        "the bound of one run covers its score, model and setting together, and the other conditions hold for each run",
    ),
    Condition(
        "independent-runs",
        "every run draws its setting from one fixed law that depends on no label or other run, with fresh noise",
    ),
    Condition("public-run-law", "the number of runs has its public law, which depends on no label"),
    Condition(
        "winner-alone",
        "only the best run is released; nobody observes how many runs there are, other scores or settings, or the time",
    ),
)
PAID_CHOICE = Condition(
    "label-free-choices", "features are public, and only this selection chose hyperparameters by looking at labels"
)
BASIS = "private selection: the least of hockey-stick and Rényi bounds"
ORDERS = (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0)
"""Orders of the Rényi bound."""
_PRECISION = 1e-6
"""Relative precision of the bisection of ε."""
_MARGIN = 1e-9
"""Relative margin for rounding."""
_ROUNDING = 1e-13
"""Bound of the rounding error of sums of a loss law's masses."""
_STEP = 1.03
"""Ratio of the ends of neighbouring bands."""


@dataclass(frozen=True)
class Selection(Accountant):
    """Privacy of one user's label against an observer of the best of K private runs, who sees no other run.

    The lower bounds are 0. A higher lower bound would depend on how scores are made.

    Args:
        base: accountant of one run, score and model together. If different users' labels make the score and the model,
        use the `WorstOf` the two accountants. If the same users' labels make both, use the `Composition` of the two.
        law: the law of the number of runs, such as `TruncatedNegativeBinomial`.

    >>> from p2p_sim.privacy import NoisyScore, TruncatedNegativeBinomial
    >>> one = NoisyScore(noise_scale=10.0)
    >>> chosen = Selection(one, TruncatedNegativeBinomial(eta=1.0, gamma=0.1))
    >>> round(one.pure_epsilon, 3), round(chosen.pure_epsilon, 3)
    (0.1, 0.264)
    """

    requires = ANYWHERE

    base: Accountant
    law: RunLaw

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the bounds, in words: the conditions of one run and the conditions of the selection.

        One run may require that no hyperparameter was chosen by looking at labels. The selection replaces this
        condition: only this selection chose hyperparameters by looking at labels.
        """
        run = (
            PAID_CHOICE if getattr(c, "identifier", "") == PAID_CHOICE.identifier else c for c in self.base.conditions
        )
        return (*dict.fromkeys(run), *SELECTION_CONDITIONS)

    @property
    def pure_epsilon(self) -> float:
        """The pure ε of one run plus c. e^c is the largest ratio of an outcome's weights in two neighbouring worlds.
        The weight of an outcome is the factor by which the selection changes its probability density.
        """
        return _rounded_up(self.base.pure_epsilon + self._bands.most)

    @property
    def least_delta(self) -> float:
        """The smallest δ at which ε is computed, at most 0.5. This δ follows from the smallest δ at which the
        accountant of one run works.
        """
        return min(0.5, self.law.best_share(self.base.least_delta) * (1.0 + _MARGIN))

    def delta(self, epsilon: float) -> Bracket:
        """Bounds of δ(ε), ε at least 0. The upper bound is the least of three bounds; the lower bound is 0.

        The weight of an outcome of a run is the factor by which the selection changes its probability density. The
        first bound uses the largest ratio of an outcome's weights in two neighbouring worlds. The second bound uses the
        largest ratio in each band, an interval of the probability that another run is better. The third bound follows
        from the Rényi ε of several orders.
        """
        check_epsilon(epsilon)
        if epsilon >= self.pure_epsilon:
            return Bracket(0.0, 0.0)
        return Bracket(0.0, min(1.0, self._by_ratio(epsilon), self._in_bands(epsilon), self._by_renyi(epsilon)))

    def epsilon(self, delta: float) -> PrivacyBound:
        """Bounds of ε at δ. The upper bound is infinite if no ε is certified; the lower bound is 0.

        Raises:
            ValueError: δ is outside (0, 1), or below `least_delta`. Or the observer of one run (`base`) is not the
            learner: such an observer would see every run.
        """
        check_delta(delta)
        if delta < self.least_delta:
            raise ValueError(f"delta = {delta}: must be at least {self.least_delta:.3g} for this selection")
        # one ratio: c plus the ε of one run at δ'. Let the best outcomes have probability δ' in one run; then the
        # selection releases such an outcome with probability δ
        run_delta, least = self.law.delta_of(delta), self.base.least_delta
        stated = self.base.epsilon(max(run_delta, least))
        if stated.observer != "learner":
            raise ValueError(
                f"observer = {stated.observer}: sees every run; a selection hides all but one from a learner"
            )
        by_ratio = _rounded_up(stated.epsilon_upper + self._bands.most) if run_delta >= least else math.inf
        # Rényi: the least over orders λ of r + ln(1-1/λ) - ln(λδ)/(λ-1)
        curve = (r + math.log1p(-1.0 / a) - math.log(delta * a) / (a - 1.0) for a, r in self._renyi_curve.items())
        by_renyi = max(0.0, _rounded_up(min(curve, default=math.inf)))
        # bands: bisection below the least of the other bounds
        top = min(by_ratio, self.pure_epsilon, by_renyi)
        high = min(top, LARGEST_EPSILON)

        if self._in_bands(0.0) <= delta:
            upper = 0.0
        elif self._in_bands(high) > delta:
            upper = top
        else:
            upper = min(top, bisect(lambda epsilon: self._in_bands(epsilon) > delta, 0.0, high, _PRECISION).below)
        return replace(
            stated, epsilon_lower=0.0, epsilon_upper=upper, delta=delta, basis=BASIS, conditions=self.conditions
        )

    def renyi(self, order: float) -> float:
        """Upper bound of the Rényi ε of a finite order above 1."""
        if not 1.0 < order < math.inf:
            raise ValueError(f"order = {order}: must be above 1 and finite")
        # ln(φ(0) + e^((λ-1) ε_λ + B))/(λ-1)
        more = (order - 1.0) * renyi(self.base, order) + self._bands.renyi(order)
        log = float(np.logaddexp(more, math.log(self.law.none))) if self.law.none > 0.0 else more
        return min(_rounded_up(max(0.0, log / (order - 1.0))), self.pure_epsilon)

    def _by_ratio(self, epsilon: float) -> float:
        """Upper bound of δ(ε) from one ratio c for all outcomes: 1 - E (1-δ₁(ε-c))^K.

        K is the number of runs, and δ₁ is the δ of one run, with δ₁(-x) = 1 - e^-x (1 - δ₁(x)). See `pure_epsilon` for
        c.
        """
        less = epsilon - self._bands.most * (1.0 + _MARGIN)
        run = self.base.delta(min(abs(less), LARGEST_EPSILON)).upper
        if less < 0.0:
            run = -math.expm1(less) + math.exp(less) * run
        return self.law.best_share(min(1.0, run)) * (1.0 + _MARGIN)

    def _in_bands(self, epsilon: float) -> float:
        """Upper bound of δ(ε) from the largest ratio of weights in each band (see `delta`)."""
        return self._bands.delta(epsilon) * (1.0 + _MARGIN)

    def _by_renyi(self, epsilon: float) -> float:
        """Upper bound of δ(ε) from the Rényi ε of the selection: the least bound over 19 orders from 1.25 to 256. The
        bound is 1 if the Rényi ε is infinite at all orders.

        See Canonne, Kamath and Steinke 2020, Proposition 12.
        """
        logs = ((a - 1.0) * (r - epsilon + math.log1p(-1.0 / a)) - math.log(a) for a, r in self._renyi_curve.items())
        return min((math.exp(min(0.0, log)) * (1.0 + _MARGIN) for log in logs), default=1.0)

    @cached_property
    def _renyi_curve(self) -> dict[float, float]:
        """The Rényi ε of the selection for each of `ORDERS` at which it is finite."""
        if math.isinf(renyi(self.base, ORDERS[0])):
            return {}
        return {order: epsilon for order in ORDERS if math.isfinite(epsilon := self.renyi(order))}

    @cached_property
    def _bands(self) -> "RunLawBands":
        """The bands of u, the probability that another run is better than an outcome, with bounds of the weights."""
        return RunLawBands.of(loss_law(self.base), self.law)


def _rounded_up(epsilon: float) -> float:
    """ε raised by 1e-9 of its size, to allow for rounding errors; infinity stays infinity."""
    return epsilon + _MARGIN * abs(epsilon) if math.isfinite(epsilon) else epsilon


@dataclass(frozen=True, eq=False)
class RunLawBands:
    """Bands: intervals of u, the probability that another run is better, with bounds of the outcomes' weights.

    An outcome's weight is the factor by which the selection changes its probability density.

    law: the law of one run's privacy loss. widths, ends: (b,) width and upper end of each band, in ascending order of
    u. log_weights: (b,) the largest logarithm of a weight in each band. log_ratios: (b,) the largest logarithm, in each
    band, of the ratio of an outcome's weights in two neighbouring worlds. silent: explained in `RunLaw`.
    """

    law: LossLaw
    widths: Floats
    ends: Floats
    log_weights: Floats
    log_ratios: Floats
    silent: float | None

    @staticmethod
    def of(loss: LossLaw, runs: RunLaw) -> "RunLawBands":
        """The bands for the law of one run's privacy loss and the law of the number of runs.

        The bands cover u from 0 to 1, in ascending order. Each band gets the largest weight, and the largest ratio of
        an outcome's weights in two neighbouring worlds.
        """
        # T(u) is the largest probability in one world of an event that has probability u in the other. The corners of T
        # are sums of masses in both worlds, in the order of the likelihood ratio
        negative, small = loss.losses > 0.0, loss.masses * np.exp(-loss.losses)
        u = np.cumsum(np.concatenate([[0.0], small[::-1], loss.masses[negative], [loss.infinite]]))
        largest = np.cumsum(np.concatenate([[loss.infinite], loss.masses[::-1], small[negative], [0.0]]))
        u[-1], largest[-1] = 1.0, 1.0
        u, largest = np.minimum(u, 1.0), np.minimum(largest, 1.0)
        # edges of the bands: all corners of T, and points in equal ratios from a u at which the weight is nearly E K
        start = runs.scale / 200.0
        steps = max(1, math.ceil(math.log(1.0 / start) / math.log(_STEP))) if start < 1.0 else 1
        edges = np.unique(np.concatenate([[0.0, 1.0], np.geomspace(min(start, 1.0), 1.0, steps + 1), u]))
        # C(u) = ln φ'(1-u) - ln φ'(1-T(u)) at the edges; between them C is monotone, and the weight falls
        top = np.minimum(np.interp(edges, u, largest) * (1.0 + _MARGIN) + _ROUNDING, 1.0)
        ratios = runs.log_weight(edges) - runs.log_weight(np.maximum(top, edges))
        ratios += _ROUNDING * (1.0 + np.abs(ratios))
        return RunLawBands(
            loss,
            np.diff(edges) + 2.0 * UNIT * edges[1:],
            edges[1:],
            log_weights=runs.log_weight(edges[:-1]) + _ROUNDING,
            log_ratios=np.maximum(ratios[:-1], ratios[1:]),
            silent=runs.silent,
        )

    @property
    def most(self) -> float:
        """c, the largest logarithm of the ratio of an outcome's weights in two neighbouring worlds.

        c bounds how much the selection adds to the pure ε of one run.
        """
        return float(self.log_ratios.max())

    def renyi(self, order: float) -> float:
        """The largest value, over all bands, of ln(weight) + (λ-1) ln(ratio).

        The Rényi bound of order λ = `order` adds this value to (λ-1) times the Rényi ε of one run. The ratio compares
        an outcome's weights in two neighbouring worlds.
        """
        return float((self.log_weights + (order - 1.0) * self.log_ratios).max())

    def delta(self, epsilon: float) -> float:
        """Upper bound of δ(ε), from the largest weight and the largest ratio of weights in each band.

        If `silent` is not None, the selection releases the first run whose score reaches a public threshold, or
        nothing. Then all runs that reach the threshold have the same weight. This weight depends on the probability
        that a run reaches the threshold. `silent` is the weight of releasing nothing divided by this weight. The result
        is then the largest bound over all probabilities of reaching the threshold.
        """
        capacity, weights = deltas(self.law, epsilon - self.log_ratios), np.exp(self.log_weights)
        if self.silent is not None:  # at most u of the excess belongs to outputs that reach the threshold
            reaching = np.minimum(capacity, self.ends)
            return min(1.0, float((weights * (reaching + self.silent * (capacity - reaching))).max()))
        order = np.argsort(self.log_ratios, kind="stable")
        rank = np.argsort(order)  # of each band in this order
        # fill the bands from the largest weight down; each band uses up capacity of all bands with no smaller ratio
        room, total = capacity[order], 0.0
        for band in range(len(order)):
            first = rank[band]
            mass = min(self.widths[band], room[first:].min())
            if mass > 0.0:
                room[first:] -= mass
                total += float(weights[band] * mass)
        return min(1.0, total)


def deltas(law: LossLaw, epsilons: Floats) -> Floats:
    """δ(ε) of a dominating pair with this loss law, at each ε of an array; an ε may be negative."""
    far = np.abs(epsilons)
    positive = law.infinite + -np.expm1(np.minimum(far[:, None] - law.losses, 0.0)) @ law.masses
    return np.asarray(np.where(epsilons >= 0.0, positive, -np.expm1(-far) + np.exp(-far) * positive))
