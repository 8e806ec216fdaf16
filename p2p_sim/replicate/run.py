"""One replicate on one page: scenario -> streams -> population -> release -> privacy, risk -> row."""

import os
import pickle
from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from analysis.privacy.statement import record
from analysis.privacy.statement.bound import PrivacyBound
from analysis.privacy.statement.domain import Situation
from analysis.privacy.statement.record import Terms
from p2p_sim.base.errors import InputError
from p2p_sim.base.plugins import MECHANISMS, offer_of
from p2p_sim.base.streams import Streams
from p2p_sim.learning.metrics import Risk, assess, exchange_floor, population_heterogeneity
from p2p_sim.mechanisms.exchange_privacy import ClusterPrivacy, cluster_privacy
from p2p_sim.mechanisms.interface import Mechanism, ModelRelease, Outcome, Predictor, Release
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.mechanisms.messages import binary_flip_prob
from p2p_sim.network.network import Network
from p2p_sim.population.build import build_population
from p2p_sim.population.files import checksum
from p2p_sim.population.population import Population
from p2p_sim.protocol.roles import NOBODY
from p2p_sim.protocol.transcript import Transcript
from p2p_sim.replicate import row as rows
from p2p_sim.replicate.cache import Recent
from p2p_sim.replicate.row import Row
from p2p_sim.scenario import MODEL_VERSION, Scenario

_POPULATIONS: Recent[Population] = Recent(budget=2**27)
_NONPRIVATE: Recent[Predictor] = Recent(budget=2**27)
"""Users of the last replicates, and what is learned from them without privacy, for other mechanisms that meet them."""


@dataclass(frozen=True)
class Exchanged:
    """A replicate up to the release."""

    population: Population
    mechanism: Mechanism
    outcome: Outcome


@dataclass(frozen=True)
class Result:
    """A finished replicate.

    release: the noisy data set, or a model; population: its users, stored cluster by cluster.
    privacy: the learner's bound for each cluster, in the population's order.
    row: the flat result; terms: what is said of its columns of ε, under the identifier in its column `statement`.
    transcript: what the observers saw, if it was recorded.
    """

    release: Release
    population: Population
    privacy: tuple[PrivacyBound, ...]
    row: Row
    terms: Terms
    transcript: Transcript | None = None


def identity(scenario: Scenario, data_dir: Path | None = None) -> str:
    """The scenario's content hash, its data files' checksums included."""
    return scenario.content_hash(data_checksums(scenario, data_dir))


def data_checksums(scenario: Scenario, data_dir: Path | None = None) -> tuple[str, ...]:
    """Checksums of the data files that a scenario names."""
    places = scenario.places(data_directory(data_dir))
    return tuple(checksum(path) for path in (*scenario.population.files(places), *scenario.network.files(places)))


@dataclass(frozen=True)
class Prepared:
    """A replicate before anything is exchanged."""

    population: Population
    mechanism: Mechanism
    network: Network


def prepare(scenario: Scenario, replicate: int = 0, data_dir: Path | None = None) -> Prepared:
    """Draw a replicate's users, calibrate the mechanism and open the network."""
    streams = Streams(scenario.seed, replicate)
    places = scenario.places(data_directory(data_dir))
    scenario.learner.check_installed()
    with threadpool_limits(1):
        population = _people(scenario, replicate, places)
        mechanism = scenario.mechanism.informed(lambda: population_heterogeneity(population)[0]).build(
            population.cluster_sizes,
            population.num_classes,
            scenario.privacy.delta,
            scenario.engine,
            scenario.adversaries,
        )
        network = Network.open(scenario.network, mechanism.nodes(population), streams, places)
        return Prepared(population, mechanism, network)


def _key(scenario: Scenario, replicate: int, places: tuple[Path, ...]) -> tuple[Hashable, ...]:
    """What a replicate's users depend on."""
    states = ((path, path.stat()) for path in scenario.population.files(places))
    files = tuple((path, state.st_mtime_ns, state.st_size) for path, state in states)
    people = scenario.population.model_dump_json(), scenario.clusters.model_dump_json()
    return *people, files, scenario.seed, replicate


def _people(scenario: Scenario, replicate: int, places: tuple[Path, ...]) -> Population:
    """A replicate's users, which other mechanisms meet as well."""

    def draw() -> Population:
        return build_population(scenario.population, scenario.clusters, places, Streams(scenario.seed, replicate))

    return _POPULATIONS.get(_key(scenario, replicate, places), draw, lambda people: people.features.nbytes)


def exchange(
    scenario: Scenario, replicate: int = 0, data_dir: Path | None = None, record: bool = False, study: bool = False
) -> Exchanged:
    """Run one replicate up to the release; `record` keeps the transcript, `study` what is known besides labels."""
    ready = prepare(scenario, replicate, data_dir)
    with threadpool_limits(1):
        outcome = ready.mechanism.release_on(ready.network, ready.population, record, study)
    return Exchanged(ready.population, ready.mechanism, outcome)


