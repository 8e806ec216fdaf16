"""An audit of the label exchange in one run: a fair coin for a label in every cluster, guessed by all that the learner
sees, at the scenario's own size, on either engine, over networks with faults too.

Held-out runs teach a classifier, a pilot run fixes what is guessed, and the run that counts follows; each has a seed of
its own. The statistics are those of `analysis/privacy/attack/one_run`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from p2p_sim.analysis.privacy.attack.one_run import Guesses, smallest_refused
from p2p_sim.analysis.privacy.attack.one_run_plan import Drawn, OneRunPlan, Seen, drawn_tradeoff, plan_one_run
from p2p_sim.analysis.privacy.attack.power import ERROR
from p2p_sim.analysis.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.analysis.privacy.exchange.paper import Lemma9
from p2p_sim.analysis.privacy.statement.domain import Stated
from p2p_sim.attacks.faulty_network import PILOT_SEED
from p2p_sim.attacks.scores import LARGEST_TABLE, MOST_TABLES, Learned, LikelihoodRatio, scored
from p2p_sim.attacks.targets import Batch, ExchangeTargets, copies, own_users
from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.label_exchange import exchange_of
from p2p_sim.mechanisms.messages import flipped_labels
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.population.build import draw_people
from p2p_sim.population.clustering import GivenClusters
from p2p_sim.population.population import People
from p2p_sim.population.synthetic import SyntheticConfig
from p2p_sim.protocol.roles import NOBODY
from p2p_sim.replicate.case import Case
from p2p_sim.replicate.memory import streams

Floats = NDArray[np.float64]
HELD_OUT_SEED = 15_485_863
PILOT = 0.2
"""Targets of the pilot, and of the held-out runs, as a share of the others, within the limits below."""
FEWEST_PILOT, MOST_PILOT = 5_000, 200_000
SHARES = (0.0, 0.15, 0.3, 0.6, 1.0)
"""Parts of ε(δ = 1e-3) at which δ is tested."""
LARGEST_TEST_EPSILON = 4.0
RISES = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)
"""Factors on ε for which the power is worked out."""
SEEN = 0.5
"""Power from which on a leak counts as one that is seen."""


@dataclass(frozen=True)
class OneRunAudit:
    """A finished audit in one run.

    scenario: its name; engine; users, targets: that were simulated and that were guessed, without pilot and held-out
    runs. sizes: (C,) of the clusters; flip_prob, sampling_rate: α, θ. realised: whether the certified figures are
    conditional on the networks as they turned out.
    plan: what was guessed. certified: (J,) mean of the targets' certified δ at the plan's ε.
    attacked: (J,) what the attack proves of it. epsilon_certified, epsilon_attacked: the same for ε at the plan's δ; the
    former is None if `realised`. expected, epsilon_expected: what the attack proves if all is right, about.
    rises: factors on ε, each with the probability that a leak which raises ε so much is seen.
    flip_prob_refused: the smallest α whose curve the attack refuses; None: none up to 1/2.
    lemma9: the paper's ε for the smallest cluster. drawn: the trade-off that the attack reached.
    error: probability that a sound exchange fails.
    """

    scenario: str
    engine: str
    users: int
    targets: int
    sizes: NDArray[np.int64]
    flip_prob: float
    sampling_rate: float
    realised: bool
    plan: OneRunPlan
    guesses: tuple[Guesses, ...]
    certified: Floats
    attacked: Floats
    expected: Floats
    epsilon_certified: float | None
    epsilon_attacked: float
    epsilon_expected: float
    rises: tuple[tuple[float, float], ...]
    flip_prob_refused: float | None
    lemma9: Stated
    drawn: Drawn
    error: float

    @property
    def passed(self) -> bool:
        """Whether the attack proves no more than is certified."""
        within = self.epsilon_certified is None or self.epsilon_attacked <= self.epsilon_certified
        return bool((self.attacked <= self.certified).all()) and within

    @property
    def power(self) -> float:
        """Probability that a leak which raises ε by a tenth is seen."""
        return dict(self.rises)[1.1]

    @property
    def smallest_rise(self) -> float | None:
        """The smallest factor on ε that is seen with probability 1/2 or more, of those that were tried."""
        return next((rise for rise, power in self.rises if power >= SEEN), None)

    @cached_property
    def exchange(self) -> LabelExchange:
        """The exact law in the cluster of median size."""
        return LabelExchange(int(np.sort(self.sizes)[len(self.sizes) // 2]), self.flip_prob, self.sampling_rate)


def audit_one_run(
    case: Case,
    trials: int,
    cluster_size: int | None = None,
    error: float = ERROR,
    claimed_flip_prob: float | None = None,
) -> OneRunAudit:
    """Attack a scenario's exchange at its own size.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets, at least.
        cluster_size: n of copies of one cluster, the worst data set, in place of the scenario's own users.
        error: probability that a sound exchange fails.
        claimed_flip_prob: the α whose curve is held against the attack; None: the scenario's.

    Raises:
        InputError: there is nothing to attack, or no figure is known.
    """
    scenario = case.scenario
    with threadpool_limits(1):
        people = None if cluster_size is not None else _people(case)
        sizes = np.array([cluster_size]) if people is None else people.cluster_sizes
        targets = _targets(case, people, sizes, claimed_flip_prob)
        alpha = (targets.claimed or targets.noise).flip_prob
        accounts = _Accounts(sizes, alpha, targets.mechanism.sampling_rate)
        epsilons = accounts.tested()
        attack = _Attack.prepared(targets, accounts.tabulated(people), trials, scenario.seed)
        pilot, _, _ = attack.seen(_pilot(trials), scenario.seed + PILOT_SEED, ())
        plan = plan_one_run(pilot, epsilons, scenario.privacy.delta, trials, error, attack.exact)
        seen, users, realised = attack.seen(trials, scenario.seed, epsilons)
        guesses = tuple(event.guesses(seen) for event in plan.events)
        attacked, epsilon_attacked = plan.bounds(guesses)
        expected, epsilon_expected = plan.bounds([event.expected(trials) for event in plan.events])
        certified = accounts.deltas(epsilons) if realised is None else realised
        drawn = drawn_tradeoff(pilot, seen, plan.deltas[0].attack, error)
        rises = accounts.rises(plan, certified, trials)
        refused = accounts.refused(plan, certified, attacked)
    smallest, theta, delta = int(sizes.min()), targets.mechanism.sampling_rate, scenario.privacy.delta
    lemma9 = Lemma9(smallest, alpha, theta, delta).stated(scenario.situation(2))
    return OneRunAudit(
        scenario.name, targets.mechanism.engine, users, int(seen.labels.size), sizes, alpha, theta, realised is not None,
        plan, guesses, certified, attacked, expected, None if realised is not None else accounts.epsilon(delta),
        epsilon_attacked, epsilon_expected, rises, refused, lemma9, drawn, error,
    )  # fmt: skip


def _people(case: Case) -> People:
    """The users of the scenario's first replicate; they are not held where that can be helped."""
    scenario = case.scenario
    if streams(scenario):
        assert isinstance(scenario.population, SyntheticConfig)
        assert isinstance(scenario.clusters, GivenClusters)
        return draw_people(scenario.population, scenario.clusters, case.streams)
    return case.people()


