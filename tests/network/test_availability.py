"""Queries against a plain reference; the law of going on and off; traces and their faults."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy.stats import binomtest, expon, kstest, weibull_min

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.network import availability
from p2p_sim.network.availability import Always, Availability, AvailabilityConfig, AvailabilityTrace, OnOff
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.population.population import shards

moments = st.one_of(st.integers(0, 12).map(float), st.floats(0, 12))
people = st.lists(st.lists(st.tuples(moments, moments | st.just(np.inf)), max_size=6), min_size=1, max_size=6)


def one_shard(users: int):
    [shard] = shards(np.array([0, users]))
    return shard


def plain(periods: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Disjoint periods from any: empty ones dropped, overlapping and touching ones joined."""
    out: list[tuple[float, float]] = []
    for begin, end in sorted(p for p in periods if p[0] < p[1]):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def built(people: list[list[tuple[float, float]]]) -> Availability:
    rows = [(u, b, e) for u, periods in enumerate(people) for b, e in periods]
    user, begin, end = np.array(rows).reshape(-1, 3).T
    return Availability.of(user.astype(np.int64), begin, end, len(people))


def periods_of(held: Availability) -> list[list[tuple[float, float]]]:
    pairs = list(zip(held.begin.tolist(), held.end.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(held.indptr[:-1], held.indptr[1:], strict=True)]


@settings(max_examples=75, deadline=None)
@given(people=people, extra=st.lists(moments, max_size=5), cut=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_queries_say_what_a_plain_search_says(people, extra, cut):
    people = [plain(periods) for periods in people]
    held = built(people)
    assert periods_of(held) == people
    edges = [moment for periods in people for period in periods for moment in period]
    times = np.array([0.0, 13.0, np.inf, *extra, *edges])
    users = np.repeat(np.arange(len(people)), len(times))
    asked = np.tile(times, len(people))

    def current(user, time):
        return next((p for p in people[user] if p[0] <= time < p[1]), None)

    pairs = list(zip(users.tolist(), asked.tolist(), strict=True))
    assert held.online(users, asked).tolist() == [current(u, t) is not None for u, t in pairs]
    later = [[t] if current(u, t) else [b for b, _ in people[u] if b > t] for u, t in pairs]
    assert held.next_online(users, asked).tolist() == [min(found, default=np.inf) for found in later]
    first, last = sorted(min(c, len(people)) for c in cut)
    counted = [sum(current(u, t) is not None for u in range(first, last)) for t in times]
    assert held.count_online(first, last, times).tolist() == counted
    some = np.array([len(people) - 1, 0, 0])
    assert periods_of(held.take(some)) == [people[u] for u in some]


@given(people)
def test_touching_periods_become_one(people):
    ordered = [sorted(periods) for periods in people]
    chained = [[p for p, q in zip(x, [*x, (np.inf, 0)][1:], strict=True) if p[1] <= q[0]] for x in ordered]
    assert periods_of(built(chained)) == [plain(periods) for periods in chained]


def test_periods_hold_their_begin_and_not_their_end():
    held = built([[(1.0, 2.0), (2.0, 3.0), (5.0, np.inf)]])
    at = np.array([0.5, 1.0, 2.0, 3.0, 5.0])
    users = np.zeros(5, dtype=np.int32)
    assert held.online(users, at).tolist() == [False, True, True, False, True]
    assert held.next_online(users, at).tolist() == [1.0, 1.0, 2.0, 5.0, 5.0]


def share_fits(hits: int, size: int, probability: float) -> bool:
    """False alarm 1e-9."""
    return bool(binomtest(hits, size, probability).pvalue > 1e-9)


def test_exponential_users_are_online_as_the_stationary_law_says():
    """False alarm 9e-9 in all, with 60,000 users; wrong starts, swapped means and slower switching are the controls."""
    size, horizon = 60_000, 40.0
    on, off = 6.0, 4.0
    held = OnOff(mean_on_s=on, mean_off_s=off).draw(one_shard(size), Streams(2, 0), horizon)
    users, p, rate = np.arange(size), on / (on + off), 1 / on + 1 / off
    before = held.online(users, np.zeros(size))
    for time in (0.0, 1.0, 7.0, 39.9):
        now = held.online(users, np.full(size, time))
        decay = np.exp(-rate * time)
        assert share_fits(now.sum(), size, p)
        assert share_fits((before & now).sum(), size, p * (p + (1 - p) * decay))
        assert not share_fits(now.sum(), size, p + (1 - p) * np.exp(-rate * 1.0))  # all begin online
        assert not share_fits(now.sum(), size, 1 - p)
        if time == 1.0:
            assert not share_fits((before & now).sum(), size, p * (p + (1 - p) * decay**0.8))


@pytest.mark.parametrize("shape", [None, 0.5, 3.0])
def test_periods_have_their_law_and_mean(shape):
    """False alarm 3e-9 a case: first periods (not cut off here); a mean 20% off and another law are the controls."""
    size = 30_000
    config = OnOff(mean_on_s=6.0, mean_off_s=4.0, law="weibull" if shape else "exponential", shape=shape)
    held = config.draw(one_shard(size), Streams(3, 0), 400.0)
    first = held.indptr[:-1]
    begins_on = held.begin[first] == 0
    on = held.end[first][begins_on]
    off = held.begin[first][~begins_on]
    assert share_fits(begins_on.sum(), size, 0.6)
    for periods, mean in ((on, 6.0), (off, 4.0)):
        law = weibull_min(shape) if shape else expon()
        assert kstest(periods / mean * law.mean(), law.cdf).pvalue > 1e-9
        assert kstest(periods / mean * law.mean() * 1.2, law.cdf).pvalue < 1e-9
        other = weibull_min(1.3 * (shape or 1.0))
        assert kstest(periods / mean * other.mean(), other.cdf).pvalue < 1e-9


@pytest.mark.parametrize("shape", [None, 0.2])
def test_a_longer_horizon_changes_nothing_before_a_shorter_one(shape):
    config = OnOff(mean_on_s=2.0, mean_off_s=3.0, law="weibull" if shape else "exponential", shape=shape)
    size = 2_000
    short, long = (config.draw(one_shard(size), Streams(4, 0), horizon) for horizon in (10.0, 50.0))
    users = np.arange(size)
    for time in np.linspace(0.0, 10.0, 101):
        assert np.array_equal(short.online(users, np.full(size, time)), long.online(users, np.full(size, time)))
    at_horizon = short.online(users, np.full(size, 10.0))
    assert np.array_equal(short.online(users, np.full(size, 1e9)), at_horizon)
    assert short.begin.max() <= 10.0


def test_users_depend_on_no_neighbouring_shard_and_reproduce():
    config = OnOff(mean_on_s=2.0, mean_off_s=3.0, late_share=0.5, join_window_s=4.0, leave_share=0.5, leave_mean_s=9.0)
    alone, moved = (list(shards(np.array([0, a, a + 50])))[1] for a in (70_000, 66_000))
    drawn = [config.draw(shard, Streams(5, 2), 20.0) for shard in (alone, moved)]
    assert periods_of(drawn[0]) == periods_of(drawn[1])
    assert periods_of(drawn[0]) != periods_of(config.draw(alone, Streams(5, 3), 20.0))


def test_late_users_join_and_some_leave():
    """False alarm 5e-9 in all; shares and means 10% off are the controls."""
    size = 50_000
    config = Always(late_share=0.3, join_window_s=8.0, leave_share=0.4, leave_mean_s=20.0)
    held = config.draw(one_shard(size), Streams(6, 0), 0.0)
    assert np.array_equal(held.indptr, np.arange(size + 1))
    late, gone = held.begin > 0, np.isfinite(held.end)
    assert share_fits(late.sum(), size, 0.3)
    assert share_fits(gone.sum(), size, 0.4)
    assert share_fits((late & gone).sum(), size, 0.12)
    assert not share_fits(late.sum(), size, 0.33)
    joins, stays = held.begin[late] / 8.0, (held.end - held.begin)[gone] / 20.0
    assert kstest(joins, "uniform").pvalue > 1e-9
    assert kstest(stays, "expon").pvalue > 1e-9
    assert kstest(joins * 0.9, "uniform").pvalue < 1e-9
    assert kstest(stays * 0.9, "expon").pvalue < 1e-9


def test_joining_and_leaving_cut_the_pattern_of_on_and_off():
    size, shard, streams = 3_000, one_shard(3_000), Streams(7, 0)
    membership = {"late_share": 0.5, "join_window_s": 10.0, "leave_share": 0.5, "leave_mean_s": 10.0}
    pattern = OnOff(mean_on_s=2.0, mean_off_s=1.0)
    whole, there = pattern.draw(shard, streams, 30.0), Always(**membership).draw(shard, streams, 30.0)
    both = OnOff(mean_on_s=2.0, mean_off_s=1.0, **membership).draw(shard, streams, 30.0)
    users = np.arange(size)
    for time in np.linspace(0.0, 40.0, 81):
        at = np.full(size, time)
        assert np.array_equal(both.online(users, at), whole.online(users, at) & there.online(users, at))


def test_always_online_needs_no_periods():
    assert Always().draw(one_shard(5), Streams(1, 0), 10.0) is None


def test_periods_too_short_for_the_horizon_are_refused(monkeypatch):
    with pytest.raises(
        InputError, match=r"network\.availability: mean_on_s = 0\.001 .* more than 10000 periods a user"
    ):
        OnOff(mean_on_s=1e-3, mean_off_s=1e-3).draw(one_shard(5), Streams(1, 0), 1e3)
    with pytest.raises(InputError, match="too short"):
        OnOff(mean_on_s=1.0, mean_off_s=1.0).draw(one_shard(5), Streams(1, 0), np.inf)
    monkeypatch.setattr(availability, "MOST_OF_USER", 30)
    with pytest.raises(InputError, match="more than 30 periods"):  # seen only while drawing: most periods are tiny
        OnOff(mean_on_s=1.0, mean_off_s=1.0, law="weibull", shape=0.2).draw(one_shard(50), Streams(1, 0), 50.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "always", "late_share": 0.1},
        {"kind": "always", "join_window_s": 1.0},
        {"kind": "always", "leave_share": 0.1},
        {"kind": "on_off", "mean_on_s": 1.0},
        {"kind": "on_off", "mean_on_s": 1.0, "mean_off_s": 0.0},
        {"kind": "on_off", "mean_on_s": 1.0, "mean_off_s": 1.0, "law": "weibull"},
        {"kind": "on_off", "mean_on_s": 1.0, "mean_off_s": 1.0, "shape": 1.0},
        {"kind": "trace", "path": ""},
        {"kind": "trace", "path": "x", "late_share": 0.1},
    ],
)
def test_settings_that_say_nothing_sensible_are_refused(wrong):
    with pytest.raises(ValidationError):
        TypeAdapter(AvailabilityConfig).validate_python(wrong)


