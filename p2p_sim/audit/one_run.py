"""An audit in one run: labels are fair coins, and an attacker guesses the labels from a release of full size.

The users whose labels are guessed are the targets. Held-out runs teach a classifier, and a pilot run fixes the rules of
guessing. Then comes the run that counts. Each of these steps has a seed of its own. The statistics are in
`p2p_sim/privacy/audit_statistics`. Each kind of audit defines the source and the scores of its targets (`Targets`), and
what is certified of the targets (`Account`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.declared_submissions import LawCheck, failure
from p2p_sim.base import InputError, Streams, one_thread
from p2p_sim.population import Population
from p2p_sim.privacy import LossLaw, PrivacyBound, Stated, pure_delta, worst_bound
from p2p_sim.privacy.audit_statistics import (
    ERROR,
    AttackScores,
    Drawn,
    Guesses,
    OneRunPlan,
    drawn_tradeoff,
    plan_one_run,
)
from p2p_sim.replicate import Replicate, prepare
from p2p_sim.scenario import Scenario

Floats = NDArray[np.float64]
HELD_OUT_SEED, PILOT_SEED = 15_485_863, 7_919
"""Numbers added to the root seed: the first for held-out runs, the second for a pilot run."""
SHARDS = 4
"""Number of shards (groups of clusters) that are simulated at a time; this bounds the memory."""
PILOT, FEWEST_PILOT, MOST_PILOT = 0.2, 2_000, 200_000
"""The pilot's number of targets: the share of the number of targets that count, and the least and the largest value.
Held-out runs have as many targets as the pilot."""
RISES = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Factors by which a leak raises ε. For each factor the power of the audit is computed: the probability that the audit
detects the leak."""
PRINTED_RISE = 1.1
"""The factor for which the power is printed."""
LEAST_POWER = 0.5
"""Least power with which an audit counts as detecting a leak."""
TYPE_ONE = np.linspace(0.0, 1.0, 201)
"""Type I errors at which trade-off curves are drawn."""
M = TypeVar("M")


@dataclass(frozen=True)
class Scope:
    """What an attack looks at, in words. The power of an audit is stated for only one kind of leak: too little noise.

    scores: what each score is. looks_for: leaks of other kinds that the attack looks for. overlooks: leaks that the
    attack cannot see. target: what a coin decides about a target. "label" means her label; "row" means her whole row
    (features and label).
    """

    scores: tuple[str, ...] = ("the score made for the mechanism",)
    looks_for: str = "none"
    overlooks: str = "whatever does not show in the score made for the mechanism"
    target: Literal["label", "row"] = "label"


@dataclass(frozen=True)
class ScoredTargets(AttackScores):
    """The targets of one or more runs, with their scores.

    users: how many users were simulated. claims: (J,) the mean certified δ at each of J tested values of ε; None if no
    δ depends on the run.
    """

    users: int
    claims: Floats | None = None


def join_targets(parts: Sequence[ScoredTargets]) -> ScoredTargets:
    """The targets of several runs, or of several parts of a run, in one table. The result has no `claims`."""
    labels = np.concatenate([part.labels for part in parts])
    return ScoredTargets(labels, np.concatenate([part.scores for part in parts], axis=1), sum(p.users for p in parts))


class Targets(ABC):
    """The source of an audit's targets, with the scores that the attack gives them.

    exact: for each score, whether it is the exact logarithm of the likelihood ratio.
    """

    exact: tuple[bool, ...] = (False,)

    @property
    def scope(self) -> Scope:
        """What the attack looks at, in words for the audit's report."""
        return Scope()

    @abstractmethod
    def sample(self, trials: int, seed: int, epsilons: Sequence[float]) -> ScoredTargets:
        """At least `trials` targets. Each has a fair coin as her label, and the scores by which the attack guesses it.

        Args:
            trials: the least number of targets. seed: root seed. epsilons: (J,) values of ε. If the certified δ depends
            on the run, the result's `claims` (J,) has the mean δ of the targets at each ε. Otherwise `claims` is None.
        """


