"""Clusterings with constraints on size: every user is in a cluster, none too small, and labels take no part."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

import p2p_sim
from analysis import clusterings as clusterings
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.population import clustering
from p2p_sim.population.clustering import AgglomerativeClusters, BalancedClusters, HdbscanClusters, KMeansClusters
from p2p_sim.population.population import Examples
from p2p_sim.replicate.replicate import Replicate

KINDS = [AgglomerativeClusters(count=12, min_size=30), HdbscanClusters(min_size=30),
         BalancedClusters(count=12, min_size=30), KMeansClusters(count=12, min_size=30, minibatch=True)]  # fmt: skip


def users(count: int = 600, blobs: int = 5) -> Examples:
    """Users in blobs of unequal size, with some far from all of them."""
    rng = np.random.default_rng(5)
    of = np.minimum(rng.geometric(0.4, count) - 1, blobs - 1)
    features = 20.0 * rng.normal(size=(blobs, 3))[of] + rng.normal(size=(count, 3))
    features[::40] *= 4.0
    return Examples(features, (rng.random(count) < 0.5).astype(np.uint8))


@pytest.mark.parametrize("clusters", KINDS, ids=lambda c: c.kind)
def test_all_users_are_in_clusters_that_are_large_enough(clusters):
    people = users()
    cluster = clusters.assign(people, Streams(1, 0))
    sizes = np.bincount(cluster)
    assert cluster.shape == (600,)
    assert cluster.dtype == np.int64
    assert len(sizes) > 1
    assert sizes.min() >= 30
    assert sizes.sum() == 600
    assert np.array_equal(cluster, clusters.assign(people, Streams(1, 0)))


@pytest.mark.parametrize("clusters", KINDS, ids=lambda c: c.kind)
def test_labels_take_no_part(clusters):
    people = users()
    other = dataclasses.replace(people, labels=1 - people.labels)
    assert np.array_equal(clusters.assign(people, Streams(1, 0)), clusters.assign(other, Streams(1, 0)))


@pytest.mark.parametrize(("count", "total"), [(7, 600), (12, 1001), (3, 2500)])
def test_balanced_sizes_differ_by_at_most_one(count, total):
    sizes = np.bincount(BalancedClusters(count=count).assign(users(total), Streams(1, 0)))
    assert len(sizes) == count
    assert np.ptp(sizes) <= 1
    plain = np.bincount(KMeansClusters(count=count).assign(users(total), Streams(1, 0)))
    assert np.ptp(plain) > 1  # the control: k-means alone is not balanced


def test_balanced_clusters_are_of_similar_users():
    people = users()
    cluster = BalancedClusters(count=6).assign(people, Streams(1, 0))

    def spread(of):
        return sum(((people.features[of == c] - people.features[of == c].mean(axis=0)) ** 2).sum() for c in range(6))

    assert spread(cluster) < 0.7 * spread(np.random.default_rng(3).permutation(cluster))


def test_fewer_balanced_clusters_where_the_minimum_needs_it():
    clusters = BalancedClusters(count=20, min_size=100)
    made = len(np.bincount(clusters.assign(users(), Streams(1, 0))))
    assert made == 6
    assert "20 asked for" in clusters.shortfall(made)
    assert not clusters.shortfall(20)


def test_users_in_no_dense_region_join_the_nearest_cluster():
    rng = np.random.default_rng(1)
    features = np.concatenate([rng.normal(size=(50, 2)), rng.normal(size=(60, 2)) + 100.0, [[70.0, 70.0]]])
    cluster = HdbscanClusters(min_size=20).assign(Examples(features, np.zeros(111, np.uint8)), Streams(1, 0))
    assert cluster[-1] == cluster[60] != cluster[0]
    assert np.array_equal(np.sort(np.bincount(cluster)), [50, 61])


@pytest.mark.parametrize("clusters", KINDS, ids=lambda c: c.kind)
def test_too_few_users_are_refused(clusters):
    with pytest.raises(InputError, match=r"clusters\.(min_size|count) = \d+: there are only 20 users"):
        clusters.assign(users(20), Streams(1, 0))


def test_agglomerative_refuses_more_users_than_memory_holds(monkeypatch):
    monkeypatch.setattr(clustering, "MOST_USERS", 500)
    with pytest.raises(InputError, match="there are 600 users; at most 500 are allowed; 'kmeans' and 'balanced'"):
        KINDS[0].assign(users(), Streams(1, 0))


@pytest.mark.parametrize(
    "kind", ["hdbscan", *(pytest.param(one, marks=pytest.mark.slow) for one in ("agglomerative", "balanced"))]
)
def test_rows_do_not_depend_on_the_number_of_workers(kind):
    tree = {
        "name": "workers", "replicates": 2, "engine": "vectorised", "population": {"kind": "wine"},
        "clusters": {"kind": kind, "min_size": 20}, "mechanism": {"flip_prob": 0.1},
    }  # fmt: skip
    one, two = (p2p_sim.run_all(p2p_sim.Scenario.from_tree(tree), workers=workers) for workers in (1, 2))
    assert one["min_cluster_size"].min() >= 20
    assert one.equals(two)


@pytest.mark.slow
def test_the_study(frame):
    figure, table, costs = clusterings.main(frame)
    assert figure.stat().st_size > 50_000
    points = pd.read_csv(table).set_index(["population", "clusters", "count"])
    assert points["replicates"].unique().tolist() == [2]
    assert points.loc[("synthetic", "given", 0), "heterogeneity"] == pytest.approx(0.2)
    digits = points.loc["digits"]
    assert digits.loc[("balanced", 20), "min_cluster_size"] == 71
    assert (points.xs("balanced", level=1)["moved"] == 0).all()
    merged = digits.loc[[("k-means", 20), ("agglomerative", 20)]]
    assert (merged["moved"] > 0).all()
    assert (merged["num_clusters"] < 20).all()
    assert digits.loc[("HDBSCAN", 0), "moved"] > 0.3
    assert (points["min_cluster_size"] >= clusterings.LEAST).all()
    assert (digits.loc["balanced"]["epsilon_upper"] <= digits.loc["k-means"]["epsilon_upper"]).all()
    cost = pd.read_csv(costs).set_index("clusters")
    assert cost.loc["balanced", "max_cluster_size"] - cost.loc["balanced", "min_cluster_size"] <= 1


def test_the_study_counts_users_whose_own_cluster_is_too_small():
    scenario = clusterings._scenario("digits", "k-means", 40)
    case = Replicate(scenario)
    features = scenario.population.sample(case.places, case.streams).users.features
    seed = Replicate(scenario).streams.integer_seed("clusters")
    own = KMeans(40, n_init=1, random_state=seed).fit_predict(features)
    share = np.mean([np.sum(own == cluster) < clusterings.LEAST for cluster in own])
    assert 0.1 < share < 0.9
    assert clusterings._moved(scenario, 0, None) == pytest.approx(share)
    assert clusterings._moved(clusterings._scenario("digits", "balanced", 20), 0, None) == 0.0
