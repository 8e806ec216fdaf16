"""What is learned from the release of one case, and how good it is."""

import pickle
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache, cached

from p2p_sim.learning.learner import Received
from p2p_sim.learning.metrics import Risk, assess, exchange_floor
from p2p_sim.mechanisms.interface import Mechanism
from p2p_sim.mechanisms.outcome import ModelRelease, Predictor, Release
from p2p_sim.population.population import Population
from p2p_sim.replicate.case import KEPT, Case


@dataclass(frozen=True)
class Learned:
    """What was learned from a release.

    risk: of the model that learned from it. honest: of one that learned from the same replicate with everybody honest;
    None if everybody was. floor: excess risk that infinitely many exchanged labels would leave; None where unknown.
    """

    risk: Risk
    honest: Risk | None
    floor: float | None


def learn(case: Case, people: Population, mechanism: Mechanism, release: Release) -> Learned:
    """Learn from a release, and from that of honest users where some were not."""
    risk, honest = _risk(case, people, release), None
    if (followers := mechanism.honest()) is not None:
        outcome = followers.release(people, case.scenario.network, case.streams, places=case.places)
        honest = _risk(case, people, outcome.release)
    alpha = mechanism.remaining_flip_prob if honest is None else None
    floor = None if alpha is None else exchange_floor(people, alpha, case.scenario.learner.loss)
    return Learned(risk, honest, floor)


def _risk(case: Case, people: Population, release: Release) -> Risk:
    learner = case.scenario.learner.seeded(case.streams)
    if isinstance(release, ModelRelease):
        private = release.predictor
    else:
        private = learner.learned(Received(people.features, release, people.num_classes, people.cluster_offsets))
    return assess(people, private, _nonprivate(case, people) if learner.has_reference else None, learner.loss)


def reference_key(case: Case, people: Population) -> tuple[Hashable, ...]:
    """Everything that a model without privacy depends on: the users, and the learner."""
    return *case.people_key, case.scenario.learner.model_dump_json()


def size_of(predictor: Predictor) -> int:
    """Bytes of a model: some of scikit-learn's hold all that they learned from."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(predictor, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


@cached(LRUCache(KEPT, size_of), key=reference_key, lock=Lock())
def _nonprivate(case: Case, people: Population) -> Predictor:
    """The model without privacy; the last ones are kept, since other mechanisms are held against them as well."""
    learner = case.scenario.learner.seeded(case.streams)
    return learner.fit(people.features, people.labels, people.num_classes)