class RepeatedTargets(Targets):
    """Targets of a run that is repeated, each time with its own random streams, until there are enough targets."""

    @abstractmethod
    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        """The targets of one run.

        Args:
            streams: random streams of the run's coins and noise. number: index of the run, from 0. missing: how many
            targets are still needed.
        """

    def sample(self, trials: int, seed: int, epsilons: Sequence[float]) -> ScoredTargets:
        runs, targets = list[ScoredTargets](), 0
        while targets < trials:
            runs.append(self.run(Streams(seed, len(runs)), len(runs), trials - targets))
            targets += runs[-1].labels.size
        return join_targets(runs)


class SizeRange(NamedTuple):
    """The number of users of the smallest cluster, and the number of users of the largest cluster."""

    smallest: int
    largest: int


@dataclass(frozen=True)
class Account(ABC):
    """What is certified of an audit's targets, and how δ grows if a leak raises ε.

    mechanism: the object that states the certified bound. sizes: numbers of users of the targets' clusters. engine,
    paper: as in `OneRunAudit`. shares, most: δ is tested at these shares of the smaller one of `largest` and `most`.
    pure: name of the trade-off curve that belongs to the pure ε `largest`.
    """

    mechanism: Any
    sizes: NDArray[np.int64]
    engine: str = field(default="", kw_only=True)
    paper: Stated | None = field(default=None, kw_only=True)

    shares: ClassVar[tuple[float, ...]] = (0.0, 0.25, 0.5, 0.75, 0.9)
    most: ClassVar[float] = 8.0
    pure: ClassVar[str] = ""

    @property
    def largest(self) -> float:
        """The ε that fixes where the audit tests δ (`tested`). By default this is the pure ε, with δ = 0, that the
        mechanism's accountant states for the smallest cluster.
        """
        return float(self.mechanism.accountant(self.mechanism.setup, int(self.sizes.min())).pure_epsilon)

    @property
    def parameters(self) -> dict[str, float]:
        """The mechanism's parameters, by their names."""
        return dict(self.mechanism.parameters)

    @property
    def clusters(self) -> SizeRange | None:
        """The smallest and the largest size of a cluster; None where sizes do not matter."""
        return SizeRange(int(self.sizes.min()), int(self.sizes.max()))

    def tested(self) -> list[float]:
        """Values of ε at which δ is tested, ascending, with 0 first. The values are shares, at most 1, of `largest` or
        of the limit `most`, whichever is smaller. If that is 0, the values are 0 and 0.001.
        """
        largest = min(self.largest, self.most)
        return [share * largest for share in self.shares] if largest > 0.0 else [0.0, 1e-3]

    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """The approximate mean δ of the targets at each of J values of ε, (J,), under a leak, such as too little noise.
        The leak has made the true ε `rise` times as large as the certified ε. `rise` = 1 means no leak.

        By default this is the δ of randomised response between two labels with the pure ε `rise` times `largest`.
        """
        return np.array([pure_delta(rise * self.largest, epsilon) for epsilon in epsilons])

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """The mean certified δ of the targets at each given value of ε."""
        return self.reached(epsilons, 1.0)

    def bound(self, delta: float) -> PrivacyBound:
        """The bound of ε at δ that is stated for the worst target."""
        return worst_bound(self.mechanism.privacy(np.unique(self.sizes), delta))

    def curves(self) -> dict[str, Floats]:
        """Trade-off curves, by name, that the audit's picture shows beside what the attack reached. A curve is an array
        (201,) of type II errors at the type I errors 0, 0.005, …, 1. By default there is one curve, of randomised
        response with the pure ε `largest`.
        """
        factor = math.exp(min(self.largest, 700.0))
        return {self.pure: np.maximum(np.maximum(1.0 - factor * TYPE_ONE, (1.0 - TYPE_ONE) / factor), 0.0)}

    def refused(self, plan: OneRunPlan, certified: Floats, attacked: Floats) -> float | None:
        """The smallest flip probability α that the attack refutes; None if there is no such α. An α is refuted if the δ
        certified with α is below the lower bound that the right guesses prove. Here the result is None, because in
        general the relation of δ to α is not known. A subclass that knows this relation returns α.

        Args:
            plan: has the J values of ε at which δ is tested. certified: (J,) the mean certified δ at each ε. attacked:
            (J,) the lower bounds of this mean that the attack proves.
        """
        return None


