"""An audit in one run: fair coins for labels, guessed from what the learner sees, at the scenario's own size.

Held-out runs teach a classifier, a pilot run fixes what is guessed, and the run that counts follows; each has a seed of
its own. The statistics are those of `p2p_sim/privacy/audit_statistics`. A kind of audit says where its targets come
from and how they are scored (`Targets`), and what an accountant certifies of them (`Account`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.declared_submissions import LawCheck, failure
from p2p_sim.audit.faulty_network_attack import PILOT_SEED
from p2p_sim.base import Streams, one_thread
from p2p_sim.privacy import LossLaw, PrivacyBound, Stated, worst_bound
from p2p_sim.privacy.audit_statistics import (
    ERROR,
    AttackScores,
    Drawn,
    Guesses,
    OneRunPlan,
    drawn_tradeoff,
    plan_one_run,
)
from p2p_sim.scenario import Scenario

Floats = NDArray[np.float64]
HELD_OUT_SEED = 15_485_863
"""Added to the root seed for held-out runs."""
PILOT = 0.2
"""Targets of the pilot, and of the held-out runs, as a share of the others, within the limits below."""
FEWEST_PILOT, MOST_PILOT = 2_000, 200_000
RISES = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Factors on ε for which the power is worked out."""
SHOWN = 1.1
"""The factor whose power is printed."""
TYPE_ONE = np.linspace(0.0, 1.0, 201)
"""Type I errors at which curves are drawn."""
SEEN = 0.5
"""Power from which on a leak counts as one that an audit sees."""


@dataclass(frozen=True)
class Scope:
    """What an attack looks at; its power is stated for one kind of leak alone, too little noise.

    scores: what each score is, in words. looks_for, overlooks: leaks of other kinds that it looks for, and that it does
    not look for. target: what of a user a coin decides: her label, or which of two whole rows is hers.
    """

    scores: tuple[str, ...] = ("the score made for the mechanism",)
    looks_for: str = "none"
    overlooks: str = "whatever does not show in the score made for the mechanism"
    target: Literal["label", "row"] = "label"


@dataclass(frozen=True)
class ScoredTargets(AttackScores):
    """Targets of a run, or of several, with their scores.

    users: that were simulated. claims: (J,) mean certified δ at each ε; None where it does not depend on the run.
    """

    users: int
    claims: Floats | None = None


def together(parts: Sequence[ScoredTargets]) -> ScoredTargets:
    """The targets of several runs, or of parts of one, in one table."""
    labels = np.concatenate([part.labels for part in parts])
    return ScoredTargets(labels, np.concatenate([part.scores for part in parts], axis=1), sum(p.users for p in parts))


class Targets(ABC):
    """The source of an audit's targets, with the scores that the attack gives them.

    exact: of each score, whether it is the exact logarithm of the likelihood ratio.
    """

    exact: tuple[bool, ...]

    @property
    def scope(self) -> Scope:
        """What the attack looks at."""
        return Scope()

    @abstractmethod
    def sample(self, trials: int, seed: int, epsilons: Sequence[float]) -> ScoredTargets:
        """At least `trials` scored targets, and the mean certified δ at each ε where it depends on the run."""


class RepeatedTargets(Targets):
    """Targets of a run that is repeated, each time with its own random streams, until there are enough."""

    @abstractmethod
    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        """The targets of one run.

        Args:
            streams: of its coins and noise. number: of the run, from 0. missing: targets that are not there yet.
        """

    def sample(self, trials: int, seed: int, epsilons: Sequence[float]) -> ScoredTargets:
        runs, targets = list[ScoredTargets](), 0
        while targets < trials:
            runs.append(self.run(Streams(seed, len(runs)), len(runs), trials - targets))
            targets += runs[-1].labels.size
        return together(runs)


class SizeRange(NamedTuple):
    """The numbers of users of the smallest and of the largest cluster."""

    smallest: int
    largest: int


