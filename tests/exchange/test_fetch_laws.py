"""The law of whose label was fetched, against every choice that a user might have made, each run as events."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_sim.exchange import network_record
from p2p_sim.exchange.adversaries import AdversariesConfig, FreeRiders
from p2p_sim.exchange.message_timing import MessageTiming
from p2p_sim.exchange.network_record import Capped, FetchLaw, FetchTable, Uniform, Unknown, realised
from p2p_sim.network.availability import Always, OnOff
from p2p_sim.network.latency import Exponential
from p2p_sim.network.network_config import GossipView, NetworkConfig, OnTimeout, RandomWalk
from p2p_sim.network.overlay import GeometricOverlay, RegularOverlay, ScaleFreeOverlay
from tests.reference.fetch_law import weights
from tests.small_networks import Case, adversaries, cases, networks


@st.composite
def small_cases(draw) -> Case:
    """Few users and few attempts, so that all their choices can be gone through."""
    config = draw(networks())
    rule, peers = config.on_timeout, config.peers
    if isinstance(peers, RandomWalk):
        peers = RandomWalk(length=min(peers.length, 2))
    most = 2 if isinstance(peers, RandomWalk) else 3
    rule = OnTimeout(**{**dict(rule), "attempts": min(rule.attempts, most)})
    config = NetworkConfig(**{**dict(config), "on_timeout": rule, "peers": peers})
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=2))
    return Case(config, tuple(sizes), 1.0, draw(st.integers(0, 2**32)), draw(adversaries))


def run(case: Case) -> tuple[FetchLaw, np.ndarray, np.ndarray]:
    """The law of a finished run, who passed on a fetched label, and whose."""
    exchange = case.exchange(record=False)
    exchange.run()
    facts = realised(exchange)
    return facts.law, facts.fetched, exchange.source


def late(case: Case) -> np.ndarray:
    """Whose submission came after the deadline."""
    exchange = case.exchange(record=False)
    exchange.run()
    return np.isfinite(exchange.arrival) & ~exchange.accepts(exchange.arrival)


def fault(case: Case) -> str | None:
    """What is wrong with the law of a run, if anything."""
    law, submitted, source = run(case)
    if isinstance(law, Unknown) or not submitted.any():
        return None
    exact = weights(case, late(case))
    users = np.flatnonzero(submitted)
    if not (exact[users, source[users]] > 0).all():
        return "the realised source is impossible"
    if isinstance(law, FetchTable):
        rows = law.weights.toarray()
        if not (rows[users, source[users]] > 0).all():
            return "the realised source has no weight"
        return None if np.allclose(rows, exact * submitted[:, None], rtol=0, atol=1e-12) else "a row is wrong"
    if isinstance(law, Capped):
        if law.caps[~submitted].any():
            return "a cap for who submitted nothing"
        return None if (exact[users].max(axis=1) <= law.caps[users] + 1e-12).all() else "a cap is too low"
    assert isinstance(law, Uniform)
    return None if np.allclose(exact[users], uniform(case)[users], rtol=0, atol=1e-12) else "not uniform"


def uniform(case: Case) -> np.ndarray:
    """The same chance for everybody of the cluster who answers."""
    sizes = np.diff(case.shard.offsets)
    cluster = np.repeat(np.arange(sizes.size), sizes)
    likely = (cluster[:, None] == cluster) & ~case.roles.silent
    return likely / np.maximum(likely.sum(axis=1, keepdims=True), 1)


@settings(max_examples=40, deadline=None)
@given(case=small_cases())
def test_the_law_is_what_comes_of_every_possible_choice(case):
    assert fault(case) is None


@settings(max_examples=40, deadline=None)
@given(case=cases)
def test_what_the_journey_says_of_a_reply_is_what_comes_of_it(case):
    """Closed forms of who is answered, when, and whose submission arrives, against the finished run."""
    exchange = case.exchange(record=False)
    exchange.run()
    j, users = exchange.journey, np.arange(case.shard.size, dtype=np.int32)
    arrives, open_ = np.zeros(users.size, dtype=bool), np.isfinite(j.start)
    for attempt in range(case.config.on_timeout.attempts):
        open_ &= np.isfinite(j.sent(users, attempt))
        asking = users[open_]
        times = j.answered(asking, attempt, j.path(asking, attempt))[0]
        arrives[asking] = j.arrives(asking, times) & j.choices.keep[asking]
        open_[asking[np.isfinite(times)]] = False
    assert np.array_equal(arrives, exchange.accepts(exchange.arrival) & ~exchange.fallback)


HURRY = {"latency": Exponential(mean_s=0.3), "request_timeout_s": 0.6}
CHURN = OnOff(mean_on_s=0.5, mean_off_s=0.4)
AGAIN = OnTimeout(retry="redraw", attempts=3, backoff=1.5)
SAME = OnTimeout(retry="same_peer", attempts=3, backoff=1.5)
NAMED = {
    "overlay, redraw": Case(
        NetworkConfig(overlay=RegularOverlay(degree=2), availability=CHURN, on_timeout=AGAIN, loss=0.1, **HURRY), (5,)
    ),
    "overlay, same peer": Case(
        NetworkConfig(overlay=ScaleFreeOverlay(attachments=2), availability=CHURN, on_timeout=SAME, **HURRY), (5,)
    ),
    "overlay, redraw, deadline": Case(
        NetworkConfig(
            overlay=RegularOverlay(degree=3),
            availability=CHURN,
            on_timeout=AGAIN,
            duplication=0.5,
            deadline_s=2.0,
            **HURRY,
        ),
        (4,),
    ),
    "churn, redraw, deadline": Case(NetworkConfig(availability=CHURN, on_timeout=AGAIN, deadline_s=0.6, **HURRY), (4,)),
    "churn, copies, deadline": Case(
        NetworkConfig(availability=CHURN, on_timeout=AGAIN, duplication=0.5, deadline_s=0.6, **HURRY), (4,)
    ),
    "churn, same peer, deadline": Case(
        NetworkConfig(availability=CHURN, on_timeout=SAME, deadline_s=0.8, **HURRY), (4, 3)
    ),
    "gossip, churn, deadline": Case(
        NetworkConfig(
            peers=GossipView(view_size=2, refresh_s=1.0),
            availability=CHURN,
            on_timeout=OnTimeout(retry="redraw", attempts=2),
            deadline_s=0.8,
            **HURRY,
        ),
        (4,),
    ),
    "distance, deadline": Case(
        NetworkConfig(overlay=GeometricOverlay(radius=1.5), distance_s=0.8, on_timeout=AGAIN, deadline_s=1.0, **HURRY),
        (4, 3),
    ),
    "distance": Case(
        NetworkConfig(overlay=GeometricOverlay(radius=1.5), distance_s=0.8, on_timeout=AGAIN, **HURRY), (4, 3)
    ),
    "walk": Case(
        NetworkConfig(
            overlay=ScaleFreeOverlay(attachments=1), peers=RandomWalk(length=3), latency=Exponential(mean_s=0.1)
        ),
        (4, 3),
    ),
    "walk, loss": Case(
        NetworkConfig(
            overlay=RegularOverlay(degree=2),
            peers=RandomWalk(length=3),
            loss=0.1,
            on_timeout=SAME,
            **{**HURRY, "request_timeout_s": 4.0},
        ),
        (5, 3),
    ),
    "churn, redraw": Case(NetworkConfig(availability=CHURN, on_timeout=AGAIN, duplication=0.3, **HURRY), (4,)),
    "churn, same peer": Case(NetworkConfig(availability=CHURN, on_timeout=SAME, **HURRY), (4, 3)),
    "churn, same peer, early deadline": Case(
        NetworkConfig(availability=CHURN, on_timeout=SAME, deadline_s=1.2, **HURRY), (5,)
    ),
    "churn, free riders": Case(
        NetworkConfig(availability=CHURN, on_timeout=SAME, **HURRY),
        (5,),
        adversaries=AdversariesConfig(free_riders=FreeRiders(share=0.4)),
    ),
    "overlay, batch": Case(
        NetworkConfig(
            overlay=RegularOverlay(degree=3),
            availability=CHURN,
            on_timeout=AGAIN,
            deadline_s=1.2,
            batch_submission=True,
            **HURRY,
        ),
        (4,),
    ),
    "gossip, churn, redraw": Case(
        NetworkConfig(peers=GossipView(view_size=2, refresh_s=1.0), availability=CHURN, on_timeout=AGAIN, **HURRY), (4,)
    ),
}


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)], ids=["few", "more"])
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.slow_where(lambda name: name in {"churn, copies, deadline", "churn, redraw", "overlay, redraw, deadline"})
def test_the_law_holds_where_it_is_hard(name, seeds):
    for seed in seeds:
        assert fault(replace(NAMED[name], seed=seed)) is None


@pytest.mark.parametrize("name", [name for name in NAMED if name.endswith(", deadline")])
def test_some_of_these_submissions_are_late(name):
    assert any(late(replace(NAMED[name], seed=seed)).any() for seed in range(4))


@pytest.mark.parametrize("config", [{}, {"on_timeout": SAME}])
def test_without_churn_everybody_who_answers_is_as_likely(config):
    for seed in range(3):
        roles = AdversariesConfig(free_riders=FreeRiders(share=0.4))
        case = Case(NetworkConfig(loss=0.2, **HURRY, **config), (4, 3), seed=seed, adversaries=roles)
        law, submitted, _ = run(case)
        assert submitted.any()
        assert isinstance(law, Uniform)
        assert fault(case) is None


def test_one_attempt_without_copies_is_capped_exactly():
    """One over how many could have answered is not only a bound: it is reached."""
    case = Case(NetworkConfig(latency=Exponential(mean_s=0.3), availability=CHURN), (5, 3))
    for seed in range(5):
        law, submitted, _ = run(replace(case, seed=seed))
        assert isinstance(law, Capped)
        assert law.caps[submitted] == pytest.approx(weights(replace(case, seed=seed)).max(axis=1)[submitted], abs=1e-12)


@pytest.mark.parametrize("peers", [{}, {"peers": GossipView(view_size=2)}])
@pytest.mark.parametrize("rule", [AGAIN, SAME])
def test_where_everybody_is_online_asking_again_costs_nothing_but_in_a_gossip_view(rule, peers):
    """There an entry may be drawn in every attempt."""
    always = Always(late_share=0.5, join_window_s=1e-9)
    law, submitted, _ = run(
        Case(NetworkConfig(availability=always, on_timeout=rule, loss=0.3, **peers, **HURRY), (20,))
    )
    assert isinstance(law, Capped)
    assert submitted.any()
    at_most = 3 / 20 if peers and rule == AGAIN else 1 / 20
    assert law.caps[submitted] == pytest.approx(np.full(np.count_nonzero(submitted), at_most))


def test_churn_is_part_of_the_ground_for_a_cap():
    """Some users of a run can have got their label from few peers alone, others from many."""
    case = Case(NetworkConfig(availability=OnOff(mean_on_s=1.0, mean_off_s=2.0), start_window_s=20.0), (40,))
    law, submitted, _ = run(case)
    assert isinstance(law, Capped)
    assert 1 / 40 < law.caps[submitted].min() < law.caps[submitted].max() <= 1.0


@pytest.mark.parametrize(
    "config",
    [
        {"overlay": RegularOverlay(degree=2), "peers": RandomWalk(length=2), "availability": CHURN},
        {"availability": CHURN, "deadline_s": 3.0, "learner_bandwidth_bps": 1e3},
    ],
)
def test_what_is_not_worked_out_says_so(config):
    law, _, _ = run(Case(NetworkConfig(**config), (6,)))
    assert isinstance(law, Unknown)


def test_a_table_that_would_be_too_large_is_not_made(monkeypatch):
    monkeypatch.setattr(network_record, "LARGEST_TABLE", 10)
    for peers in ({}, {"peers": RandomWalk(length=2)}):
        law, _, _ = run(Case(NetworkConfig(overlay=RegularOverlay(degree=2), **peers), (8,)))
        assert isinstance(law, Unknown)


@pytest.mark.parametrize("limit", [12, 20, 30, 60])
def test_no_table_of_walks_in_clusters_of_different_sizes_exceeds_the_limit(monkeypatch, limit):
    config = NetworkConfig(overlay=ScaleFreeOverlay(attachments=1), peers=RandomWalk(length=3))
    law, _, _ = run(Case(config, (2, 8)))
    assert isinstance(law, FetchTable)
    assert 20 < law.weights.nnz <= 60
    monkeypatch.setattr(network_record, "LARGEST_TABLE", limit)
    limited, _, _ = run(Case(config, (2, 8)))
    assert isinstance(limited, Unknown) or limited.weights.nnz <= limit


def test_nobody_submits_and_the_law_is_empty():
    network = NetworkConfig(request_timeout_s=1e-6, overlay=RegularOverlay(degree=2))
    for config in (network, NetworkConfig(**{**dict(network), "peers": RandomWalk(length=2)})):
        law, submitted, _ = run(Case(config, (6,)))
        assert not submitted.any()
        assert isinstance(law, FetchTable)
        assert law.weights.nnz == 0
    churning = NetworkConfig(request_timeout_s=1e-6, availability=Always(late_share=0.5, join_window_s=1.0))
    law, submitted, _ = run(Case(churning, (6,)))
    assert isinstance(law, Capped)
    assert not law.caps.any()


MISTAKES = {
    "the same peer is asked as if drawn afresh": ("overlay, same peer", "path_rule"),
    "who is offline is taken to answer": ("overlay, redraw", "online"),
    "deadlines are forgotten": ("overlay, redraw, deadline", "arrives"),
    "distance is forgotten": ("distance", "ends"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_sees_a_planted_mistake(mistake, monkeypatch):
    """Controls: the law is computed by a journey that forgets something, after the run."""
    name, what = MISTAKES[mistake]
    right_law, right_answered = network_record.fetch_law, MessageTiming.answered

    def forgetful(journey, submitted, late):
        with pytest.MonkeyPatch.context() as patch:
            if what == "path_rule":
                config = NetworkConfig(**{**dict(journey.config), "on_timeout": AGAIN})
                patch.setattr(journey, "config", config)
            elif what == "online":
                patch.setattr(MessageTiming, "online", lambda self, users, times: None)
            elif what == "arrives":
                patch.setattr(MessageTiming, "arrives", lambda self, users, times, late: np.isfinite(times))
            else:
                patch.setattr(
                    MessageTiming,
                    "answered",
                    lambda self, users, attempt, path: right_answered(self, users, attempt, [users]),
                )
            return right_law(journey, submitted, late)

    monkeypatch.setattr("p2p_sim.exchange.network_record.fetch_law", forgetful)
    assert any(fault(replace(NAMED[name], seed=seed)) for seed in range(6))
