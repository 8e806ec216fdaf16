"""What rows say of guesses: bounds of the accountant, means over users, and what follows from the population."""

import numpy as np
import pytest

import p2p_sim
from p2p_sim.measures.privacy_sentences import population, sentences
from p2p_sim.privacy import Coalition, LabelExchange, advantage
from p2p_sim.privacy.exchange import many_clusters
from p2p_sim.privacy.worst_of_several import WorstOf, coarse_law, largest_deltas
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.row import GUESSES
from p2p_sim.replicate.run import run
from p2p_sim.replicate.streamed import row_alone

TREE = {
    "name": "t",
    "population": {"kind": "synthetic", "users": 1200, "num_clusters": 8},
    "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5},
    "engine": "vectorised",
}


def of(**changes) -> dict:
    return run(p2p_sim.Scenario.from_tree({**TREE, **changes})).row


def test_a_coarse_law_is_never_below_the_accountant():
    models = [LabelExchange(n, 0.1, 0.5) for n in (60, 75, 90)]
    bound = WorstOf(tuple(models)).epsilon(1e-6)
    law = coarse_law(WorstOf(tuple(models)), bound)
    for epsilon in np.linspace(0.0, 2.5, 26):
        assert law.delta(epsilon) >= max(model.delta(epsilon).lower for model in models) * (1.0 - 1e-12)
    assert law.delta(0.0) == pytest.approx(models[0].delta(0.0).upper, rel=0.003)


def test_the_learners_advantages_are_those_of_its_accountant():
    result = run(p2p_sim.Scenario.from_tree(TREE))
    row, people = result.row, result.population
    sizes, shares = (
        people.cluster_sizes,
        [part.mean() for part in np.split(people.labels, people.cluster_offsets[1:-1])],
    )
    exact = [LabelExchange(int(n), 0.1, 0.5) for n in sizes]
    assert row["advantage_uniform"] == pytest.approx(max(advantage(one).upper for one in exact), rel=0.003)
    each = [advantage(one, min(p, 1.0 - p)).upper for one, p in zip(exact, shares, strict=True)]
    assert sizes @ each / sizes.sum() <= row["advantage_cluster"] <= row["advantage_cluster_worst"]
    assert max(each) <= row["advantage_cluster_worst"] <= row["advantage_uniform"]
    assert row["guess_cluster"] == pytest.approx(sizes @ np.maximum(shares, 1.0 - np.array(shares)) / sizes.sum())
    assert row["advantage_local"] == pytest.approx(0.4)
    assert (row["advantage_times"], row["advantage_coalition"]) == (None, None)
    law, point = people.law, people.point
    assert row["guess_model"] == pytest.approx(law.label_distribution[point].max(axis=1).mean())


def test_other_observers_have_columns_where_a_network_is_simulated():
    row = of(engine="events", network={"loss": 0.05}, adversaries={"coalition": {"share": 0.02}})
    assert row["advantage_uniform"] <= row["advantage_coalition"] <= row["advantage_local"] + 1e-12
    assert row["advantage_times"] == row["advantage_uniform"]
    smallest = LabelExchange(int(row["min_cluster_size"]), 0.1, 0.5)
    assert row["advantage_coalition"] >= 0.5 * advantage(Coalition(smallest, 1)).lower


def test_the_noise_alone_counts_where_a_user_passes_on_her_own_label():
    timeout = {"request_timeout_s": 0.2, "on_timeout": {"retry": "redraw", "attempts": 2, "fallback": "own_label"}}
    row = of(engine="events", network={"loss": 0.3, **timeout})
    assert row["own_labels"] > 0
    assert row["advantage_uniform"] == pytest.approx(row["advantage_local"])


@pytest.mark.parametrize(
    "mechanism",
    [
        {"kind": "randomized_response", "flip_prob": 0.2},
        {"kind": "vector_approximation", "target_epsilon": 1.0},
        {"kind": "alibi", "target_epsilon": 1.0},
        {"kind": "rr_with_prior", "target_epsilon": 1.0, "stages": 1},
        {"kind": "shuffled_response", "flip_prob": 0.2},
        {"kind": "cluster_rr", "target_epsilon": 1.0, "heterogeneity": 0.2},
    ],
    ids=lambda mechanism: mechanism["kind"],
)
def test_no_mechanism_tells_more_than_its_epsilon_allows(mechanism):
    row = of(mechanism=mechanism, learner={"kind": "one_vs_rest"})
    assert 0.0 < row["advantage_uniform"] <= np.tanh(row["epsilon_upper"] / 2.0) / 2.0 + row["delta"] + 1e-9
    if row["advantage_local"] is not None:
        assert row["advantage_uniform"] <= row["advantage_local"] + 1e-12
    if mechanism["kind"] == "randomized_response":
        assert row["advantage_uniform"] == pytest.approx(0.3)