@dataclass(frozen=True)
class Account(ABC):
    """What is certified of an audit's targets, and how noise and ε go together in this kind of audit.

    mechanism: what states a bound. sizes: of the clusters of the targets. engine, paper: as in the result. shares:
    parts of the largest ε, which is at most `most`, at which δ is tested. pure: what has this ε, in words.
    """

    mechanism: Any
    sizes: NDArray[np.int64]
    engine: str = field(default="", kw_only=True)
    paper: Stated | None = field(default=None, kw_only=True)

    shares: ClassVar[tuple[float, ...]] = (0.0, 0.25, 0.5, 0.75, 0.9)
    most: ClassVar[float] = 8.0
    pure: ClassVar[str] = ""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The ε of which parts are tested: where δ is 0, or a small δ."""

    @property
    def parameters(self) -> dict[str, float]:
        """The mechanism's parameters, by their names."""
        parameters: dict[str, float] = self.mechanism.parameters
        return parameters

    @property
    def clusters(self) -> SizeRange | None:
        """Sizes of the clusters; None where they do not matter."""
        return SizeRange(int(self.sizes.min()), int(self.sizes.max()))

    def tested(self) -> list[float]:
        """Values of ε at which δ is tested, ascending, 0 first."""
        largest = min(self.largest, self.most)
        return [share * largest for share in self.shares] if largest > 0.0 else [0.0, 1e-3]

    @abstractmethod
    def reached(self, epsilons: Sequence[float], rise: float) -> Floats:
        """The targets' certified δ at each ε if there is so much less noise that ε is `rise` times as large, about."""

    def deltas(self, epsilons: Sequence[float]) -> Floats:
        """Mean certified δ of the targets at each ε."""
        return self.reached(epsilons, 1.0)

    def bound(self, delta: float) -> PrivacyBound:
        """The statement of ε at δ for the worst target."""
        return worst_bound(self.mechanism.privacy(np.unique(self.sizes), delta))

    def grown(self, epsilons: Sequence[float], rise: float) -> Floats:
        """How many times as large δ is at each ε if a leak makes ε(δ) `rise` times as large; 1 where δ is 0."""
        more, less = self.reached(epsilons, rise), self.reached(epsilons, 1.0)
        return np.asarray(np.divide(more, less, out=np.ones_like(more), where=less > 0.0))

    def curves(self) -> dict[str, Floats]:
        """Trade-off curves for comparison, type II errors at `TYPE_ONE` by their names: that of the pure ε alone."""
        factor = math.exp(min(self.largest, 700.0))
        return {self.pure: np.maximum(np.maximum(1.0 - factor * TYPE_ONE, (1.0 - TYPE_ONE) / factor), 0.0)}

    def refused(self, plan: OneRunPlan, certified: Floats, attacked: Floats) -> float | None:
        """The smallest α whose certified curve the attack refutes; None if there is none, or if the mechanism
        has no α.
        """
        return None


@dataclass(frozen=True)
class OneRunAudit:
    """A finished audit in one run.

    scenario: its name; mechanism: its kind; engine: "" where no messages travel. parameters: of the mechanism.
    users, targets: that were simulated and that were guessed, without pilot and held-out runs. clusters: the sizes of
    the smallest and the largest; None where they do not matter.
    realised: whether the certified δ is conditional on the networks as they turned out.
    plan: what was guessed. guesses: what came of it. certified: (J,) mean of the targets' certified δ at the plan's ε.
    attacked: (J,) what the attack proves of it. expected: (J,) what it proves if all is right, about.
    bound: the statement for the worst target at the plan's δ. epsilon_attacked, epsilon_expected: as above, of its ε.
    rises: factors on ε, each with the probability that too little noise, which raises ε so much, is seen.
    flip_prob_refused: the smallest α whose curve the attack refuses; None: none.
    paper: what the paper states of the worst target; None: nothing. drawn: the trade-off that the attack reached.
    curves: type II errors at `TYPE_ONE` that are known besides, by their names.
    error: probability that a sound mechanism fails. scope: what the attack looks at.
    declared: tests of what a protocol declares of its submissions, with the same error again.
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
        """The test that refuses what a protocol declares; None if none does."""
        return failure(self.declared, self.error) if self.declared else None

    @property
    def passed(self) -> bool:
        """Whether the attack proves no more than is certified, and no test refuses what a protocol declares."""
        within = self.realised or self.epsilon_attacked <= self.bound.epsilon_upper
        return bool((self.attacked <= self.certified).all()) and within and self.refuted is None

    @property
    def epsilons(self) -> list[float]:
        """Values of ε at which δ was tested."""
        return [event.epsilon for event in self.plan.deltas]

    @property
    def law(self) -> LossLaw:
        """The law of the loss of a pair that dominates every pair with the certified δ at the tested ε."""
        return LossLaw.of(self.epsilons, self.certified.tolist())

    @property
    def power(self) -> float:
        """Probability that too little noise, which makes ε `SHOWN` times as large, is seen."""
        return dict(self.rises)[SHOWN]

    @property
    def smallest_rise(self) -> float | None:
        """The smallest factor on ε, of those that were tried, that is seen with probability `SEEN` or more."""
        return next((rise for rise, power in self.rises if power >= SEEN), None)


def audited(scenario: Scenario, targets: Targets, account: Account, *, trials: int) -> OneRunAudit:
    """Fix an attack on these targets by a pilot run, attack in another run, and compare with what is certified.

    Args:
        scenario: names, seed and δ. trials: targets, at least.
    """
    with one_thread():
        # The pilot fixes what is guessed; then the run that counts.
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
    """How many targets a pilot has for an audit of so many."""
    return int(min(max(PILOT * trials, FEWEST_PILOT), MOST_PILOT))


def _power(plan: OneRunPlan, certified: Floats, account: Account, rise: float, trials: int) -> float:
    """Probability, about, that some test sees too little noise, which makes ε(δ) `rise` times as large."""
    factors = account.grown([event.epsilon for event in plan.deltas], rise)
    triples = zip(plan.deltas, certified, factors, strict=True)
    return max(event.power(claim, claim * factor, trials) for event, claim, factor in triples)
