"""Rows of replicates whose users are drawn shard by shard: byte for byte those of a run that holds all users."""

import json
import tracemalloc

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.exchange import exchange_run
from p2p_sim.exchange.exchange_run import Arrivals
from p2p_sim.learning.learner import Counted, Received
from p2p_sim.mechanisms.exchange_accounting import cluster_privacy, facts_of
from p2p_sim.mechanisms.outcome import Tally
from p2p_sim.population.build import draw_people
from p2p_sim.replicate import learn
from p2p_sim.replicate import replicate as replicates
from p2p_sim.replicate.replicate import Replicate, streams
from p2p_sim.replicate.run import exchange, run
from p2p_sim.replicate.streamed import exchange_streamed, measure_streamed, prepare_streamed, row_alone
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps import split_replicate
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.sweeps.split_replicate import SplitShards
from p2p_sim.sweeps.tasks import Serial, Task, perform

LOSSY = {
    "start_window_s": 1.0,
    "loss": 0.05,
    "request_timeout_s": 0.2,
    "on_timeout": {"retry": "redraw", "attempts": 2, "fallback": "own_label"},
    "deadline_s": 1.2,
}
NETWORKS = {
    "ideal": {},
    "lossy": LOSSY,
    "gossip": {"peers": {"kind": "gossip"}},
    "duplicated": {"duplication": 0.3, "reordering": 0.2, "bandwidth_bps": 1e4, "request_timeout_s": 0.3},
}


def scenario(users=3000, clusters=12, engine="events", learner="logistic_regression", network=None, **mechanism):
    population = {"kind": "synthetic", "users": users, "num_clusters": clusters, "positive": "random"}
    return Scenario.from_tree(
        {
            "name": "t",
            "engine": engine,
            "population": population,
            "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.7, **mechanism},
            "network": network or {},
            "learner": {"kind": learner},
        }
    )


def task(given, replicate=0):
    return Task("0" * 16, replicate, given.model_dump_json(), ".")


@pytest.fixture
def small_shards(monkeypatch):
    """Few users in several shards, more times than are kept, and no model without privacy from a test before."""
    monkeypatch.setattr("p2p_sim.population.population.BLOCK", 700)
    monkeypatch.setattr(exchange_run, "EXACT", 1000)
    learn._nonprivate.cache.clear()


def same_rows(given, replicate=1):
    """Whether a run that holds its users and one that does not have the same row, to the last bit."""
    held = run(given, replicate)
    learn._nonprivate.cache.clear()
    alone, terms = row_alone(Replicate(given, replicate))
    stored = {key: held.row[key] for key in alone}  # a result has columns more, which follow from these
    return json.dumps(alone) == json.dumps(stored) and terms == held.terms


# -- users -----------------------------------------------------------------------------------------------------------


def same_users(given, replicate=0):
    """Whether every shard that is drawn alone has the users of the population that is drawn at once."""
    case = Replicate(given, replicate)
    held, drawn = case.people(), draw_people(given.population, given.clusters, case.streams)
    assert np.array_equal(held.cluster_offsets, drawn.cluster_offsets)
    return all(
        np.array_equal(held.labels_of(shard), drawn.labels_of(shard))
        and np.array_equal(held.point[shard.start : shard.stop], drawn.points(shard.start, shard.stop))
        for shard in held.shards
    )


@pytest.mark.parametrize(("users", "clusters"), [(3000, 12), (700, 1), (5000, 300), (100_000, 2)])
def test_a_shard_drawn_alone_has_the_users_of_the_whole(small_shards, users, clusters):
    assert same_users(scenario(users, clusters), users)


def test_a_stream_that_is_entered_one_number_off_is_noticed(small_shards, monkeypatch):
    class Late(np.random.PCG64):
        def advance(self, delta):
            return super().advance(delta + (delta > 0))

    monkeypatch.setattr(np.random, "PCG64", Late)
    assert not same_users(scenario())


