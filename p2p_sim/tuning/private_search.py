"""Private selection as a search: independent draws of settings, fresh noise for each, a private score, one winner."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from cachetools import LRUCache, cached

from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.mechanism import Setup
from p2p_sim.mechanisms.outcome import Outcome, Tally
from p2p_sim.privacy.accountant import Accountant
from p2p_sim.privacy.bound import PrivacyBound
from p2p_sim.privacy.composition import Composition
from p2p_sim.privacy.rivals.noisy_score import NoisyScore
from p2p_sim.privacy.rivals.private_selection import Selection
from p2p_sim.privacy.rivals.selection_run_laws import RunLaw, TruncatedNegativeBinomial
from p2p_sim.privacy.worst_of_several import WorstOf
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.selection_scores import row_scored
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.tasks import Batch, Done, done
from p2p_sim.tuning.search_space import Settings, Space
from p2p_sim.tuning.trial_runs import scenario_with

FIRST_RUN = 1_000_000
"""Index of the replicate of the first run of a selection: its users are those of replicate 0, its noise is its own."""
SCORE_SHARE = 0.1
"""ε of the score, as a share of the ε of the whole selection."""
MOST_SETTINGS = 256
_STEPS = 12
TARGET = "mechanism.target_epsilon"
_NOTHING = Outcome(Tally(np.zeros((0, 0), dtype=np.int64)))


@dataclass(frozen=True)
class PrivateSearchPlan:
    """A private selection whose price is known before it begins.

    candidates: scenarios of all settings, each with the same users. law: of the number of runs. epsilon: the largest ε
    allowed for the whole. score_scale: of the noise on the number of right answers. run_epsilon: the ε that each run's
    mechanism is calibrated to. bound: of the whole selection, score and choice included.
    """

    candidates: tuple[Scenario, ...]
    law: RunLaw
    epsilon: float
    score_scale: float
    run_epsilon: float
    bound: PrivacyBound

    @cached_property
    def calibrated(self) -> tuple[Scenario, ...]:
        """The candidates with the noise of a run."""
        return tuple(one.replace(**{TARGET: self.run_epsilon}) for one in self.candidates)

    def runs(self, seed: int, replicate: int = 0) -> list[int]:
        """The candidate of each run, drawn alike and independently; how many runs there are follows the law."""
        rng = np.random.default_rng([seed, replicate, 0x5E1EC7])
        return [int(place) for place in rng.integers(len(self.candidates), size=self.law.draw(rng))]


def planned(
    candidates: Sequence[Scenario], epsilon: float, mean_runs: float, data_dir: Path | None = None
) -> PrivateSearchPlan:
    """Calibrate the noise of one run so that the whole selection has at most this ε at the scenarios' δ.

    A run trains and scores on the same users, so it pays for both. It is accounted for as the worst of all candidates.

    Args:
        candidates: at least one; each takes `mechanism.target_epsilon`. mean_runs: E K, above 1; K has the logarithmic
            law. data_dir: where data files are.

    Raises:
        InputError: a mechanism without a curator or a target, or no noise is enough.
    """
    if mean_runs <= 1.0:
        raise InputError(f"--trials {mean_runs:g}: is the mean number of runs of a private selection; must be above 1")
    law, scale = TruncatedNegativeBinomial.of_mean(mean_runs, 0.0), 1.0 / (SCORE_SHARE * epsilon)
    low, high, found = epsilon / 100.0, epsilon, None
    for _ in range(_STEPS):
        middle = float(f"{(low * high) ** 0.5:.4g}")
        bound = _whole(tuple(candidates), middle, scale, law, data_dir)
        if bound.epsilon_upper <= epsilon:
            low, found = middle, (middle, bound)
        else:
            high = middle
    if found is None:
        raise InputError(f"--epsilon {epsilon:g}: too small for a private selection with {mean_runs:g} runs on average")
    return PrivateSearchPlan(tuple(candidates), law, epsilon, scale, *found)


def _whole(
    candidates: tuple[Scenario, ...], run_epsilon: float, scale: float, law: RunLaw, data_dir: Path | None
) -> PrivacyBound:
    each: dict[Accountant, None] = {}
    for one in candidates:
        scenario = one.replace(**{TARGET: run_epsilon})
        each[_accountant(scenario.model_dump_json(exclude={"learner"}), scenario, data_dir)] = None
    one_run = Composition((WorstOf(tuple(each)), NoisyScore(scale)), (1, 1))
    return Selection(one_run, law).epsilon(candidates[0].privacy.delta)


@cached(LRUCache(4096), key=lambda text, scenario, data_dir: (text, scenario.folder, data_dir))
def _accountant(text: str, scenario: Scenario, data_dir: Path | None) -> Accountant:
    """The accountant of a mechanism whose users are those of replicate 0; `text` is all that it depends on."""
    people = Replicate(scenario, data_dir=data_dir).people()
    setup = Setup(
        people.cluster_sizes, people.num_classes, scenario.privacy.delta, scenario.engine, scenario.adversaries
    )
    if scenario.mechanism.asks_oracle:
        raise InputError("--look curator: a parameter follows from true labels, and no ε counts that; give its value")
    mechanism = scenario.mechanism.built(setup)
    if mechanism.trust != "curator":
        raise InputError(
            f"--look curator: mechanism.kind = {scenario.mechanism.kind!r} has no curator who holds true labels and "
            "could score runs; choose released or public"
        )
    found = mechanism.accountant_of(_NOTHING, people.cluster_sizes, scenario.situation(people.num_classes))
    if found is None:
        raise InputError(f"--look curator: mechanism.kind = {scenario.mechanism.kind!r} states ε at one δ only")
    return found


def candidates_of(base: Scenario, space: Space) -> list[Settings]:
    """All settings of a space of lists.

    Raises:
        InputError: a range, a key of the noise or too many settings; one line.
    """
    if "target_epsilon" not in type(base.mechanism).model_fields:
        raise InputError(f"--look curator: mechanism.kind = {base.mechanism.kind!r} takes no mechanism.target_epsilon")
    for one in space.dimensions:
        if not one.values:
            raise InputError(f"--look curator: {one.key}: must be a list of values, in the table [values] of --search")
        if one.key.startswith(("population.", "mechanism.target_epsilon", "mechanism.noise")):
            raise InputError(f"--look curator: {one.key}: cannot be chosen; ε fixes the noise, and users stay the same")
    if space.size > MOST_SETTINGS:
        raise InputError(f"--search: has {space.size:g} settings; at most {MOST_SETTINGS} are allowed here")
    every = itertools.product(*(one.values for one in space.dimensions))
    return [dict(zip(space.keys, values, strict=True)) for values in every]


def plan_of(base: Scenario, space: Space, epsilon: float, mean_runs: float, data_dir: Path | None) -> PrivateSearchPlan:
    """The plan of a search."""
    some = [scenario_with(base.replace(**{TARGET: epsilon}), one) for one in candidates_of(base, space)]
    return planned(some, epsilon, mean_runs, data_dir)


def perform_runs(batch: Batch, noise_scale: float) -> list[Done]:
    """Run tasks of a selection; the index of a task's replicate is that of the run's noise."""
    return [done(task, lambda one: row_scored(one.case, noise_scale)) for task in batch]