def run(scenario: Scenario, replicate: int = 0, data_dir: Path | None = None, record: bool = False) -> Result:
    """Run one replicate to the end.

    Args:
        scenario: what to run.
        replicate: its index; the same index gives the same numbers on every machine with the same libraries.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        record: keep the transcript (event engine).
    """
    done = exchange(scenario, replicate, data_dir, record, study=scenario.engine == "events")
    return complete(scenario, replicate, done, data_dir)


def complete(scenario: Scenario, replicate: int, done: Exchanged, data_dir: Path | None = None) -> Result:
    """Account for the privacy of a release, learn from it, and measure what was learned."""
    population, mechanism = done.population, done.mechanism
    with threadpool_limits(1):
        sizes, where = np.unique(population.cluster_sizes, return_inverse=True)
        situation = scenario.situation(population.num_classes)
        clusters = _realised(scenario, done, situation)
        bounds = [c.learner for c in clusters] if clusters else mechanism.privacy(sizes, scenario.privacy.delta)
        stated = rows.statements(scenario.mechanism, mechanism, situation, sizes, bounds, clusters)
        risk = _risk(scenario, done, replicate, done.outcome.release, data_dir)
        honest = _honest_risk(scenario, done, replicate, data_dir)
    terms = record.terms(stated, str(offer_of(MECHANISMS, scenario.mechanism.kind) or ""))
    row = {
        "scenario": identity(scenario, data_dir)[:16],
        "model_version": MODEL_VERSION,
        "replicate": replicate,
        "engine": scenario.engine,
        **rows.setting(scenario, population, mechanism),
        **rows.privacy(stated, bounds),
        **rows.realised_privacy(done.outcome, clusters, stated),
        **rows.submissions(population, done.outcome),
        **asdict(risk),
        "excess_risk_floor": _floor(scenario, population, mechanism) if honest is None else None,
        **rows.damage(risk, honest),
        **rows.network(population, done.outcome),
        **rows.organisations(done.outcome),
        "statement": record.identifier(terms),
    }
    each = tuple(bounds) if clusters else tuple(bounds[i] for i in where)
    return Result(done.outcome.release, population, each, row, terms, done.outcome.transcript)


def _realised(scenario: Scenario, done: Exchanged, situation: Situation) -> list[ClusterPrivacy] | None:
    """Figures for the network as it turned out; None where those that need no network are about this situation."""
    mechanism = done.mechanism
    if (fails := mechanism.applies(situation)) is None:
        return None
    if not isinstance(mechanism, LabelExchangeMechanism):
        raise InputError(f"mechanism.kind = {scenario.mechanism.kind!r}: states no figure here: {fails}")
    outcome, noise, delta = done.outcome, mechanism.randomizer, scenario.privacy.delta
    assert outcome.realised is not None
    return list(cluster_privacy(outcome.realised, noise, delta))


def _floor(scenario: Scenario, population: Population, mechanism: Mechanism) -> float | None:
    """What is left with infinitely many exchanged labels, where that is known."""
    if not isinstance(mechanism, LabelExchangeMechanism):
        return None
    flip_prob = 0.0 if mechanism.debias else binary_flip_prob(mechanism.randomizer)
    if flip_prob is None:
        return None
    return exchange_floor(population, flip_prob, scenario.learner.loss)


def _risk(scenario: Scenario, done: Exchanged, replicate: int, release: Release, data_dir: Path | None) -> Risk:
    population, learner = done.population, scenario.learner.seeded(Streams(scenario.seed, replicate))
    offsets = population.cluster_offsets
    if isinstance(release, ModelRelease):
        private = release.predictor
    else:
        private = learner.fit_release(population.features, release, population.num_classes, offsets)

    def fit() -> Predictor:
        return learner.fit(population.features, population.labels, population.num_classes)

    if not learner.has_reference:
        return assess(population, private, None, learner.loss)
    places = scenario.places(data_directory(data_dir))
    key = (*_key(scenario, replicate, places), learner.model_dump_json())
    nonprivate = _NONPRIVATE.get(key, fit, _bytes)
    return assess(population, private, nonprivate, learner.loss)


def _bytes(predictor: Predictor) -> int:
    """Size of a model: some of scikit-learn's hold all that they learned from."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(predictor, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


def _honest_risk(scenario: Scenario, done: Exchanged, replicate: int, data_dir: Path | None) -> Risk | None:
    """The same replicate with everybody honest; None if that is what was run."""
    if scenario.adversaries == NOBODY:
        return None
    assert isinstance(done.mechanism, LabelExchangeMechanism)
    honest = replace(done.mechanism, adversaries=NOBODY)
    places = scenario.places(data_directory(data_dir))
    outcome = honest.release(done.population, scenario.network, Streams(scenario.seed, replicate), places=places)
    return _risk(scenario, done, replicate, outcome.release, data_dir)


def data_directory(data_dir: Path | None = None) -> Path | None:
    """The directory of data files: the argument, else the environment variable P2P_SIM_DATA, else none."""
    if data_dir is not None:
        return data_dir
    named = os.environ.get("P2P_SIM_DATA")
    return Path(named) if named else None
