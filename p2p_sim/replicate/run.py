"""One replicate, from users to a row of results: preparation, exchange, privacy bounds and learning."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from p2p_sim.base import (
    InputError,
    RunFailed,
    axes_of_matplotlib,
    bound_text,
    card,
    count,
    count_of,
    one_thread,
    optional_path,
)
from p2p_sim.exchange import Transcript
from p2p_sim.learning import AccuracyEstimate, population_heterogeneity, probabilities_of, validated
from p2p_sim.mechanisms import Accounted, DensityRelease, Deployment, Outcome, Predictor, Release, Setup
from p2p_sim.network import Network, cluster_of
from p2p_sim.population import People, Population
from p2p_sim.privacy import OnePoint, PrivacyBound, RunRelease, Terms
from p2p_sim.privacy import statement_record as record
from p2p_sim.replicate.learn import evidence_of, learn
from p2p_sim.replicate.replicate import Replicate, check_memory, scenario_of
from p2p_sim.replicate.row import Row, StatedRow, advantage_columns, row_of
from p2p_sim.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Prepared:
    """A replicate's users, mechanism and network, before anything is exchanged."""

    population: Population
    mechanism: Deployment
    network: Network


@dataclass(frozen=True)
class Completed:
    """A replicate's users, mechanism and outcome, before ε is computed and a model is learned."""

    population: Population
    mechanism: Deployment
    outcome: Outcome


@dataclass(repr=False)
class Result:
    """The result of one replicate.

    release: the noisy data set, or a model. population: the users, stored cluster by cluster.
    privacy: the learner's bound for each cluster, in the population's order.
    row: the flat result. Its keys are the columns of `load_results`.
    terms: the privacy statement behind each column of ε in the row, without the numbers.
    transcript: what the observers saw, if it was recorded.
    case: the replicate. exchanged: users, mechanism and outcome, without records of the network.
    """

    release: Release
    population: Population
    privacy: tuple[PrivacyBound, ...]
    row: Row
    terms: Terms
    transcript: Transcript | None = None
    case: Replicate | None = None
    exchanged: Completed | None = None

    @property
    def epsilon(self) -> PrivacyBound:
        """The learner's bound in the worst cluster: its `epsilon_upper`, δ, observer and conditions."""
        return max(self.privacy, key=lambda bound: bound.epsilon_upper)

    @property
    def accuracy(self) -> float | None:
        """Share of labels that the private model predicts correctly; None if it predicts no classes."""
        error_rate = self.row["error_rate"]
        return None if error_rate is None else 1.0 - float(error_rate)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field that has no value yet. For any other name, an InputError is raised.

        After construction all fields have values, so none can be changed.
        """
        if name in vars(self) or name not in self.__dataclass_fields__:
            raise InputError(f"{name}: a result is frozen; dataclasses.replace(result, {name}=...) makes another")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        """The result in one line."""
        return f"Result({', '.join(f'{name} {text}' for name, text in self._summary())})"

    def _repr_html_(self) -> str:
        """The result as a small table, for notebooks."""
        return card("Result", self._summary())

    def _summary(self) -> list[tuple[str, str]]:
        """Names and texts of the most important results; `row` has all results."""
        row = self.row
        # the measure of utility: accuracy, the error of predicted numbers, a density's error, or else a density's cells
        name, column = "accuracy", "error_rate"
        if "squared_error" in row:
            name, column = "squared error", "squared_error"
        elif isinstance(self.release, DensityRelease):
            name, column = ("cells", "cells") if row["half_l1"] is None else ("half-L1", "half_l1")
        private, nonprivate = (
            None if row[key] is None else f"{1.0 - row[key]:.4f}" if column == "error_rate" else f"{row[key]:.4g}"
            for key in (column, f"nonprivate_{column}")
        )
        return [
            ("replicate", str(row["replicate"])),
            ("users", f"{row['num_users']:,} in {count(row['num_clusters'], 'cluster')}"),
            ("mechanism", row["mechanism"]),
            ("ε", f"≤ {bound_text(row['epsilon_upper'], True)} at δ = {row['delta']:g} ({row['observer']})"),
            (name, f"{private} ({nonprivate} without privacy)" if nonprivate else str(private)),
        ]

    def validated(
        self, predictor: Predictor, clusters: Sequence[int] | None = None, confidence: float = 0.95
    ) -> AccuracyEstimate:
        """The accuracy of a predictor among the users, estimated from the released labels alone, with an interval.

        Args:
            predictor: an object with a method `probabilities`. It must not have learned from the labels used here.
            clusters: numbers of the clusters whose labels are used; default: all.
            confidence: the confidence of the interval, between 0 and 1.

        Raises:
            InputError: the release says nothing about accuracy, the network has faults, or there are adversaries. Or a
                cluster does not exist, or the result was not made by `run`.
        """
        if self.case is None or self.exchanged is None:
            raise InputError("validation: needs a result that p2p_sim.run has made")
        people, offsets = self.exchanged.population, self.exchanged.population.cluster_offsets
        evidence = evidence_of(self.case, people, self.exchanged.mechanism, self.exchanged.outcome)
        home = cluster_of(offsets)
        predicted = probabilities_of(predictor, people.features, home).argmax(axis=1)
        if clusters is None:
            return validated(predicted, evidence, offsets, confidence)
        chosen = np.unique(np.asarray(clusters, dtype=np.int64))
        if not chosen.size or chosen[0] < 0 or chosen[-1] >= len(offsets) - 1:
            raise InputError(f"clusters: must be numbers from 0 to {len(offsets) - 2}, at least one")
        sizes = np.concatenate([[0], np.cumsum(np.diff(offsets)[chosen])])
        return validated(predicted[np.isin(home, chosen)], evidence.within(chosen, offsets), sizes, confidence)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw accuracy (or excess risk, if the law is known) against every ε that could be stated for the result.

        Args:
            ax: matplotlib axes to draw on; default: new ones.
        """
        import pandas as pd

        from p2p_sim.figures import draw_privacy_utility, legend_inside, on_axes

        with on_axes(axes_of_matplotlib("ax", ax)) as axes:
            draw_privacy_utility(axes, pd.DataFrame([self.row]))
            if ax is None:
                axes.set_title(
                    f"{self.row['mechanism'].replace('_', ' ')}: one result, and the ε one could state for it"
                )
                axes.figure.legend(loc="outside lower left", fontsize=9)
            else:
                legend_inside(axes)
        return axes