def test_ten_classes_have_a_public_model_of_held_out_rows():
    digits = {"kind": "digits", "task": "classes"}
    row = of(
        population=digits, clusters={"kind": "kmeans", "count": 40, "min_size": 5}, learner={"kind": "one_vs_rest"}
    )
    assert 0.9 < row["guess_model"] <= 1.0
    assert row["guess_uniform"] == pytest.approx(0.1)
    assert row["advantage_uniform"] <= row["advantage_local"]
    assert all(row[name] is not None for name in GUESSES if not name.endswith(("times", "coalition")))


def test_users_who_are_drawn_shard_by_shard_have_the_same_figures():
    scenario = p2p_sim.Scenario.from_tree(TREE)
    whole, alone = run(scenario).row, row_alone(Replicate(scenario))[0]
    assert {name: whole[name] for name in GUESSES} == {name: alone[name] for name in GUESSES}


def test_rows_in_sentences():
    import pandas as pd

    rows = pd.DataFrame([of()])
    uniform, cluster = sentences(rows)
    assert uniform.startswith("Of 100 labels, somebody who sees all submissions guesses at most 5")
    assert uniform.endswith("without them 50 (if both labels are equally likely).")
    assert cluster.endswith("(if each label is drawn independently with the shares of its cluster).")
    assert "is no loss of her privacy" in population(rows)
    old = rows.drop(columns=list(GUESSES))
    assert (sentences(old), population(old)) == ([], "")


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("theta", [0.05, 0.5, 1.0])
def test_the_many_clusters_speaks_for_larger_ones(alpha, theta):
    models = [LabelExchange(n, alpha, theta) for n in (12, 13, 19, 40)]
    asked = [0.0, 0.125, 0.5, 1.0, 2.0, 5.0]
    found = many_clusters.deltas([model.setting for model in models], asked)
    worst = [max(model.delta(epsilon).lower for model in models) for epsilon in asked]
    assert found is not None
    assert all(a >= b for a, b in zip(found, worst, strict=True))
    assert found[0] <= 1.02 * worst[0]
    assert all(a <= 3.0 * b for a, b in zip(found, worst, strict=True) if b > 1e-3)
    assert found == largest_deltas(models, asked)


def test_a_bound_that_forgets_how_many_submit_in_larger_clusters_is_caught(monkeypatch):
    """Planted: the larger clusters are given the submissions of the smallest."""
    models = [LabelExchange(n, 0.1, theta) for n, theta in ((12, 0.05), (13, 1.0))]
    wrong = [models[0].setting] * 2
    assert many_clusters.deltas(wrong, [0.25])[0] < models[1].delta(0.25).lower


def test_large_or_unlike_clusters_are_left_to_the_others():
    alike, unlike = LabelExchange(40, 0.1, 0.5), LabelExchange(40, 0.2, 0.5)
    assert many_clusters.deltas([LabelExchange(65, 0.1, 0.5).setting], [0.5]) is None
    assert many_clusters.deltas([alike.setting, unlike.setting], [0.5]) is None
    found = largest_deltas([alike, unlike], [0.0, 0.5])
    assert all(d >= alike.delta(e).lower for e, d in zip((0.0, 0.5), found, strict=True))


@pytest.mark.parametrize("theta", [0.1, 1.0])
def test_clusters_that_are_held_against_a_delta_together_are_below_it(theta):
    models = [LabelExchange(n, 0.1, theta) for n in range(66, 90, 3)]
    settings = [model.setting for model in models]
    for epsilon in (0.0, 0.25):
        worst = max(model.delta(epsilon).lower for model in models)
        assert many_clusters.satisfied(settings, epsilon, 1.01 * worst)
        assert not many_clusters.satisfied(settings, epsilon, 0.999 * worst)
    assert not many_clusters.satisfied([*settings, LabelExchange(80, 0.05, theta).setting], 0.25, 0.5)
