"""How one cluster's ε is found: which data sets are certified by which evaluation, and sums over some X only."""

import math
import random

import numpy as np
import pytest
from scipy.stats import binom

from p2p_sim.privacy import LabelExchange
from p2p_sim.privacy.binomial_windows import NARROW, SubmissionCounts
from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator
from p2p_sim.privacy.exchange.direct_sum import DirectViews, OtherUsers, spacing
from p2p_sim.privacy.exchange.one_cluster import ClusterExchange, CoverBlock, CoverPlan
from p2p_sim.privacy.randomized_response import Coefficients, root


def covered_by(setting, accepts, least=0):
    """What each evaluation of a search certifies, and whether it came to an end; `accepts` says if revealing works."""
    certified = []

    class Checked(ClusterExchange):
        def check(self, block, log_delta, targets):
            if not accepts():
                return False
            assert block.change > NARROW
            assert len(block.ones) == 1 or (block.revealed == 0 and block.ones.step == 1)
            certified.append(range(block.ones[0], block.ones[-1] + block.revealed + 1))
            return True

    def include(block):
        assert block.change == NARROW
        assert block.revealed == (least or 0)
        certified.append(range(block.ones[0], block.ones[-1] + block.revealed + 1))
        return True

    checked = Checked(setting.sources, setting.flip_prob, setting.trials, setting.rate)
    return certified, checked._cover([], -14.0, include, least=least)


@pytest.mark.parametrize(("n", "alpha", "theta", "least"), [(37, 0.1, 0.5, 0), (200, 0.3, 1.0, 0), (2000, 0.1, 0.1, 0),
                                                           (2000, 0.45, 1.0, 0), (3000, 0.1, 0.5, 30)])  # fmt: skip
