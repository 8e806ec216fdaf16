"""An audit of a released model: many users of one training run are targets, whose labels the attacker does not know.

One user in `APART` is a target in every run, the same ones; her label is a fair coin between the two most frequent
classes, and everybody else keeps her own. Her score is how much the model speaks for one
class against the other at her features, less what models of other runs say there. The attacker guesses the labels with
the largest scores, up or down, as many as a pilot run suggests. `one_run_guesses` says what that proves of the whole
certified curve; runs with independent noise count together, since each target is private in her own run and absent
from the others.
"""

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.faulty_network_attack import PILOT_SEED
from p2p_sim.audit.local_attack import frequent_pair
from p2p_sim.audit.one_run import HELD_OUT_SEED, ScoredTargets, together
from p2p_sim.base import InputError, Streams, one_thread
from p2p_sim.mechanisms import ModelRelease, NoisySteps
from p2p_sim.population import Population
from p2p_sim.privacy import PrivacyBound, worst_bound
from p2p_sim.privacy.audit_statistics import (
    ERROR,
    Guesses,
    curve_of,
    proved_epsilon,
    proved_mu,
    refuses,
    right_and_wrong,
)
from p2p_sim.replicate import Replicate, prepare

Floats = NDArray[np.float64]
SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Of the targets, that may be guessed."""
REFERENCES = 8
"""Models of other runs, whose mean is what is said of a user without her."""
SMALL = 0.01
"""δ at which ε is shown, as a share of the error: every target may be revealed with probability δ, which no guess tells
from an attack, so that a single δ above the error proves nothing. The test of the whole curve does not depend on it."""
LARGEST_LOSS, POINTS = 60.0, 240
"""The certified curve is taken from δ at so many values of ε, up to this one."""
APART = 10
"""Users for each target: the more of them, the less the targets hide each other, but the more runs it takes."""
_TINY = 1e-30
"""Probability below which none is taken to be, so that its logarithm is finite."""


@dataclass(frozen=True)
class ModelAudit:
    """A finished audit of a model.

    scenario: its name; mechanism: its kind; parameters: of it. runs: that were trained; targets: of all runs.
    guesses: what was guessed. curve_refused: whether they refuse the certified curve. bound: the statement, at a δ
    below the error. epsilon_attacked: what the attack proves of ε at that δ alone. mu_attacked: up to which μ it
    refuses the curve of the Gaussian mechanism. epsilon_expected, mu_expected: what a pilot run proved.
    error: probability that a sound mechanism fails, of both tests.
    """

    scenario: str
    mechanism: str
    parameters: dict[str, float]
    runs: int
    targets: int
    guesses: Guesses
    curve_refused: bool
    bound: PrivacyBound
    epsilon_attacked: float
    epsilon_expected: float
    mu_attacked: float
    mu_expected: float
    error: float

    @property
    def passed(self) -> bool:
        """Whether neither the certified curve nor the certified statement is refused."""
        return not self.curve_refused and self.epsilon_attacked <= self.bound.epsilon_upper


def audit_model(case: Replicate, trials: int, mechanism: NoisySteps | None = None) -> ModelAudit:
    """Attack the model that a scenario's curator releases.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets of all runs, at least.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism does not release a model by noisy gradient steps.
    """
    ready = prepare(case)
    claimed = ready.mechanism
    if not isinstance(claimed, NoisySteps):
        raise InputError(
            f"mechanism.kind = {case.scenario.mechanism.kind!r}: an audit of a model needs 'dp_sgd' or 'label_dp_pro'"
        )
    people, scenario = ready.population, case.scenario
    chosen = np.arange(0, people.num_users, APART)
    runs = max(1, -(-trials // len(chosen)))
    with one_thread():
        # What models of other runs say of the targets; the share of guesses that proves most in a pilot; the guesses.
        attack = _Models(mechanism or claimed, case, people, chosen)
        reference = np.mean([attack.run(scenario.seed + HELD_OUT_SEED, i).scores for i in range(REFERENCES)], axis=0)
        targets = runs * len(chosen)
        tried = attack.runs(scenario.seed + PILOT_SEED, max(1, runs // 5), reference)
        pilot = {share: _scaled(_guessed(tried, share), targets / len(tried.labels)) for share in SHARES}
        mus = {share: proved_mu(targets, guesses, ERROR / 2) for share, guesses in pilot.items()}
        best = max(SHARES, key=lambda share: (mus[share], _clear(pilot[share])))
        guesses = _guessed(attack.runs(scenario.seed, runs, reference), best)
    # The certified curve is held against the guesses, and the certified ε at a small δ.
    accountant = claimed.accountant(claimed.setup, people.num_users)
    delta = max(SMALL * ERROR, accountant.least_delta)
    epsilons = np.linspace(0.0, 1.0, POINTS) ** 2 * LARGEST_LOSS
    curve = curve_of(epsilons.tolist(), [bracket.upper for bracket in accountant.profile(epsilons.tolist())])
    return ModelAudit(
        scenario=scenario.name,
        mechanism=scenario.mechanism.kind,
        parameters=claimed.parameters,
        runs=runs,
        targets=targets,
        guesses=guesses,
        curve_refused=refuses(targets, guesses, curve, ERROR / 2),
        bound=worst_bound(claimed.privacy(people.cluster_sizes[:1], delta)),
        epsilon_attacked=proved_epsilon(targets, guesses, delta, ERROR / 2),
        epsilon_expected=proved_epsilon(targets, pilot[best], delta, ERROR / 2),
        mu_attacked=proved_mu(targets, guesses, ERROR / 2),
        mu_expected=mus[best],
        error=ERROR,
    )


@dataclass(frozen=True)
class _Models:
    """Training runs of a model with fresh coins as labels, and fresh noise. chosen: (m,), the users who are targets."""

    mechanism: NoisySteps
    case: Replicate
    people: Population
    chosen: NDArray[np.int64]

    def run(self, seed: int, run: int) -> ScoredTargets:
        """Train one model with fresh coins; the score is ln Pr[high] - ln Pr[low] at each target's features."""
        people, streams = self.people, Streams(seed, run)
        low, high = frequent_pair(people)
        coins = streams.generator("audit-coin").random(len(self.chosen)) < 0.5
        labels = people.labels.copy()
        labels[self.chosen] = np.where(coins, high, low)
        release = self.mechanism.run(replace(people, labels=labels), self.case.scenario.network, streams).release
        predictor = cast(ModelRelease, release).predictor  # noisy steps release a model
        pair = np.log(np.maximum(predictor.probabilities(people.features[self.chosen])[:, (low, high)], _TINY))
        return ScoredTargets(coins, (pair[:, 1] - pair[:, 0])[None, :], people.num_users)

    def runs(self, seed: int, runs: int, reference: Floats) -> ScoredTargets:
        """The targets of several training runs, their scores less the reference (1, m)."""
        models = [self.run(seed, run) for run in range(runs)]
        return together([replace(model, scores=model.scores - reference) for model in models])


def _guessed(targets: ScoredTargets, share: float) -> Guesses:
    """How many guesses are right and wrong if a share of the targets is guessed: those with the largest scores
    in size.
    """
    scores = targets.scores[0]
    order = np.argsort(-np.abs(scores), kind="stable")[: max(1, round(share * len(scores)))]
    return right_and_wrong(scores[order] > 0.0, scores[order] <= 0.0, targets.labels[order])


def _scaled(guesses: Guesses, factor: float) -> Guesses:
    """The guesses to expect among `factor` times as many targets."""
    right, wrong = (round(factor * count) for count in (guesses.right, guesses.wrong))
    return Guesses(right, wrong, max(right + wrong, 1))


def _clear(guesses: Guesses) -> float:
    """By how many standard deviations more than half of the guesses are right."""
    return (guesses.right - guesses.wrong) / math.sqrt(guesses.right + guesses.wrong)