@dataclass(frozen=True)
class OneRunAudit:
    """A finished audit in one run.

    scenario: its name. mechanism: its kind. engine: the engine that carried the messages; "" where no messages travel.
    parameters: the mechanism's parameters, by name.
    users, targets: how many users were simulated, and how many users were targets, without pilot and held-out runs.
    clusters: the smallest and the largest size of a cluster; None where sizes do not matter.
    realised: whether the certified δ is conditional on what happened on the simulated networks.
    plan: the rules of guessing. guesses: for each rule, how many guesses were right and how many were wrong.
    certified: (J,) the mean over the targets of the certified δ, at the plan's J values of ε. attacked: (J,) the lower
    bounds of this mean that the attack proves. expected: (J,) the bounds to expect according to a pilot run.
    bound: the stated ε of the worst target, at the plan's δ. epsilon_attacked: the lower bound of this ε that the
    attack proves. epsilon_expected: the lower bound to expect according to a pilot run.
    rises: pairs of a factor and its power. The power is the probability that the audit detects a leak by too little
    noise that multiplies the true ε by this factor.
    flip_prob_refused: the smallest flip probability α for which the attack refutes the certified δ; None if there is no
    such α.
    paper: what the paper states about the worst target; None if it states nothing.
    drawn: the trade-off that the attack reached. curves: other trade-off curves by name, as type II errors at
    `TYPE_ONE`.
    error: the largest probability that a sound mechanism fails the attack. scope: what the attack looks at.
    declared: tests of what a protocol declares about its submissions. If the declaration is true, at least one of these
    tests fails with probability at most `error`. This probability adds to the probability that a sound mechanism fails
    the attack.
    """

    scenario: str
    mechanism: str
    engine: str
    parameters: dict[str, float]
    users: int
    targets: int
    clusters: SizeRange | None
    realised: bool
    plan: OneRunPlan
    guesses: tuple[Guesses, ...]
    certified: Floats
    attacked: Floats
    expected: Floats
    bound: PrivacyBound
    epsilon_attacked: float
    epsilon_expected: float
    rises: tuple[tuple[float, float], ...]
    flip_prob_refused: float | None
    paper: Stated | None
    drawn: Drawn
    curves: dict[str, Floats]
    error: float
    scope: Scope
    declared: tuple[LawCheck, ...] = ()

    @property
    def refuted(self) -> LawCheck | None:
        """The test that refutes what a protocol declares: a law of its submissions given the noisy labels, or that all
        users are alike. The result is the test with the smallest probability, if this is significant with all tests
        counted. None if no test refutes the declaration, or nothing was declared.
        """
        return failure(self.declared, self.error) if self.declared else None

    @property
    def passed(self) -> bool:
        """Whether the audit finds no contradiction. At no tested ε may the attack prove a larger δ than is certified.
        The attack may prove no larger ε than is stated for the worst target. This test of ε is left out if the
        certified δ is conditional on what happened on the networks. Finally, no test may refute what a protocol
        declares about its submissions.
        """
        within = self.realised or self.epsilon_attacked <= self.bound.epsilon_upper
        return bool((self.attacked <= self.certified).all()) and within and self.refuted is None

    @property
    def epsilons(self) -> list[float]:
        """The values of ε at which δ was tested."""
        return [event.epsilon for event in self.plan.deltas]

    @property
    def law(self) -> LossLaw:
        """The law of the privacy loss of a pair of distributions, whose trade-off curve the audit draws. The pair is at
        least as easy to tell apart as any pair that satisfies the certified δ at the tested values of ε.
        """
        return LossLaw.of(self.epsilons, self.certified.tolist())

    @property
    def power(self) -> float:
        """Approximately the probability that the audit detects a leak that multiplies ε by 1.1 (`PRINTED_RISE`)."""
        return dict(self.rises)[PRINTED_RISE]

    @property
    def smallest_rise(self) -> float | None:
        """The smallest factor with a power of at least 0.5 (`LEAST_POWER`). The power is the probability that the audit
        detects a leak that multiplies the true ε by this factor. Ten factors from 1.01 to 10 (`RISES`) are tried; None
        if no factor has this power.
        """
        return next((rise for rise, power in self.rises if power >= LEAST_POWER), None)