@pytest.mark.parametrize("accepted", [0.0, 0.6, 1.0])
def test_every_data_set_is_certified(n, alpha, theta, least, accepted):
    """Whatever is found on the way; control: each evaluation is needed."""
    rng, wanted = random.Random(n), set(range(1 + least, (n - 1) // 2 + 1))
    certified, done = covered_by(LabelExchange(n, alpha, theta).setting, lambda: rng.random() < accepted, least)
    assert done
    assert {m for part in certified for m in part} >= wanted
    for left_out in range(len(certified)):
        others = certified[:left_out] + certified[left_out + 1 :]
        assert not {m for part in others for m in part} >= wanted


@pytest.mark.parametrize(
    "block",
    [CoverBlock(range(1, 9, 3), 1), CoverBlock(range(1, 2), 36), CoverBlock(range(-1, 3), 0),
     CoverBlock(range(3, 1, -1), 0)],
)  # fmt: skip
def test_a_block_that_leaves_data_sets_out_is_refused(monkeypatch, block):
    """Planted in the plan: a gap, too few others, a negative m, and a falling range."""
    monkeypatch.setattr(CoverPlan, "blocks", lambda its, first, trust: [block])
    with pytest.raises(ValueError, match="does not certify every data set"):
        LabelExchange(37, 0.1, 0.5).setting.delta(0.5)


@pytest.mark.parametrize("bound", [lambda its: its.profile([0.5]), lambda its: its.epsilon(1e-3)])
def test_a_plan_that_leaves_a_gap_is_refused(monkeypatch, bound):
    """Planted: the data sets before m = 4 are in no block, and their δ is twice that of the others."""
    monkeypatch.setattr(CoverPlan, "blocks", lambda its, first, trust: [CoverBlock(range(4, 5), 0)])
    with pytest.raises(ValueError, match="does not certify every data set from m = 1 on"):
        bound(LabelExchange(12, 0.2, 1.0).setting)


def test_several_data_sets_without_tables_are_refused(monkeypatch):
    """Tails would be those of the first m alone."""
    monkeypatch.setattr(CoverPlan, "blocks", lambda its, first, trust: [CoverBlock(range(first, first + 2), 0)])
    monkeypatch.setattr(DeltaEvaluator, "direct", False)
    with pytest.raises(ValueError, match="does not certify every data set"):
        LabelExchange(37, 0.1, 0.5).setting.delta(0.5)


@pytest.mark.parametrize(
    ("sources", "alpha", "trials", "rate", "delta", "mixed"),
    [(189, 0.3904, 33, 1.0, 9.8e-8, True), (15, 0.2293, 6, 1.0, 1.4e-3, True), (40, 0.2035, 15, 1.0, 9e-10, True),
     (300, 0.1, 150, 1.0, 1e-9, True), (70, 0.2, 70, 0.5, 1e-6, False), (150, 0.02, 150, 0.1, 1e-5, False)],
)  # fmt: skip
@pytest.mark.slow_where(lambda sources: sources in {150, 300})
def test_the_worst_data_set_decides(sources, alpha, trials, rate, delta, mixed):
    """ε and δ are those of all data sets one by one; `mixed`: in the worst not all others hold the same label."""
    setting = ClusterExchange(sources, alpha, trials, rate)
    scan, everybody = DeltaEvaluator(setting, math.log(delta)), range((sources - 1) // 2 + 1)
    found, attained = setting.epsilon(delta), [scan.cross([m], delta, 0.0, upper=False).above for m in everybody]
    assert found.lower == pytest.approx(max(attained), rel=1e-6)
    assert max(attained) <= found.upper
    raised = [scan.cross([m], delta, attained[m], upper=True).below for m in everybody]
    assert found.upper == pytest.approx(max(raised), rel=1e-8)
    assert (attained[0] < max(attained) * (1.0 - 1e-6)) == mixed
    one = setting.delta(0.9 * found.lower)
    own = [DeltaEvaluator(setting, setting._log_delta(0.9 * found.lower)).at(m, 0.9 * found.lower) for m in everybody]
    assert one.lower == pytest.approx(max(bracket.lower for bracket in own), rel=1e-9)
    assert one.upper == pytest.approx(max(bracket.upper for bracket in own), rel=1e-9)


@pytest.mark.parametrize(
    ("sources", "ones", "alpha", "submissions"),
    [(400, 0, 0.3, 200), (4000, 90, 0.2, 4000), (1500, 0, 0.1, 150), (4000, 1300, 0.4, 8000)],
)
def test_what_sums_over_some_values_of_x_miss(sources, ones, alpha, submissions):
    """Any event is off by what is skipped at most; control: a step so wide that far more is skipped."""
    world, budget = OtherUsers(sources, sources - 1 - ones, ones, alpha), -36.0
    at_once = SubmissionCounts((submissions,), np.ones(1), np.ones(1), 0.0, budget)
    step, skipped = spacing(world, submissions, budget)
    assert step >= 3
    wider = spacing(world, submissions, budget + 40.0)
    assert skipped <= math.exp(budget - 16.0) < wider.skipped
    assert step < wider.step
    full, sparse = (DirectViews.of([world], at_once, sparse=sparse) for sparse in (False, True))
    assert len(sparse.a) <= len(full.a) + 50
    for a, b in ((full.a, sparse.a), (full.b, sparse.b)):
        assert abs(a.sum() - 1.0) < 1e-12
        assert abs(b.sum() - 1.0) < 1e-12
    exact, found = (views.deltas(Coefficients(0.7, 0.9, 1e-15)) for views in (full, sparse))
    assert found[0] == pytest.approx(exact[0], rel=1e-10)
    assert found[1] == pytest.approx(exact[1], rel=1e-10)
    assert wider.skipped > 1e-3 * math.exp(budget)


@pytest.mark.parametrize(
    ("sources", "alpha", "submissions", "most"), [(30, 0.3, 12, 0.05), (40, 0.4, 40, 0.3), (40, 0.5, 10, 0.3)]
)
def test_what_is_skipped_bounds_every_event(sources, alpha, submissions, most):
    """The errors of one sign over all k are the largest error of any event; it is large enough to be seen here."""
    world = OtherUsers(sources, sources - 1, 0, alpha)
    law = world.noisy_ones(-math.inf)
    step, skipped = spacing(world, submissions, math.log(most) + 16.0)
    assert step >= 3
    noisy = law.first + np.arange(len(law.probabilities))
    table = binom.pmf(np.arange(submissions + 1)[:, None], submissions, noisy[None, :] / sources) * law.probabilities
    for offset in range(step):
        off = step * table[:, noisy % step == offset].sum(axis=1) - table.sum(axis=1)
        largest = max(off[off > 0].sum(), -off[off < 0].sum())
        assert largest <= skipped
    assert skipped < 1e4 * largest + 1e-12


def test_spaced_values_are_those_of_the_whole_law():
    world = OtherUsers(3000, 2000, 990, 0.2, known_ones=5)
    law = world.noisy_ones(-40.0)
    for step in (2, 7):
        some = world.noisy_ones(-40.0, step)
        assert some.first % step == 0
        assert law.first <= some.first < law.first + step
        assert some.probabilities == pytest.approx(law.probabilities[some.first - law.first :: step], rel=1e-12)


@pytest.mark.parametrize("guess", [0.01, 0.4, 3.9])
def test_root_brackets_the_crossing(guess):
    """With few looks where the function is smooth; and where it falls off a cliff, or is infinite, still."""
    looks = []

    def smooth(x):
        looks.append(x)
        return math.exp(3.0 - 4.0 * x * x)

    low, high = root(smooth, 1.0, 0.0, 4.0, first=(guess, smooth(guess)), slope=-3.0, precision=1e-9)
    assert smooth(low) > 1.0 >= smooth(high)
    assert high - low <= 1e-9 * high
    assert len(looks) < 25
    for cliff in (lambda x: 100.0 if x < 1.0 else 0.0, lambda x: 1.0 + 1e-12 if x < 1.0 else 1e-300):
        low, high = root(cliff, 1.0, 0.0, 4.0, first=(guess, cliff(guess)), slope=-3.0, precision=1e-9)
        assert low < 1.0 <= high <= low * (1.0 + 2e-9)


def test_small_clusters_with_many_submissions_are_covered_to_the_end():
    """Fewer than 100 users leave b = 0 for the last attempt; ε of m = 1 is above that of all zeros here."""
    exchange, delta = ClusterExchange(84, 0.18090653478800497, 6649, 0.7982538849639687), 0.00043847147077600695
    bracket = exchange.epsilon(delta)
    assert exchange.least_revealed == 0
    assert not exchange.searched_in_full
    evaluator = DeltaEvaluator(exchange, math.log(delta))
    assert evaluator.at(0, bracket.upper).upper < delta
    assert evaluator.at(1, bracket.upper).upper <= delta < evaluator.at(1, 0.54906).lower
    assert exchange.satisfies(bracket.upper, delta)