def run(
    scenario: Scenario | str | Path, replicate: int = 0, data_dir: str | Path | None = None, record: bool = False
) -> Result:
    """Run one replicate to the end.

    Args:
        scenario: a scenario, the path of its file, or the name of a shipped scenario.
        replicate: the replicate's index; the same index gives the same numbers on every machine with the same
        libraries.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        record: whether to keep the transcript of messages, which engine = "vectorised" does not have.

    Raises:
        InputError: an argument is of a wrong type, or the scenario cannot be run; the message is one line.
    """
    import pandas as pd

    from p2p_sim.measures.point_means import derived

    chosen = scenario_of(scenario)
    case = Replicate(chosen, count_of("replicate", replicate, 0), optional_path("data_dir", data_dir))
    exchanged = exchange(case, record)
    people, outcome = exchanged.population, exchanged.outcome
    stated, bounds = measure(case, people, exchanged.mechanism, outcome)
    # columns that are computed from other columns, as in data frames of results; None for a missing value
    [whole] = derived(pd.DataFrame([stated.row])).to_dict("records")
    more = {str(key): None if pd.isna(value) else value for key, value in whole.items() if key not in stated.row}
    lean = dataclasses.replace(outcome, transcript=None, arrival_s=None, realised=None)
    return Result(
        cast(Release, outcome.release), people, bounds, stated.row | more, stated.terms,
        transcript=outcome.transcript, case=case, exchanged=dataclasses.replace(exchanged, outcome=lean),
    )  # fmt: skip


def release(
    scenario: Scenario | str | Path,
    replicate: int = 0,
    data_dir: str | Path | None = None,
    at_delta: float = 1e-8,
) -> RunRelease:
    """A replicate's release, as `p2p_sim.privacy.compose` takes it to add up ε over releases about the same users.

    The replicate is run for this. The result has the release's accountant, which computes ε, and three numbers: seed,
    replicate and noise salt. Releases with the same three numbers share their noise.

    Args:
        scenario: a scenario, the path of its file, or the name of a shipped scenario. Scenarios that differ in
        `noise_salt` have the same users and fresh noise. replicate: the replicate's index. data_dir: where data files
        are; default: the environment variable P2P_SIM_DATA. at_delta: δ at which ε is stated if the mechanism has no
        accountant, which would give ε at any δ. Then only this statement (ε, δ) is composed.

    Raises:
        InputError: an argument is of a wrong type, the scenario cannot be run, or it states no finite ε.
    """
    case = Replicate(scenario_of(scenario), count_of("replicate", replicate, 0), optional_path("data_dir", data_dir))
    ran, completed = case.scenario, exchange(case)
    mechanism, sizes = completed.mechanism, completed.population.cluster_sizes
    situation = ran.situation(completed.population.num_classes)
    accountant = mechanism.accountant_of(completed.outcome, sizes, situation)
    if accountant is None:
        account = mechanism.account(completed.outcome, sizes, situation, at_delta)
        stated = account.statements["epsilon_upper"]
        if not isinstance(stated, PrivacyBound) or math.isinf(stated.epsilon_upper):
            raise InputError(f"{ran.name}: states no finite ε at δ = {at_delta:g}")
        accountant = OnePoint(stated)
    return RunRelease(accountant, ran.seed, case.replicate, ran.noise_salt)


