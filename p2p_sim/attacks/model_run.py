"""An audit of a released model: many users of one training run are targets, whose labels the attacker does not know.

One user in `APART` is a target in every run, the same ones; her label is a fair coin between the two most frequent
classes, and everybody else keeps her own. Her score is how much the model speaks for one
class against the other at her features, less what models of other runs say there. The attacker guesses the labels with
the largest scores, up or down, as many as a pilot run suggests. `one_run.several_targets` says what that proves; runs
with independent noise count together, since each target is private in her own run and absent from the others.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from p2p_sim.analysis.privacy.attack.one_run import Guesses, right_and_wrong, several_targets
from p2p_sim.analysis.privacy.attack.power import ERROR
from p2p_sim.analysis.privacy.statement.bound import PrivacyBound, together
from p2p_sim.attacks.faulty_network import PILOT_SEED
from p2p_sim.attacks.local_run import frequent_pair
from p2p_sim.attacks.one_run import HELD_OUT_SEED
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.base.threads import one_thread
from p2p_sim.mechanisms.dp_sgd import DpSgdMechanism
from p2p_sim.mechanisms.outcome import ModelRelease
from p2p_sim.population.population import Population
from p2p_sim.replicate.case import Case
from p2p_sim.replicate.run import prepare

Floats = NDArray[np.float64]
SHARES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Of the targets, that may be guessed."""
REFERENCES = 8
"""Models of other runs, whose mean is what is said of a user without her."""
SMALL = 0.01
"""δ of the test, as a share of the error: every target may be revealed with probability δ, which no guess tells from an
attack, so that nothing is proved at a δ above the error."""
LARGEST = 50.0
APART = 10
"""Users for each target: the more of them, the less the targets hide each other, but the more runs it takes."""
_TINY = 1e-30


@dataclass(frozen=True)
class ModelAudit:
    """A finished audit of a model.

    scenario: its name; mechanism: its kind; parameters: of it. runs: that were trained; targets: of all runs.
    guesses: what was guessed. bound: the statement, at a δ below the error. epsilon_attacked: what the attack proves of
    ε at that δ.
    epsilon_expected: what a pilot run proved. error: probability that a sound mechanism fails.
    """

    scenario: str
    mechanism: str
    parameters: dict[str, float]
    runs: int
    targets: int
    guesses: Guesses
    bound: PrivacyBound
    epsilon_attacked: float
    epsilon_expected: float
    error: float

    @property
    def passed(self) -> bool:
        """Whether the certified statement is not refused."""
        return self.epsilon_attacked <= self.bound.epsilon_upper


def audit_model(case: Case, trials: int, error: float = ERROR, mechanism: DpSgdMechanism | None = None) -> ModelAudit:
    """Attack the model that a scenario's curator releases.

    Args:
        case: the scenario, whose first replicate has the users. trials: targets of all runs, at least.
        error: probability that a sound mechanism fails.
        mechanism: what is attacked, if it is not what the scenario claims.

    Raises:
        InputError: the mechanism is not DP-SGD.
    """
    ready = prepare(case)
    claimed = ready.mechanism
    if not isinstance(claimed, DpSgdMechanism):
        raise InputError(f"mechanism.kind = {case.scenario.mechanism.kind!r}: an audit of a model needs 'dp_sgd'")
    people, scenario = ready.population, case.scenario
    chosen = np.arange(0, people.num_users, APART)
    runs = max(1, -(-trials // len(chosen)))
    with one_thread():
        attack = _Models(mechanism or claimed, case, people, chosen)
        reference = np.mean([attack.scores(scenario.seed + HELD_OUT_SEED, i)[0] for i in range(REFERENCES)], axis=0)
        delta, targets = max(SMALL * error, claimed.accountant.least_delta), runs * len(chosen)
        pilot = attack.all(scenario.seed + PILOT_SEED, max(1, runs // 5), reference)
        shown = {share: _proved(*pilot, share, delta, error, targets) for share in SHARES}
        best = max(SHARES, key=lambda share: (shown[share][1], _clear(shown[share][0])))
        guesses, proved = _proved(*attack.all(scenario.seed, runs, reference), best, delta, error)
    bound = together(claimed.privacy(people.cluster_sizes[:1], delta))
    kind = scenario.mechanism.kind
    found = (guesses, bound, proved, shown[best][1])
    return ModelAudit(scenario.name, kind, claimed.parameters, runs, targets, *found, error)


@dataclass(frozen=True)
class _Models:
    """Training runs with fresh coins and noise. chosen: (m,), the targets."""

    mechanism: DpSgdMechanism
    case: Case
    people: Population
    chosen: NDArray[np.int64]

    def scores(self, seed: int, run: int) -> tuple[Floats, NDArray[np.bool_]]:
        """(m,) what a run's model says for one class against the other, and (m,) the coins."""
        people, streams = self.people, Streams(seed, run)
        low, high = frequent_pair(people)
        coins = streams.generator("audit-coin").random(len(self.chosen)) < 0.5
        labels = people.labels.copy()
        labels[self.chosen] = np.where(coins, high, low)
        release = self.mechanism.release(replace(people, labels=labels), self.case.scenario.network, streams).release
        assert isinstance(release, ModelRelease)
        pair = np.log(np.maximum(release.predictor.probabilities(people.features[self.chosen])[:, (low, high)], _TINY))
        return np.asarray(pair[:, 1] - pair[:, 0]), coins

    def all(self, seed: int, runs: int, reference: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Scores and coins of several runs, less the reference (m,)."""
        found = [self.scores(seed, run) for run in range(runs)]
        return np.concatenate([score - reference for score, _ in found]), np.concatenate([c for _, c in found])


def _proved(
    scores: Floats, coins: NDArray[np.bool_], share: float, delta: float, error: float, scaled: int | None = None
) -> tuple[Guesses, float]:
    """Guesses of a share of the targets with the largest scores, up and down, and the ε that they prove at δ.

    Args:
        scaled: targets to which the guesses are scaled, for a plan; None: they are taken as they are.
    """
    guessed = max(1, round(share * len(scores)))
    order = np.argsort(-np.abs(scores), kind="stable")[:guessed]
    guesses = right_and_wrong(scores[order] > 0.0, scores[order] <= 0.0, coins[order])
    many = len(scores) if scaled is None else scaled
    if scaled is not None:
        right, wrong = (round(count * scaled / len(scores)) for count in (guesses.right, guesses.wrong))
        guesses = Guesses(right, wrong, max(right + wrong, 1))
    return guesses, proved_epsilon(many, guesses, delta, error)


def _clear(guesses: Guesses) -> float:
    """By how many standard deviations right guesses are more than half."""
    return (guesses.right - guesses.wrong) / math.sqrt(guesses.right + guesses.wrong)


def proved_epsilon(targets: int, guesses: Guesses, delta: float, error: float) -> float:
    """The largest ε, at least 0, up to which every (ε, δ) is refused."""
    low, high = 0.0, LARGEST
    if several_targets(targets, guesses, 0.0, delta) > error:
        return 0.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if several_targets(targets, guesses, middle, delta) <= error else (low, middle)
    return math.floor(low * 1e6) / 1e6
