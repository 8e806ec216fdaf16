"""The trials of a search. Optuna chooses trials and keeps them in a journal; a stopped search goes on from the journal.

A trial is one setting that the search tries. A sampler chooses trial t from the results of all earlier batches, and
from earlier settings in the batch of t. The sampler's seed is derived from the scenario's seed and t. So the choice
does not depend on the number of workers, on the order of results, or on interruptions.
"""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from p2p_sim.base import InputError, needs, repair_jsonl
from p2p_sim.tuning.search_space import Dimension, Settings, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

JOURNAL = "trials.journal"
FIRST = 10
"""Number of first trials that are drawn at random. The sampler then learns from results."""
_AGAIN, _AT_RANDOM = 12, 24
"""A trial's settings are drawn until they are new. The sampler makes up to 12 draws; then up to 12 are random."""
State = Literal["running", "finished", "stopped", "failed"]
_IN_OPTUNA: dict[State, str] = {"running": "RUNNING", "finished": "COMPLETE", "stopped": "PRUNED", "failed": "FAIL"}
"""The name of each state in Optuna's `TrialState`."""


@dataclass(frozen=True)
class Trial:
    """One setting that was chosen.

    number: from 0, in the order of choice. state: "stopped" if the trial was hopeless before the last replicate,
    "failed" if it cannot be run. loss: the number that the search minimises. violation: by how much the replicates miss
    the goal's condition; at most 0 if the condition is met. Loss and violation are None while the trial runs or if it
    failed. replicates: number of replicates from which loss and violation were computed; 0 if there are no such values.
    """

    number: int
    settings: Settings
    state: State = "running"
    loss: float | None = None
    violation: float | None = None
    replicates: int = 0


