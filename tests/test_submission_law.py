"""The laws that an audit counts against, and those of its faults, by enumeration of everything for three users."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.stats import binom

from p2p_sim.analysis.privacy.attack import conformity
from p2p_sim.analysis.privacy.attack.conformity import Stage, Tally, worst_deviation
from p2p_sim.analysis.privacy.attack.fault_laws import FAULTS, Seen, seen_of
from p2p_sim.analysis.privacy.attack.split import split_cells, split_name
from p2p_sim.analysis.privacy.attack.submission_law import Cluster, submission_law
from p2p_sim.analysis.privacy.attack.views import LearnerViews
from p2p_sim.analysis.privacy.exchange.label_exchange import LabelExchange

ALPHA, THETA, P = 0.2, 0.6, 0.3
USERS = range(3)
Passes = Callable[..., object]
"""What a user passes on: from her number, everybody's labels, noisy labels and fresh ones, and the peer she drew."""

RULES: dict[str, Passes] = {
    "own label": lambda i, labels, noisy, fresh, peer: noisy[i],
    "true label": lambda i, labels, noisy, fresh, peer: labels[i],
    "neighbour's label": lambda i, labels, noisy, fresh, peer: noisy[(i + 1) % 3],
    "flips redrawn": lambda i, labels, noisy, fresh, peer: fresh[i],
    "silence": lambda i, labels, noisy, fresh, peer: None if noisy[i] else noisy[peer],
    "member's own label": lambda i, labels, noisy, fresh, peer: noisy[i if i == 1 else peer],
    "member asks herself": lambda i, labels, noisy, fresh, peer: noisy[i if i == 1 else peer],
}


def sent(labels, rule: Passes, p: float) -> Iterator[tuple[float, tuple[int | None, ...]]]:
    """Everything that three users may submit, with its probability."""
    for flips, peers in itertools.product(itertools.product((0, 1), repeat=3), itertools.product(USERS, repeat=3)):
        noisy = [a ^ b for a, b in zip(labels, flips, strict=True)]
        base = float(np.prod([ALPHA if f else 1 - ALPHA for f in flips])) / 27
        options = []
        for i in USERS:
            mine = [(1 - p, noisy[peers[i]])]
            for flip in (0, 1):
                fresh = [label ^ flip for label in (labels[peers[i]],) * 3]
                mine.append((p * (ALPHA if flip else 1 - ALPHA), rule(i, labels, noisy, fresh, peers[i])))
            options.append([(1 - THETA, None), *((THETA * w, x) for w, x in mine)])
        for choice in itertools.product(*options):
            yield base * float(np.prod([w for w, _ in choice])), tuple(x for _, x in choice)


def enumerated(cluster: Cluster, rule: Passes, p: float) -> tuple[Seen, np.ndarray]:
    """What is seen, and the cells with user 0 as the target."""
    seen = Seen(np.zeros((3, 3)), np.zeros((2, 3, 2)), np.zeros(2), np.zeros((0, 3)), np.zeros(cluster.shape))
    cells = np.zeros(split_cells(3))
    for weight, bits in sent(cluster.labels, rule, p):
        there = [i for i in USERS if bits[i] is not None]
        for i in USERS:
            seen.users[i, 0 if bits[i] is None else 1 + bits[i]] += weight
        for i in there:
            seen.order[:, i, bits[i]] += weight / len(there)
        for j, kinds in enumerate(([bits[i] for i in there], [cluster.labels[i] for i in there])):
            seen.late[j] += 0.5 * weight * (len(set(kinds)) == 2)
        seen.table[
            tuple(sum(bits[i] == b and cluster.labels[i] == y for i in there) for y in (1, 0) for b in (1, 0))
        ] += weight
        others = [b for b in bits[1:] if b is not None]
        cells[((0 if bits[0] is None else 1 + bits[0]) * 3 + len(others)) * 3 + sum(others)] += weight
    return seen, cells


@pytest.mark.parametrize("labels", [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)])
@pytest.mark.slow_where(lambda labels: labels[:2] == (0, 1))
def test_the_protocol_s_law_is_the_enumerated_one(labels):
    cluster = Cluster(labels, ALPHA, THETA)
    truth, cells = enumerated(cluster, RULES["own label"], 0.0)
    found = seen_of(cluster, submission_law(cluster))
    for name in ("users", "order", "late", "table"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=1e-13), name
    law = LearnerViews(LabelExchange(3, ALPHA, THETA)).laws[sum(labels[1:])]
    assert law.probabilities[labels[0]] == pytest.approx(cells, abs=1e-13)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.name in RULES], ids=lambda fault: fault.name)