def test_clusters_without_users_are_left_out_and_small_ones_refused(small_shards):
    given = scenario(60, 40).replace(seed=3)
    with pytest.raises(InputError, match=r"clusters\.min_size = 2: the population has a cluster of 1 users"):
        row_alone(Replicate(given))
    few = Scenario.from_tree({**json.loads(scenario(6, 3).model_dump_json()), "seed": 1})
    rows = [row for replicate in range(60) if (row := _row(few, replicate)) and row["num_clusters"] < 3]
    assert rows  # with an empty cluster
    assert all(row["min_cluster_size"] >= 2 for row in rows)


def _row(given, replicate):
    try:
        assert same_rows(given, replicate)
    except InputError:
        return None
    return row_alone(Replicate(given, replicate))[0]


# -- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["logistic_regression", "soft_logistic_regression", "table", "trimmed_clusters"])
@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_rows_are_those_of_a_run_that_holds_its_users(small_shards, engine, learner):
    given = scenario(engine=engine, learner=learner)
    assert streams(given)
    assert same_rows(given)


@pytest.mark.parametrize("network", NETWORKS)
def test_rows_over_networks_are_those_of_a_run_that_holds_its_users(small_shards, network):
    given = scenario(network=NETWORKS[network])
    assert streams(given)
    assert same_rows(given)


@pytest.mark.parametrize(
    "mechanism",
    [{"kind": "randomized_response", "sampling_rate": None}, {"target_epsilon": 2.0, "flip_prob": None},
     pytest.param({"randomizer": {"kind": "rr_with_prior", "epsilon": 1.0}, "flip_prob": None},
                  marks=pytest.mark.slow)],
)  # fmt: skip
def test_rows_of_other_noise_are_those_of_a_run_that_holds_its_users(small_shards, mechanism):
    tree = json.loads(scenario(engine="vectorised").model_dump_json())
    given = {"flip_prob": 0.1, "sampling_rate": 0.7, **mechanism}
    tree["mechanism"] = {key: value for key, value in given.items() if value is not None}
    assert streams(Scenario.from_tree(tree))
    assert same_rows(Scenario.from_tree(tree))


@pytest.mark.parametrize(
    "changes",
    [
        {"learner.kind": "knn"},
        {"mechanism.debias": True, "learner.kind": "soft_logistic_regression"},
        {"mechanism": {"kind": "cluster_rr", "split": "half", "target_epsilon": 1.0, "heterogeneity": 0.2}},
        {"clusters": {"kind": "kmeans", "count": 3}},
        {"network.overlay": {"kind": "regular", "degree": 4}},
        {"network.availability": {"kind": "on_off", "mean_on_s": 5.0, "mean_off_s": 1.0}},
        {"network.learner_bandwidth_bps": 1e6},
        {"adversaries": {"free_riders": {"share": 0.1}}},
        {"population": {"kind": "circle", "users": 300, "num_classes": 2}},
    ],
)
def test_all_else_holds_its_users(changes):
    given = scenario(400, 4).replace(**changes)
    assert not streams(given)
    assert same_rows(given, 0)


@pytest.mark.parametrize("learner", ["logistic_regression", "soft_logistic_regression", "table", "trimmed_clusters"])
def test_counts_teach_what_the_users_teach(learner):
    given = scenario(20_000, 10, "vectorised", learner)
    done = exchange(Replicate(given))
    people, release, law = done.population, done.outcome.labels, done.population.law
    shape = law.label_distribution.shape
    received = Tally.of(people.point[release.user], release.payload, shape).counts
    true = Tally.of(people.point, people.labels, shape).counts
    assert Tally(received).counts.sum() == len(release)
    by_user = given.learner.learn(Received(people.features, release, 2, people.cluster_offsets))
    by_count = given.learner.learn_counts(Counted.of(law, received))
    everybody = Counted.of(law, true)
    bare = given.learner.fit(people.features, np.eye(2)[people.labels])
    bare_count = given.learner.fit(everybody.rows, everybody.weights)

    def same(one, other):
        return np.allclose(one.probabilities(law.points), other.probabilities(law.points), rtol=0, atol=1e-5)

    assert same(by_user, by_count)
    assert same(bare, bare_count)
    assert not same(by_user, bare_count)
    received[0] += (30, 0)
    assert not same(by_user, given.learner.learn_counts(Counted.of(law, received)))