class Trials:
    """The trials of one search. path: the path of the journal; None: the trials are kept in memory only."""

    def __init__(self, space: Space, seed: int, path: Path | None = None) -> None:
        try:
            import optuna
        except ImportError:
            raise InputError(f"tune: {needs('Optuna', 'tune')}") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space, self._seed = space, seed
        self._distributions = {dimension.key: _distribution(dimension) for dimension in space.dimensions}
        storage: BaseStorage = optuna.storages.InMemoryStorage() if path is None else _journal(path)
        try:
            self._study = optuna.create_study(storage=storage, study_name="tune", load_if_exists=True)
            self.all = [self._trial(frozen) for frozen in self._study.get_trials()]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: damaged ({error})") from None

    def begin(self, number: int) -> Trial:
        """The trial with this number. A new trial gets settings and is noted as running.

        number: at most the number of the next trial.
        """
        if number < len(self.all):
            return self.all[number]
        first = number - number % self._space.batch  # the choice ignores results of the trial's own batch
        before = [*self.all[:first], *(Trial(running.number, running.settings) for running in self.all[first:])]
        trial = Trial(number, self._choose(number, before))
        self._study.add_trial(self._frozen(trial))
        self.all.append(trial)
        return trial

    def end(self, trial: Trial) -> None:
        """Note how a running trial ended."""
        from optuna.trial import TrialState

        storage, stored = self._study._storage, self._study.get_trials(deepcopy=False)[trial.number]
        if trial.loss is not None:
            storage.set_trial_intermediate_value(stored._trial_id, trial.replicates, trial.loss)
            storage.set_trial_system_attr(stored._trial_id, "constraints:goal", trial.violation)
        values = [trial.loss] if trial.state == "finished" and trial.loss is not None else None
        # the state is set last, since a trial without a final state runs again
        storage.set_trial_state_values(stored._trial_id, TrialState[_IN_OPTUNA[trial.state]], values)
        self.all[trial.number] = trial

    def _choose(self, number: int, before: Sequence[Trial]) -> Settings:
        """The settings of a new trial: the first of up to 24 draws that no earlier trial has, else the last draw.

        Args:
            number: the trial's number, from 0. before: the earlier trials; trials of the same batch have no results.
        """
        tried = {_key(trial.settings) for trial in before}
        for attempt in range(_AT_RANDOM):
            settings = self._drawn(number, attempt, before)
            if _key(settings) not in tried:
                break
        return settings

    def _drawn(self, number: int, attempt: int, before: Sequence[Trial]) -> Settings:
        """One draw of settings for a trial. The sampler draws, given the results of the trials `before`. Draws are
        random instead for the first ten trials, and after twelve draws for one trial. Equal arguments give equal draws.

        Args:
            number: the trial's number, from 0. attempt: number of earlier draws for this trial; it changes the random
            numbers. before: the earlier trials.
        """
        import optuna

        text = f"tune {self._seed} {number} {attempt}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        at_random = number < FIRST or attempt >= _AGAIN
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some options of the sampler are marked as new
            sampler = (
                optuna.samplers.RandomSampler(seed)
                if at_random
                else optuna.samplers.TPESampler(seed=seed, n_startup_trials=FIRST, multivariate=True)
            )
            study: Study = optuna.create_study(sampler=sampler)
            if not at_random:
                study.add_trials([self._frozen(trial) for trial in before])
            drawn = study.ask(self._distributions)
        return self._settings(drawn.params)

    def _frozen(self, trial: Trial) -> "FrozenTrial":
        """A trial in the form that Optuna stores. The loss becomes an intermediate value; if all replicates ran, it is
        also the trial's value. The violation of the goal's condition becomes a constraint.
        """
        from optuna.trial import TrialState, create_trial

        measured = trial.loss is not None and trial.violation is not None
        params = {key: trial.settings[key] for key in self._space.keys}
        for dimension in self._space.dimensions:
            if _ordered(dimension):  # Optuna stores a number's index in the sorted list
                params[dimension.key] = sorted(dimension.values).index(params[dimension.key])
        return create_trial(
            state=TrialState[_IN_OPTUNA[trial.state]],
            value=trial.loss if trial.state == "finished" else None,
            params=params,
            distributions=self._distributions,
            intermediate_values={trial.replicates: float(trial.loss or 0.0)} if measured else {},
            constraints={"goal": float(trial.violation or 0.0)} if measured else None,
        )

    def _trial(self, frozen: "FrozenTrial") -> Trial:
        """A trial read from Optuna's `FrozenTrial`. A trial that was still running or has failed has no result."""
        settings = self._settings(frozen.params)
        state: State = next((own for own, name in _IN_OPTUNA.items() if name == frozen.state.name), "running")
        if state in ("running", "failed"):
            return Trial(frozen.number, settings, state)
        replicates, loss = max(frozen.intermediate_values.items())
        violation = frozen.constraints["goal"]
        return Trial(frozen.number, settings, state, loss=loss, violation=violation, replicates=replicates)

    def _settings(self, params: dict[str, Any]) -> Settings:
        return {dimension.key: _value(dimension, params[dimension.key]) for dimension in self._space.dimensions}


def _journal(path: Path) -> "BaseStorage":
    """Optuna's journal in a file. A line that a killed run left half written is cut off."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    class Held(JournalFileOpenLock):
        """A lock that does nothing, since the results directory is locked already."""

        def acquire(self) -> bool:
            return True

        def release(self) -> None:
            return None

    repair_jsonl(path)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=Held(str(path))))


def _distribution(dimension: Dimension) -> "BaseDistribution":
    """The distribution from which Optuna draws a dimension.

    For a list of numbers, an index of the sorted list is drawn. For any other list, one of its values is drawn.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    values, low, high = dimension.values, dimension.low, dimension.high
    if values:
        return IntDistribution(0, len(values) - 1) if _ordered(dimension) else CategoricalDistribution(values)
    if dimension.whole:
        return IntDistribution(int(low), int(high), log=dimension.log)
    return FloatDistribution(low, high, log=dimension.log)


def _ordered(dimension: Dimension) -> bool:
    """Whether a dimension is a list of numbers alone. The sampler may interpolate such a list."""
    return bool(dimension.values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in dimension.values
    )


def _value(dimension: Dimension, drawn: Any) -> Any:
    """A dimension's value for a draw of Optuna. A continuous value is rounded to the six digits that tables show.

    drawn: a draw from `_distribution`; for a list of numbers, an index of the sorted list.
    """
    if dimension.values:
        return sorted(dimension.values)[drawn] if _ordered(dimension) else drawn
    return drawn if dimension.whole else min(max(float(f"{drawn:.6g}"), dimension.low), dimension.high)


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)