def trace(folder: Path, text: str) -> AvailabilityTrace:
    (folder / "t.csv").write_text(text)
    return AvailabilityTrace(path="t.csv")


def test_users_follow_a_trace_in_turn(tmp_path):
    config = trace(tmp_path, "user,on_s,off_s\n1,0,3\n0,5,6\n0,1,2\n\n1,3,4\n2,7,1e9\n")
    law = config.load((tmp_path,))
    assert NetworkConfig(availability=config).files((tmp_path,)) == [tmp_path / "t.csv"]
    people = [[(1.0, 2.0), (5.0, 6.0)], [(0.0, 4.0)], [(7.0, 1e9)]]
    first, second = shards(np.array([0, 70_000, 70_005]))
    drawn = periods_of(law.draw(first, Streams(1, 0), 1.0))
    assert drawn == [people[i % 3] for i in range(70_000)]
    assert periods_of(law.draw(second, Streams(1, 0), 1.0)) == [people[i % 3] for i in range(70_000, 70_005)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("0,1,2\n0,2,2", "line 3: off_s = 2 must be later than on_s"),
        ("0,1,2\n1,3,2", "line 3: off_s = 2 must be later than on_s"),
        ("0,1,4\n1,0,9\n0,3,5", "line 4: on_s = 3 lies within another period of this user"),
        ("0,5,6\n0,1,9", "line 2: on_s = 5 lies within another period of this user"),
        ("0,-1,4", "line 2: on_s = '-1' must be a number from 0 to 1e9"),
        ("0,1,inf", "line 2: off_s = 'inf' must be a number"),
        ("0,1,x", "line 2: off_s = 'x' must be a number"),
        ("0,1", "line 2: off_s = '' must be a number"),
        ("ann,1,2", "line 2: user = 'ann' must be a number"),
        ("0,1,2\n0.5,3,4", "line 3: user = 0.5 must be a whole number from 0"),
        ("0,1,2\n2,3,4", "line 3: user = 2 skips a number"),
        ("1,1,2", "line 2: user = 1 skips a number"),
        ("", "has no rows"),
    ],
)
def test_impossible_periods_are_named_by_their_line(tmp_path, rows, said):
    with pytest.raises(InputError) as error:
        trace(tmp_path, f"user,on_s,off_s\n{rows}\n").load((tmp_path,))
    assert said in str(error.value)
    assert str(error.value).startswith("network.availability.path = ")
    assert "\n" not in str(error.value)


def test_a_trace_without_its_columns_is_refused(tmp_path):
    with pytest.raises(InputError, match="one column 'off_s'"):
        trace(tmp_path, "user,on_s\n0,1\n").load((tmp_path,))
    with pytest.raises(InputError, match="no such file"):
        AvailabilityTrace(path="none.csv").load((tmp_path,))