def test_counts_say_of_a_cluster_what_its_users_say():
    """Own labels, silence, lies and members: each cluster's figures from the counts and from its users."""
    adversaries = {
        "liars": {"share": 0.1, "answer": "one"},
        "coalition": {"share": 0.01},
        "free_riders": {"share": 0.1},
    }
    tree = json.loads(scenario(2400, 6, network=LOSSY).model_dump_json())
    done = exchange(Replicate(Scenario.from_tree({**tree, "adversaries": adversaries})))
    facts, noise = done.outcome.realised, done.mechanism.randomizer
    sums = [shard.summed() for shard in facts]
    assert max(len(shard.own) for shard in sums) <= 6 * 2**6
    assert sum(int(shard.users.sum()) for shard in sums) == 2400
    found, again = (list(cluster_privacy(each, noise, 1e-5)) for each in (facts, sums))
    assert found == again
    assert facts_of(facts, found) == facts_of(sums, again)
    assert min(facts_of(facts, found)[name] for name in ("own_labels", "coalition_members")) > 0


# -- parts -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_give_the_rows_of_one_process():
    """150,000 users in three shards, in four parts on two workers, one of them empty."""
    given = scenario(150_000, 3, learner="table", network=LOSSY)
    [[whole]] = Serial().run(iter([(task(given),)]), perform)
    [[parts]] = SplitShards(LocalProcesses(2)).run(iter([(task(given),)]), perform)
    assert whole.error is parts.error is None
    assert json.dumps(parts.row) == json.dumps(whole.row)
    assert parts.terms == whole.terms


@pytest.mark.parametrize(("total", "fault"), [(4, "twice"), (4, "left out")])
def test_a_shard_that_is_counted_twice_or_left_out_is_noticed(small_shards, monkeypatch, total, fault):
    right = split_replicate.exchange_streamed
    by = 1 if fault == "twice" else -1

    def moved(ready, part):
        first, last = part
        return right(ready, (first, last + by * (first == 0)))

    monkeypatch.setattr(split_replicate, "exchange_streamed", moved)
    [[done]] = SplitShards(Serial()).run(iter([(task(scenario()),)]), perform)
    assert done.row is None
    assert "do not have every user once" in done.error


def test_the_order_in_which_parts_come_changes_no_sum(small_shards):
    case = Replicate(scenario())
    ready = prepare_streamed(case)
    cuts = [(0, 1), (1, 3), (3, len(ready.people.shards))]
    row = measure_streamed(case, ready, [exchange_streamed(ready, cut) for cut in cuts])[0]
    assert json.dumps(row) == json.dumps(row_alone(case)[0])


# -- arrival times ---------------------------------------------------------------------------------------------------


def test_few_times_are_kept_as_they_are():
    times = np.random.default_rng(1).lognormal(size=1001)
    found = Arrivals()
    for piece in np.array_split(times, 7):
        found.add(Arrivals([piece]))
    assert [found.quantile(q) for q in (0.5, 0.9, 0.99)] == np.quantile(times, (0.5, 0.9, 0.99)).tolist()
    assert Arrivals().quantile(0.5) is None


