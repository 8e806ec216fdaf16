"""One replicate on one page: scenario -> streams -> population -> release -> privacy, risk -> row."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from analysis.privacy.bound import PrivacyBound
from analysis.privacy.paper import lemma9_epsilon, theorem3
from p2p_sim.learning.metrics import assess, population_heterogeneity
from p2p_sim.mechanisms.interface import LabelRelease, Outcome
from p2p_sim.mechanisms.label_exchange import LabelExchangeMechanism
from p2p_sim.population.build import build_population
from p2p_sim.population.files import checksum
from p2p_sim.population.population import Population
from p2p_sim.protocol.transcript import Transcript
from p2p_sim.scenario import MODEL_VERSION, Scenario
from p2p_sim.streams import Streams

Row = dict[str, Any]


@dataclass(frozen=True)
class Exchanged:
    """A replicate up to the release."""

    population: Population
    mechanism: LabelExchangeMechanism
    outcome: Outcome


@dataclass(frozen=True)
class Result:
    """A finished replicate.

    release: the noisy data set; population: its users, stored cluster by cluster.
    privacy: the learner's bound for each cluster, in the population's order.
    row: the flat result; transcript: what the observers saw, if it was recorded.
    """

    release: LabelRelease
    population: Population
    privacy: tuple[PrivacyBound, ...]
    row: Row
    transcript: Transcript | None = None


def data_directory(data_dir: Path | None = None) -> Path | None:
    """The directory of data files: the argument, else the environment variable P2P_SIM_DATA, else none."""
    if data_dir is not None:
        return data_dir
    named = os.environ.get("P2P_SIM_DATA")
    return Path(named) if named else None


def identity(scenario: Scenario, data_dir: Path | None = None) -> str:
    """The scenario's content hash, its data files' checksums included."""
    paths = scenario.population.files(scenario.places(data_directory(data_dir)))
    return scenario.content_hash(checksum(path) for path in paths)


def exchange(scenario: Scenario, replicate: int = 0, data_dir: Path | None = None, record: bool = False) -> Exchanged:
    """Run one replicate up to the release; `record` keeps the transcript (event engine)."""
    streams = Streams(scenario.seed, replicate)
    places = scenario.places(data_directory(data_dir))
    with threadpool_limits(1):
        population = build_population(scenario.population, scenario.clusters, places, streams)
        mechanism = scenario.mechanism.build(
            population.cluster_sizes,
            population.num_classes,
            scenario.privacy.delta,
            scenario.engine,
            may_drop=scenario.network.request_timeout_s is not None,
        )
        outcome = mechanism.release(population, scenario.network, streams, record)
    return Exchanged(population, mechanism, outcome)


def run(scenario: Scenario, replicate: int = 0, data_dir: Path | None = None, record: bool = False) -> Result:
    """Run one replicate to the end.

    Args:
        scenario: what to run.
        replicate: its index; the same index gives the same numbers on every machine with the same libraries.
        data_dir: where data files are; default: the environment variable P2P_SIM_DATA.
        record: keep the transcript (event engine).
    """
    done = exchange(scenario, replicate, data_dir, record)
    population, release = done.population, done.outcome.release
    with threadpool_limits(1):
        sizes, where = np.unique(population.cluster_sizes, return_inverse=True)
        bounds = done.mechanism.privacy(sizes, scenario.privacy.delta)
        learner = scenario.learner
        private = learner.fit_release(population.features, release, population.num_classes)
        nonprivate = learner.fit(population.features, population.labels, population.num_classes)
        risk = assess(population, private, nonprivate)
    row = {
        "scenario": identity(scenario, data_dir)[:16],
        "model_version": MODEL_VERSION,
        "replicate": replicate,
        "engine": scenario.engine,
        **_setting(scenario, done),
        **_privacy(done.mechanism, sizes, bounds, population.num_classes),
        "submissions": len(release),
        "effective_sampling_rate": len(release) / population.num_users,
        **asdict(risk),
        **_traffic(done.outcome),
    }
    return Result(release, population, tuple(bounds[i] for i in where), row, done.outcome.transcript)


def _setting(scenario: Scenario, done: Exchanged) -> Row:
    """What was asked for and what the population turned out to be."""
    population, mechanism = done.population, done.mechanism
    phi, basis = population_heterogeneity(population)
    return {
        "population": scenario.population.kind,
        "mechanism": scenario.mechanism.kind,
        "flip_prob": mechanism.randomizer.flip_prob,
        "sampling_rate": mechanism.sampling_rate,
        "num_users": population.num_users,
        "num_clusters": len(population.cluster_sizes),
        "min_cluster_size": int(population.cluster_sizes.min()),
        "max_cluster_size": int(population.cluster_sizes.max()),
        "heterogeneity": phi,
        "heterogeneity_basis": basis,
    }


def _privacy(
    mechanism: LabelExchangeMechanism,
    sizes: np.ndarray[Any, Any],
    bounds: list[PrivacyBound],
    num_classes: int,
) -> Row:
    """The worst cluster's figures: a user is protected at least this well, whichever her cluster."""
    worst = max(bounds, key=lambda bound: bound.epsilon_upper)
    alpha, theta = mechanism.randomizer.flip_prob, mechanism.sampling_rate
    lemma9 = [lemma9_epsilon(int(n), alpha, theta, worst.delta) if num_classes == 2 else None for n in sizes]
    printed = theorem3(int(sizes.min()), theta) if num_classes == 2 else None
    covered = printed is not None and alpha >= printed.flip_prob and worst.delta >= printed.delta
    return {
        "observer": worst.observer,
        "adjacency": worst.adjacency,
        "delta": worst.delta,
        "epsilon_lower": max(bound.epsilon_lower for bound in bounds),
        "epsilon_upper": worst.epsilon_upper,
        "epsilon_best_cluster": min(bound.epsilon_upper for bound in bounds),
        "basis": worst.basis,
        "epsilon_local": mechanism.randomizer.local_epsilon,
        "epsilon_paper_lemma9": None if None in lemma9 else max(e for e in lemma9 if e is not None),
        "epsilon_paper_theorem3": printed.epsilon if covered and printed is not None else None,
    }


def _traffic(outcome: Outcome) -> Row:
    """Counts of the event engine; None where no messages were simulated."""
    traffic = outcome.traffic
    return {
        "protocol_events": traffic.protocol_events if traffic else None,
        "late_replies": traffic.late_replies if traffic else None,
        "completion_time_s": traffic.completion_time_s if traffic else None,
    }