class Claim(NamedTuple, Generic[M]):
    """The mechanism that a scenario deploys, whose ε an audit tests, and the users of the first replicate."""

    mechanism: M
    people: Population


def claim_of(case: Replicate, refusal: str, *sorts: type[M]) -> Claim[M]:
    """The mechanism that a scenario deploys, and the users of the replicate (one random repetition of the scenario).

    Args:
        case: the replicate. refusal: words that explain, in the error, why another mechanism cannot be audited. sorts:
        the classes of mechanisms that can be audited.

    Raises:
        InputError: the mechanism is of none of these classes.
    """
    ready = prepare(case)
    if not isinstance(ready.mechanism, sorts):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: {refusal}")
    return Claim(ready.mechanism, ready.population)


def perform_audit(scenario: Scenario, targets: Targets, account: Account, *, trials: int) -> OneRunAudit:
    """Performs an audit. A pilot run fixes the rules by which targets' labels are guessed from their scores. By these
    rules, the labels of another run are guessed. The right guesses prove lower bounds of δ and ε. These bounds are
    compared with what is certified.

    Args:
        scenario: has the names, the seed and δ. targets: draws targets, each with a coin as her label and with the
        scores that the attack gives her. account: what is certified of the targets, and how δ grows if a leak raises ε.
        trials: the least number of targets.
    """
    with one_thread():
        # The pilot fixes the rules of guessing; then comes the run that counts.
        delta, epsilons = scenario.privacy.delta, account.tested()
        pilot = targets.sample(pilot_of(trials), scenario.seed + PILOT_SEED, ())
        plan = plan_one_run(pilot, epsilons, delta, trials=trials, error=ERROR, exact=targets.exact)
        sample = targets.sample(trials, scenario.seed, epsilons)
        certified = account.deltas(epsilons) if sample.claims is None else sample.claims
        guesses = tuple(event.guesses(sample) for event in plan.events)
        attacked, epsilon_attacked = plan.bounds(guesses)
        expected, epsilon_expected = plan.bounds([event.expected(trials) for event in plan.events])
        return OneRunAudit(
            scenario=scenario.name,
            mechanism=scenario.mechanism.kind,
            engine=account.engine,
            parameters=account.parameters,
            users=sample.users,
            targets=int(sample.labels.size),
            clusters=account.clusters,
            realised=sample.claims is not None,
            plan=plan,
            guesses=guesses,
            certified=certified,
            attacked=attacked,
            expected=expected,
            bound=account.bound(delta),
            epsilon_attacked=epsilon_attacked,
            epsilon_expected=epsilon_expected,
            rises=tuple((rise, _power(plan, certified, account, rise, trials)) for rise in RISES),
            flip_prob_refused=account.refused(plan, certified, attacked),
            paper=account.paper,
            drawn=drawn_tradeoff(pilot, sample, plan.deltas[0].attack, ERROR),
            curves=account.curves(),
            error=ERROR,
            scope=targets.scope,
        )


def pilot_of(trials: int) -> int:
    """How many targets the pilot has if `trials` targets count: a fifth of `trials`, but at least 2,000 and at most
    200,000.
    """
    return int(min(max(PILOT * trials, FEWEST_PILOT), MOST_PILOT))


def _power(plan: OneRunPlan, certified: Floats, account: Account, rise: float, trials: int) -> float:
    """Approximately the probability that some test of δ detects a leak that makes the true ε `rise` times the certified
    ε. The largest power of a single test is returned. A test's power is the probability that it refuses the certified
    δ.

    Args:
        plan: the tests, one of δ for each of J values of ε. certified: (J,) certified δ at these ε. account: says how
        much the leak raises δ. rise: the factor. trials: how many targets count as evidence.
    """
    epsilons = [event.epsilon for event in plan.deltas]
    # The factor by which the leak raises δ at each ε; 1 where δ is 0.
    more, less = account.reached(epsilons, rise), account.reached(epsilons, 1.0)
    factors = np.divide(more, less, out=np.ones_like(more), where=less > 0.0)
    return max(
        event.power(claim, claim * factor, trials)
        for event, claim, factor in zip(plan.deltas, certified, factors, strict=True)
    )