def _targets(case: Case, people: People | None, sizes: NDArray[np.int64], claimed: float | None) -> ExchangeTargets:
    """Where the targets come from."""
    scenario = case.scenario
    if people is not None and people.num_classes > 2:
        raise InputError(
            f"population: has {people.num_classes} classes; an audit needs two, or --cluster-size to audit the exchange "
            "of binary labels"
        )
    engine, delta = scenario.engine, scenario.privacy.delta
    built = exchange_of(scenario.mechanism.build(sizes, 2, delta, engine, scenario.adversaries), "an audit")
    noise = flipped_labels(built.randomizer, "an audit")
    if scenario.adversaries.coalition.users:
        raise InputError("adversaries.coalition.users: an audit draws its own users; take a share")
    labels = np.zeros(int(sizes[0]), dtype=np.uint8)
    if people is None:
        labels[1 : 1 + _worst_ones(int(sizes[0]), noise.flip_prob, built.sampling_rate)] = 1
    realised = not scenario.network.ideal or scenario.adversaries != NOBODY
    other = None if claimed is None else RandomizedResponse(claimed)
    rounds = copies(labels) if people is None else own_users(people)
    return ExchangeTargets(case, replace(built, debias=False), rounds, realised, other)


def _worst_ones(size: int, flip_prob: float, sampling_rate: float) -> int:
    """Ones among the others in the worst data set: none, where one label stands out most; tried in small clusters."""
    from p2p_sim.analysis.privacy.attack.views import LARGEST_VIEW, CountViews

    if size > LARGEST_VIEW:
        return 0
    laws = CountViews(LabelExchange(size, flip_prob, sampling_rate)).laws
    return int(np.argmax([law.deltas(0.0).max() for law in laws]))


def _pilot(trials: int) -> int:
    return int(min(max(PILOT * trials, FEWEST_PILOT), MOST_PILOT))