def prepare(case: Replicate) -> Prepared:
    """Draw the users of a replicate, fix the mechanism's parameters for these users, and open the network.

    The result has the users (`population`), the mechanism and the network.
    """
    scenario = case.scenario
    scenario.learner.check_installed()
    check_memory(scenario)
    with one_thread():
        people = case.people()
        return Prepared(people, *set_up(case, people))


class RunSurroundings(NamedTuple):
    """A mechanism with parameters fixed for a replicate's users, and the users' network."""

    mechanism: Deployment
    network: Network


def set_up(case: Replicate, people: People) -> RunSurroundings:
    """The mechanism with parameters fixed for the given users, and the users' network, ready for an exchange.

    A mechanism that asks for the clusters' heterogeneity φ gets φ here, though φ depends on true labels. φ is the mean
    L1 distance of a user's label distribution from her cluster's.

    Args:
        case: the replicate, which names mechanism and network. people: its users, already drawn.
    """
    scenario = case.scenario
    setup = Setup(
        people.cluster_sizes,
        people.num_classes,
        delta=scenario.privacy.delta,
        engine=scenario.engine,
        adversaries=scenario.adversaries,
        values=people.values,
    )
    settled = scenario.mechanism.beside(scenario.learner)
    # an oracle's value depends on true labels; the row's column `oracle` shows that the mechanism asks for one
    if settled.asks_oracle:
        settled = settled.with_oracle_values(population_heterogeneity(people)[0])
    mechanism = settled.deployed(setup)
    nodes = mechanism.nodes(people) if isinstance(people, Population) else people
    return RunSurroundings(mechanism, Network.open(scenario.network, nodes, case.streams, case.places))


def exchange(case: Replicate, record: bool = False) -> Completed:
    """Run a replicate up to its release, before ε is computed and anything is learned.

    Args:
        case: the replicate. record: whether the transcript of messages is kept.
    """
    ready = prepare(case)
    with one_thread():
        outcome = ready.mechanism.release_on(ready.network, ready.population, record)
    return Completed(ready.population, ready.mechanism, outcome)


class MeasuredRun(NamedTuple):
    """The row of a release with its statements, and the learner's bound for each cluster."""

    stated: StatedRow
    privacy: tuple[PrivacyBound, ...]


def measure(case: Replicate, people: People, mechanism: Deployment, outcome: Outcome) -> MeasuredRun:
    """Compute the privacy bounds of a release, learn from it, and collect all results in the replicate's row.

    Args:
        case: the replicate. people: its users. mechanism: its mechanism, with parameters fixed. outcome: the result of
        its run.
    """
    with one_thread():
        accounted = account(case, people, mechanism, outcome)
        learned = learn(case, people, mechanism, outcome)
        guessed = advantage_columns(case, people, mechanism, outcome, accounted)
    terms = record.terms(accounted.statements, case.scenario.mechanism_claimed_by)
    row = row_of(
        case, (people, mechanism), outcome,
        accounted=accounted, learned=learned, guesses=guessed, statement=record.identifier(terms),
    )  # fmt: skip
    return MeasuredRun(StatedRow(row, terms), accounted.learner)


def account(case: Replicate, people: People, mechanism: Deployment, outcome: Outcome) -> Accounted:
    """The privacy bounds of a release: for the learner in each cluster, and for other observers.

    Raises:
        RunFailed: a plug-in states no bound for the learner, or a bound with another adjacency than the plug-in
        declares.
    """
    scenario = case.scenario
    situation = scenario.situation(people.num_classes)
    sizes, delta = people.cluster_sizes, scenario.privacy.delta
    accounted = mechanism.account(outcome, sizes, situation, delta)
    learner = accounted.statements["epsilon_upper"]
    if not isinstance(learner, PrivacyBound):
        raise RunFailed(f"mechanism.kind = {scenario.mechanism.kind!r}: its bound for the learner is no PrivacyBound")
    if not learner.conditions:  # a plug-in may state conditions in its configuration alone
        learner = dataclasses.replace(learner, conditions=scenario.mechanism.conditions)
    adjacency = scenario.mechanism.adjacency
    if learner.adjacency != adjacency:
        raise RunFailed(
            f"mechanism.kind = {scenario.mechanism.kind!r}: its bound is of adjacency {learner.adjacency!r}, but its "
            f"configuration declares adjacency = {adjacency!r}"
        )
    return dataclasses.replace(accounted, statements={**accounted.statements, "epsilon_upper": learner})
