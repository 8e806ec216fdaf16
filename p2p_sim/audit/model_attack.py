"""An audit of a released model: many users of one training run are targets, whose labels the attacker guesses.

One user in 10 (`APART`) is a target; the targets are the same users in all runs. In each run a target's label is a fair
coin between the two most frequent classes. All other users keep their own labels. Of the two classes, the class with
the larger index is the high class, the other the low class. A target's score is the model's log-odds of the high class
against the low class at her features. The mean of these log-odds over models of other runs is subtracted. The attacker
guesses the labels of the targets whose scores are largest in absolute value. A pilot run fixes the number of guesses.
A theorem in `p2p_sim/privacy/audit_statistics/one_run_guesses.py` says how many right guesses refute the certified
trade-off curve. The guesses of all runs count together: runs have independent noise, and coins affect no other run.
"""

import math
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.local_attack import TINY, frequent_pair
from p2p_sim.audit.one_run import HELD_OUT_SEED, PILOT_SEED, Floats, RepeatedTargets, ScoredTargets, claim_of
from p2p_sim.base import Streams, one_thread
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
from p2p_sim.replicate import Replicate

SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares of the targets. A pilot run chooses one; the attacker guesses the labels of this share of the targets."""
REFERENCES = 8
"""Number of models of other runs; the mean of their log-odds is subtracted from a target's log-odds."""
SMALL = 0.01
"""The δ at which ε is tested, as a share of the audit's error probability. If the accountant computes ε only at a
larger δ (`least_delta`), the larger δ is taken. A mechanism may reveal all targets with probability δ. So right guesses
prove nothing at a δ above the error probability. The test of the whole curve does not depend on this value."""
LARGEST_LOSS, POINTS = 60.0, 240
"""The largest ε at which the certified curve is evaluated, and the number of values of ε."""
APART = 10
"""Every user whose index is a multiple of this number is a target. With a larger number, the targets hide each other
less, but more runs are needed.
"""


@dataclass(frozen=True)
class ModelAudit:
    """A finished audit of a model.

    scenario: its name. mechanism, parameters: the mechanism's kind, and its parameters by name.
    runs, targets: number of training runs, and number of targets in all runs together. guesses: how many guesses were
    right and how many wrong.
    curve_refused: whether the guesses refute the certified curve. bound: the certified ε at a small δ. This δ is
    `SMALL` times `error`, or the least δ at which the accountant computes ε if that is larger.
    epsilon_attacked: the lower bound of ε that the attack proves at this δ. mu_attacked: the largest μ for which the
    attack refutes the curve of the Gaussian mechanism. epsilon_expected, mu_expected: approximately the values to
    expect according to a pilot run. error: the largest probability with which a sound mechanism fails at least one of
    the two tests.
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
        """Whether the audit finds no contradiction to what is certified. The guesses of targets' labels must refute
        neither of two claims. One is the certified trade-off curve between type I and type II errors. The other is the
        certified ε at one small δ.
        """
        return not self.curve_refused and self.epsilon_attacked <= self.bound.epsilon_upper


def audit_model(case: Replicate, trials: int, mechanism: NoisySteps | None = None) -> ModelAudit:
    """Attacks the model that a scenario's curator releases.

    Args:
        case: the first replicate of the scenario, which has the users. trials: the least number of targets in all runs
        together. mechanism: what is attacked; None: the mechanism that the scenario claims.

    Raises:
        InputError: the mechanism does not release a model by noisy gradient steps.
    """
    claimed, people = claim_of(case, "an audit of a model needs 'dp_sgd' or 'label_dp_pro'", NoisySteps)
    scenario, chosen = case.scenario, np.arange(0, people.num_users, APART)
    runs = max(1, -(-trials // len(chosen)))
    with one_thread():
        # First come models of other runs, then a pilot run that fixes the share of guessed targets, then the guesses.
        attack, targets = ModelTargets(mechanism or claimed, case, people, chosen), runs * len(chosen)
        held_out = [attack.run(Streams(scenario.seed + HELD_OUT_SEED, i), i, 0).scores for i in range(REFERENCES)]
        attack = replace(attack, reference=np.mean(held_out, axis=0))
        tried = attack.sample(max(1, runs // 5) * len(chosen), scenario.seed + PILOT_SEED, ())
        pilot = {share: _scaled(_guessed(tried, share), targets / len(tried.labels)) for share in SHARES}
        mus = {share: proved_mu(targets, guesses, ERROR / 2) for share, guesses in pilot.items()}
        best = max(SHARES, key=lambda share: (mus[share], _clear(pilot[share])))
        guesses = _guessed(attack.sample(targets, scenario.seed, ()), best)
    # The guesses test the certified curve, and the certified ε at a small δ.
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
class ModelTargets(RepeatedTargets):
    """Users who are targets in training runs of a model. Each run has fresh coins as their labels, and fresh noise.

    mechanism: what is attacked. chosen: (m,) the targets. reference: (1, m) log-odds that are subtracted from the
    model's log-odds.
    """

    mechanism: NoisySteps
    case: Replicate
    people: Population
    chosen: NDArray[np.int64]
    reference: Floats = field(default_factory=lambda: np.zeros(1))

    def run(self, streams: Streams, number: int, missing: int) -> ScoredTargets:
        people, pair = self.people, frequent_pair(self.people)
        coins = streams.generator("audit-coin").random(len(self.chosen)) < 0.5
        labels = people.labels.copy()
        labels[self.chosen] = pair.labels(coins)
        release = self.mechanism.run(replace(people, labels=labels), self.case.scenario.network, streams).release
        predictor = cast(ModelRelease, release).predictor  # noisy steps release a model
        logs = np.log(np.maximum(predictor.probabilities(people.features[self.chosen])[:, pair], TINY))
        # ln Pr[high] - ln Pr[low] of the model at the targets' features.
        return ScoredTargets(coins, (logs[:, 1] - logs[:, 0])[None, :] - self.reference, people.num_users)


def _guessed(targets: ScoredTargets, share: float) -> Guesses:
    """Right and wrong guesses for the share `share` of the targets, the targets with the largest absolute scores."""
    scores = targets.scores[0]
    order = np.argsort(-np.abs(scores), kind="stable")[: max(1, round(share * len(scores)))]
    return right_and_wrong(scores[order] > 0.0, scores[order] <= 0.0, targets.labels[order])


def _scaled(guesses: Guesses, factor: float) -> Guesses:
    """The numbers of right and wrong guesses to expect if there are `factor` times as many targets, rounded."""
    right, wrong = (round(factor * count) for count in (guesses.right, guesses.wrong))
    return Guesses(right, wrong, max(right + wrong, 1))


def _clear(guesses: Guesses) -> float:
    """By how many standard deviations of random guessing the right guesses exceed half of all guesses. This number,
    (right - wrong)/√(right + wrong), decides between shares of targets that prove the same μ in the pilot run.
    """
    return (guesses.right - guesses.wrong) / math.sqrt(guesses.right + guesses.wrong)
