"""Every privacy column of a row, and the counts beside it, against a plain loop over clusters and users."""

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.mechanisms.exchange_accounting import cluster_privacy, observed
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange, measure
from tests.random_scenarios import random_scenarios, uneven
from tests.reference.realised_row import columns, gains


@pytest.mark.parametrize(("count", "seed"), [(20, 3), pytest.param(2_900, 4, marks=pytest.mark.slow)])
def test_every_column_is_that_of_a_plain_loop(count, seed):
    """Of 2,900 random scenarios over 2,000 have a fault or an adversary, so that the realised network counts."""
    realised = watched = gained = 0
    for scenario in random_scenarios(count, seed):
        case = Replicate(scenario)
        try:
            done = exchange(case)
            row = measure(case, done.population, done.mechanism, done.outcome).stated.row
        except InputError:  # nothing arrived
            continue
        assert row["submissions"] == len(done.outcome.labels)
        assert row["effective_sampling_rate"] == row["submissions"] / row["num_users"]
        if done.outcome.realised is None or done.mechanism.applies(scenario.situation(2)) is None:
            continue  # of an ideal network the statement is another one, with a reference of its own
        realised += 1
        plain = columns(done.outcome.realised, scenario.mechanism.flip_prob, scenario.privacy.delta)
        for name, value in plain.items():
            assert (row[name] is None) == (value is None), (name, row[name], value, scenario.model_dump_json())
            if value is not None:
                assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (name, scenario.model_dump_json())
        watched += plain["epsilon_coalition_upper"] is not None
        people = done.population
        labels = np.split(people.labels, people.cluster_offsets[1:-1])
        for name, value in gains(done.outcome.realised, scenario.mechanism.flip_prob, labels).items():
            # the row's law is coarse, so that it says more; two bounds of an overlay, at other points, may differ by 1%
            assert row[name] >= value * 0.99 - 1e-12, (name, row[name], value, scenario.model_dump_json())
            gained += name == "advantage_uniform" and row[name] <= value * 1.0001
    assert realised > 0.7 * count
    assert watched > 0.2 * count
    assert gained > 0.3 * count  # for half of them nothing is coarse: less than the truth would be seen


def test_a_cluster_that_is_left_out_is_seen():
    """The planted fault: only clusters with a member are looked at, as once for two of the coalition's columns."""
    done = exchange(Replicate(uneven()))
    facts, mechanism = done.outcome.realised, done.mechanism
    clusters = list(cluster_privacy(facts, mechanism.randomizer, 0.1))
    plain = columns(facts, 0.1, 0.1)["epsilon_unmet_upper"]
    assert observed(clusters)["epsilon_unmet_upper"].epsilon_upper == pytest.approx(plain, rel=1e-9)
    some = [cluster for cluster in clusters if cluster.watched]
    assert observed(some)["epsilon_unmet_upper"].epsilon_upper < 0.6 * plain
