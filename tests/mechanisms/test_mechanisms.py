"""Mechanisms side by side: what they release, for whom, and what does not go together."""

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.mechanisms.deployment import STATEMENTS, Setup
from p2p_sim.mechanisms.outcome import LabelRelease, Outcome
from p2p_sim.mechanisms.randomized_response import ShuffledResponseConfig
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.population import Population, shards
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.results.release_export import export_release
from p2p_sim.scenario import OWN_COLUMNS, Scenario

KINDS = {
    "randomized_response": {"target_epsilon": 1.0},
    "shuffled_response": {"target_epsilon": 1.0},
    "cluster_rr": {"target_epsilon": 1.0, "heterogeneity": 0.2},
    "label_exchange": {"target_epsilon": 1.0, "debias": True},
}


def scenario(kind, users=400, **more):
    return Scenario.from_tree(
        {
            "name": "t",
            "engine": "vectorised",
            "population": {"kind": "synthetic", "users": users, "num_clusters": 4},
            "mechanism": {"kind": kind, **KINDS[kind]},
            "learner": {"kind": "table"},
            **more,
        }
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_mechanism_leaves_a_row_with_the_same_columns(kind):
    row = p2p_sim.run(scenario(kind)).row
    assert row["mechanism"] == row["mechanism_kind"] == kind
    assert set(OWN_COLUMNS) | set(STATEMENTS) <= set(row)
    assert 0.0 <= row["epsilon_lower"] <= row["epsilon_upper"] <= 1.0 + 1e-12
    assert row["trust"] == {"cluster_rr": "curator", "shuffled_response": "shuffler"}.get(kind, "nobody")
    assert list(row) == list(p2p_sim.run(scenario("label_exchange")).row)


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_is_that_of_its_parts(kind):
    """Two shards of 50,000 users each, drawn together and apart."""
    offsets = np.array([0, 50_000, 100_000])
    people = Population(np.zeros((100_000, 1)), np.arange(100_000, dtype=np.uint8) % 2, offsets, 2)
    mechanism = scenario(kind).mechanism.deployed(Setup(people.cluster_sizes, 2, 1e-5, "vectorised"))
    ready = prepare(Replicate(scenario(kind)))
    whole = mechanism.release_on(ready.network, people).labels
    parts = [mechanism.release_on(ready.network, people, part=(i, i + 1)) for i in range(len(list(shards(offsets))))]
    joined = Outcome.join(parts).labels
    assert len(parts) == 2
    assert joined.kind == whole.kind
    assert np.array_equal(joined.user, whole.user)
    assert np.array_equal(joined.payload, whole.payload)


class AcrossClusters(ShuffledResponseConfig):
    """Planted bug: shuffles the whole shard."""

    def release(self, labels, features, clusters, streams):
        release = super().release(labels, features, clusters, streams)
        return LabelRelease.of(release.payload[np.random.default_rng(0).permutation(labels.size)])


def shuffled_within(kind):
    """Whether each cluster's noisy labels are those its users drew, in an order that says nothing (1e-9)."""
    offsets = np.arange(0, 40_001, 100)
    labels = np.repeat(np.arange(400, dtype=np.uint8) % 3, 100)
    labels[::100] = 9
    people = Population(np.zeros((40_000, 1)), labels, offsets, 10)
    mechanism = kind(flip_prob=0.0).deployed(Setup(people.cluster_sizes, 10, 1e-5))
    release = mechanism.run(people, NetworkConfig(), Streams(1, 0)).labels
    same = np.sort(release.payload.reshape(400, 100)) == np.sort(labels.reshape(400, 100))
    stayed = int((release.payload[::100] == 9).sum())  # of 400 labels that are unique in their cluster, 4 on average
    return bool(same.all()) and stayed < 25 and bool((np.flatnonzero(release.payload == 9) % 100 > 50).any())


def test_a_shuffler_permutes_within_clusters():
    assert shuffled_within(ShuffledResponseConfig)
    assert not shuffled_within(AcrossClusters)


def test_debiased_exchange_has_the_labels_mean():
    given = scenario("label_exchange", users=40_000).replace(**{"population.heterogeneity": 0.0})
    result = p2p_sim.run(given)
    flip, weights = result.row["flip_prob"], result.release.payload
    assert np.abs(weights.sum(axis=1) - 1.0).max() < 1e-12
    truth = prepare(Replicate(given)).population.labels.mean()
    error = 6.2 * 0.5 / np.sqrt(len(weights)) / (1.0 - 2.0 * flip)  # of a vote, flipped and drawn anew; 1e-9
    assert abs(weights[:, 1].mean() - truth) < 2.0 * error


@pytest.mark.parametrize("kind", ["randomized_response", "shuffled_response", "cluster_rr"])
@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"network": {"loss": 0.1}}, "leave out network.loss"),
        ({"adversaries": {"liars": {"share": 0.1}}}, "adversaries"),
    ],
)
def test_no_faults_where_no_messages_are_simulated(kind, more, text):
    with pytest.raises(InputError, match=f"mechanism.kind = '{kind}'.*{text}"):
        scenario(kind, **{"engine": "events", **more})


def test_a_learner_that_cannot_take_the_release_is_refused_before_anything_runs():
    with pytest.raises(
        InputError, match=r"'logistic_regression': takes hard labels, and mechanism.kind = .* signed ones"
    ):
        scenario("label_exchange", learner={"kind": "logistic_regression"})


def test_signed_weights_are_exported_one_column_a_class(tmp_path):
    lines = export_release(scenario("label_exchange").replace(replicates=1), tmp_path / "r.csv")
    frame = pd.read_csv(tmp_path / "r.csv")
    assert len(frame) == lines
    assert (frame["label_0"] + frame["label_1"]).to_numpy() == pytest.approx(1.0)