@pytest.mark.parametrize("widest", [1.0, 1e9])
@pytest.mark.slow_where(lambda widest: widest == 1.0)
def test_many_times_are_right_to_one_part_in_130000_in_any_pieces(monkeypatch, widest):
    monkeypatch.setattr(exchange_run, "EXACT", 1000)
    rng = np.random.default_rng(2)
    times = np.concatenate([[0.0, widest], rng.lognormal(sigma=2.0, size=20_000)])
    shares = (0.0, 0.3, 0.5, 0.9, 0.99, 1.0)
    found = []
    for pieces in (1, 50, 20_002):
        parts = [Arrivals(), Arrivals()]
        for index, piece in enumerate(np.array_split(rng.permutation(times), pieces)):
            parts[index % 2].add(Arrivals([piece]))
        parts[0].add(parts[1])
        assert sum(piece.size for piece in parts[0].times) + parts[0].counts.sum() == times.size
        found.append([parts[0].quantile(share) for share in shares])
    assert found[0] == found[1] == found[2]
    assert found[0][0] == 0.0
    assert np.allclose(found[0], np.quantile(times, shares), rtol=1 / 130_000, atol=0.0)
    assert not np.allclose(found[0], np.quantile(times, shares), rtol=1e-9, atol=0.0)


# -- memory ----------------------------------------------------------------------------------------------------------


def peak_bytes(users, engine):
    case = Replicate(scenario(users, users // 6000, engine, network=LOSSY if engine == "events" else None))
    ready = prepare_streamed(case)
    tracemalloc.start()
    try:
        exchange_streamed(ready, (0, len(ready.people.shards)))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_memory_does_not_grow_with_the_users(monkeypatch, engine):
    monkeypatch.setattr("p2p_sim.population.population.BLOCK", 6500)
    monkeypatch.setattr(exchange_run, "EXACT", 10_000)
    monkeypatch.setattr(exchange_run, "DROPPED", 44)  # fewer values than users, as among a billion
    few, many = (peak_bytes(users, engine) for users in (60_000, 240_000))
    assert many - few < 180_000 * 4  # four bytes a user; a run that holds its users has twenty times as many


def test_what_a_streamed_run_needs_is_asked_for_its_largest_shard(monkeypatch):
    monkeypatch.setattr(replicates, "free_memory", lambda: 4 * 2**30)
    billion = scenario(10**9, 20_000, "vectorised")
    for given in (billion, billion.replace(engine="events")):
        replicates.check_memory(given, rows_alone=True)
    with pytest.raises(InputError, match=r"needs at least 78 GB of memory.*p2p-sim run, which keeps only rows, needs"):
        replicates.check_memory(billion)
    with pytest.raises(
        InputError,
        match=r"^population.users = 2000000000: a replicate needs at least 50 GB of memory, and 4\.29 GB are free "
        r"here; take at most about 170,000,000 users, or smaller clusters$",
    ):
        replicates.check_memory(scenario(2 * 10**9, 1, "vectorised"), rows_alone=True)


@pytest.mark.parametrize(("peers", "needed"), [(1, "1.1 GB"), (3, "2 GB"), ({"1": 0.5, "5": 0.5}, "2 GB")])
def test_more_requests_of_a_user_need_more_memory_where_messages_are_sent(peers, needed, monkeypatch):
    """110 bytes a user, and 45 for each further request; the vectorised engine asks one question after another."""
    monkeypatch.setattr(replicates, "free_memory", lambda: 10**9)
    asking = scenario(10**7, 1, "events").replace(**{"mechanism.peers": peers})
    with pytest.raises(InputError, match=rf"a replicate needs at least {needed} of memory"):
        replicates.check_memory(asking, rows_alone=True)
    replicates.check_memory(asking.replace(engine="vectorised"), rows_alone=True)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_a_million_users_have_the_rows_of_a_run_that_holds_them(engine):
    assert same_rows(scenario(1_000_000, 20, engine, network=LOSSY if engine == "events" else None), 0)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_ten_million_users_in_parts_and_in_one_piece(engine):
    given = scenario(10_000_000, 200, engine)
    [[whole]] = Serial().run(iter([(task(given),)]), perform)
    [[parts]] = SplitShards(LocalProcesses(2)).run(iter([(task(given),)]), perform)
    assert whole.error is parts.error is None
    assert json.dumps(parts.row) == json.dumps(whole.row)