@dataclass(frozen=True)
class _Attack:
    """Targets and the scores that they get."""

    targets: ExchangeTargets
    ratio: LikelihoodRatio
    learned: Learned
    exact: tuple[bool, bool]

    @staticmethod
    def prepared(targets: ExchangeTargets, tabulated: bool, trials: int, seed: int) -> "_Attack":
        """Learn from held-out runs."""
        ratio = LikelihoodRatio(targets.noise.flip_prob, targets.mechanism.sampling_rate, tabulated)
        held_out = targets.batches(_pilot(trials), seed + HELD_OUT_SEED)
        labels, features = scored(held_out, ratio, None, lambda batch: None)
        return _Attack(targets, ratio, Learned.of(features, labels), (tabulated and not targets.realised, False))

    def seen(self, trials: int, seed: int, epsilons: Sequence[float]) -> tuple[Seen, int, Floats | None]:
        """Labels and scores of targets, how many users were simulated, and the mean claims where they are realised."""
        users, claims = list[int](), list[Floats]()

        def noted(batch: Batch) -> None:
            users.append(int(batch.sizes.sum()))
            if batch.claims is not None:
                claims.append(batch.claims)

        seen = Seen(*scored(self.targets.batches(trials, seed, epsilons), self.ratio, self.learned, noted))
        return seen, sum(users), np.sum(claims, axis=0) / seen.labels.size if claims else None


@dataclass(frozen=True)
class _Accounts:
    """The exact curves of clusters of these sizes (C,)."""

    sizes: NDArray[np.int64]
    flip_prob: float
    sampling_rate: float

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.unique(self.sizes, return_counts=True)

    @property
    def _middle(self) -> int:
        return int(np.sort(self.sizes)[len(self.sizes) // 2])

    def _exchange(self, size: int, flip_prob: float | None = None) -> LabelExchange:
        return LabelExchange(size, self.flip_prob if flip_prob is None else flip_prob, self.sampling_rate)

    def tabulated(self, people: People | None) -> bool:
        """Whether the exact law of every cluster is tabulated."""
        few = people is None or len(self.sizes) <= MOST_TABLES
        return few and int(self.sizes.max()) <= LARGEST_TABLE

    def tested(self) -> list[float]:
        """Values of ε at which δ is tested."""
        largest = min(self._exchange(self._middle).epsilon(1e-3).epsilon_upper, LARGEST_TEST_EPSILON)
        return [share * largest for share in SHARES] if largest > 0.0 else [0.0, 1e-3]

    def deltas(self, epsilons: Sequence[float], flip_prob: float | None = None) -> Floats:
        """Mean certified δ at each ε over the clusters."""
        found, weights = self._distinct
        table = [[b.upper for b in self._exchange(int(n), flip_prob).profile(epsilons)] for n in found]
        return np.array(table).T @ weights / weights.sum()

    def epsilon(self, delta: float) -> float:
        """Certified ε(δ) of the worst cluster."""
        return max(self._exchange(int(size)).epsilon(delta).epsilon_upper for size in self._extremes())

    def _extremes(self) -> Iterable[int]:
        """The smallest cluster: revealing users' bits turns a larger exchange into a smaller one."""
        return [int(self._distinct[0][0])]

    def _ratios(self, epsilons: Sequence[float], flip_prob: float) -> Floats:
        """δ at each ε with another α in place of the own one, as a factor, in a cluster of median size."""
        given = [(self._exchange(self._middle, a).profile(epsilons)) for a in (flip_prob, self.flip_prob)]
        other, own = ([bracket.upper for bracket in curve] for curve in given)
        return np.array([b / a if a > 0.0 else 1.0 for b, a in zip(other, own, strict=True)])

    def leaking(self, rise: float, delta: float) -> float:
        """The α with which ε at δ is so many times as large."""
        target = rise * self._exchange(self._middle).epsilon(delta).epsilon_upper
        low, high = 0.0, self.flip_prob
        for _ in range(14):
            middle = 0.5 * (low + high)
            met = self._exchange(self._middle, middle).satisfies(target, delta)
            low, high = (low, middle) if met else (middle, high)
        return high

    def rises(self, plan: OneRunPlan, certified: Floats, trials: int) -> tuple[tuple[float, float], ...]:
        """The power for each of `RISES`."""
        epsilons, found = [event.epsilon for event in plan.deltas], []
        for rise in RISES:
            factors = self._ratios(epsilons, self.leaking(rise, plan.delta))
            triples = zip(plan.deltas, certified, factors, strict=True)
            found.append((rise, max(event.power(claim, claim * factor, trials) for event, claim, factor in triples)))
        return tuple(found)

    def refused(self, plan: OneRunPlan, certified: Floats, attacked: Floats) -> float | None:
        """The smallest α whose curve is refused."""
        epsilons = [event.epsilon for event in plan.deltas]
        if not (attacked > 0.0).any():
            return None

        def falls(flip_prob: float) -> bool:
            return bool((self._ratios(epsilons, flip_prob) * certified < attacked).any())

        return smallest_refused(falls, 0.0, 0.5)