def test_a_fault_s_law_is_the_enumerated_one(fault):
    cluster = Cluster((1, 0, 1), ALPHA, THETA, members=1)
    truth, _ = enumerated(cluster, RULES[fault.name], P)
    found = fault.law(cluster, P)
    for name in ("users", "order", "late", "table") if fault.tabled else ("users",):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=1e-13), name


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_that_never_happens_changes_nothing(fault):
    cluster = Cluster((0, 1, 1, 0, 0), ALPHA, THETA, members=2)
    sound, found = seen_of(cluster, submission_law(cluster)), fault.law(cluster, 0.0)
    for name in ("users", "order", "late", "fetched", "table"):
        values = getattr(found, name)
        known = ~np.isnan(values)
        assert values[known] == pytest.approx(getattr(sound, name)[known], abs=1e-14), name
    assert not np.isnan(found.users).any()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_a_fault_shows_can_be_compared_with_the_protocol(fault):
    stage = Stage(Cluster((0, 1, 1, 0, 0), ALPHA, THETA, members=2), 1000)
    shown = fault.law(stage.cluster, P)
    for name in ("users", "order", "late", "fetched", "table"):
        assert getattr(shown, name).shape == getattr(stage.sound, name).shape, name
    assert stage.statistics(shown).shape == stage.expected.shape


def test_ones_that_come_first_by_hand():
    """Two users who hold both labels, no noise, everything submitted: 1/4 each for two zeros and two ones."""
    [fault] = [fault for fault in FAULTS if fault.name == "order by label"]
    found = fault.law(Cluster((1, 0), 0.0, 1.0), 1.0)
    assert found.order[0].sum(axis=0) == pytest.approx([0.25, 0.75])
    assert found.order[1].sum(axis=0) == pytest.approx([0.75, 0.25])
    assert found.late == pytest.approx([0.0, 0.5])


def test_common_flips_by_hand():
    [fault] = [fault for fault in FAULTS if fault.name == "common flips"]
    table = fault.law(Cluster((0, 0, 0), ALPHA, 1.0), 1.0).table
    assert table[0, 0, 3, 0] == pytest.approx(ALPHA)
    assert table[0, 0, 0, 3] == pytest.approx(1 - ALPHA)


def test_fetches_among_equals_by_hand():
    """Of three, the only holder of 1 passes on her own noisy label, the others one of their two."""
    [fault] = [fault for fault in FAULTS if fault.name == "fetches among equals"]
    users = fault.law(Cluster((1, 0, 0), ALPHA, 1.0), 1.0).users
    assert users[:, 2] == pytest.approx([1 - ALPHA, ALPHA, ALPHA])


def test_tails_are_those_of_the_binomial():
    hits, p = np.array([0.0, 1, 20, 300, 1000]), np.array([1e-6, 0.01, 0.3, 0.9])
    for chance in p:
        chances = np.full(hits.size, chance)
        assert conformity._at_least(hits, 1000, chances) == pytest.approx(binom.sf(hits - 1, 1000, chance), rel=1e-9)
        assert conformity._at_most(hits, 1000, chances) == pytest.approx(binom.cdf(hits, 1000, chance), rel=1e-9)


def stage(trials: int) -> Stage:
    law = LearnerViews(LabelExchange(3, ALPHA, THETA)).laws[1].probabilities[1]
    return Stage(Cluster((1, 1, 0), ALPHA, THETA), trials, (law,), (lambda cell: split_name(cell, 3),))


def drawn(where: Stage, trials: int) -> Tally:
    """Counts as they should be."""
    sound = where.sound
    counts = [getattr(sound, name) * trials for name in ("users", "order", "late", "fetched", "table")]
    return Tally(Seen(*counts), (where.laws[0] * trials,), 0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("what", ["user", "cell"])
def test_limits_are_where_the_tests_fail(what, sign):
    """A count one short of significance passes, the significant one fails, and it is named."""
    where, error = stage(50_000), 1e-9
    number, law = conformity.events_counted([where])[what != "user"], where.laws[0]
    cell = int(np.argmax(law)) if what == "cell" else 0
    chance = where.sound.users[1, 2] if what == "user" else law[cell]
    hits = np.arange(50_001)
    tail = binom.sf(hits - 1, 50_000, chance) if sign > 0 else binom.cdf(hits, 50_000, chance)
    bad = hits[2 * 2 * number * tail <= error]
    edge = int(bad.min() if sign > 0 else bad.max())
    for count, caught in ((edge, True), (edge - sign, False)):
        tally = drawn(where, 50_000)
        if what == "user":
            tally.seen.users[1, 2] = count
        else:
            tally.cells[0][cell] = count
        found = worst_deviation([where], [tally], error)
        assert (found is not None) is caught
        if found is not None:
            assert found.hits == count
            assert ("user 1 submits a one" if what == "user" else "the target submits") in found.what
            assert found.where == "target's label 1, 1 ones among the others"


def test_submissions_out_of_order_are_a_deviation():
    where = stage(50_000)
    tally = drawn(where, 50_000)
    assert worst_deviation([where], [tally], 1e-9) is None
    found = worst_deviation([where], [Tally(tally.seen, tally.cells, 2)], 1e-9)
    assert found is not None
    assert found.what == "the release is not in ascending order of users"
