"""The simulated exchange keeps to its law, planted faults do not, and the audit sees leaks in who submits together.

A sound exchange fails with probability at most 1e-9 a test; seeds are fixed.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from p2p_sim.audit.faulty_network_attack import copies
from p2p_sim.audit.scores import ClusterAttack
from p2p_sim.cli.printing.numbers import print_output
from p2p_sim.cli.printing.small_audits import audit_output
from p2p_sim.exchange.transcript import REPLY
from p2p_sim.network.network_config import NetworkConfig
from tests.planted import exchange
from tests.planted_faults import JOINT, JOINT_KINDS, KINDS, Planted
from tests.reference.observed_law import observed_law

LABELS, ALPHA, THETA, TRIALS = (0, 1, 0), 0.1, 0.8, 60_000


def p_value(theta: float = THETA, **network) -> float:
    """G-test of what is seen of many clusters against the enumerated law; what is expected below 20 times is pooled."""
    counts: Counter = Counter()
    rng, config = np.random.default_rng(1), NetworkConfig(**{"start_window_s": 1.0} | network)
    for people, streams in copies(np.array(LABELS, dtype=np.uint8), TRIALS, 1):
        outcome = exchange(ALPHA, THETA).run(people, config, streams, True)
        user, label, clusters = outcome.labels.user, outcome.labels.payload.tolist(), people.num_users // 3
        assert np.all(np.diff(user) > 0)
        met = outcome.transcript.view("coalition", range(1, people.num_users, 3))
        got = (met.kind == REPLY) & (met.receiver % 3 == 1)
        peer = np.full(clusters, -1)
        peer[met.receiver[got] // 3] = met.sender[got] % 3
        sent: list[list[tuple[int, int]]] = [[] for _ in range(clusters)]
        for i in np.lexsort((rng.random(user.size), outcome.arrival_s)).tolist():
            sent[user[i] // 3].append((int(user[i]) % 3, label[i]))
        counts.update((fetched, tuple(there)) for fetched, there in zip(peer.tolist(), sent, strict=True))
    law = observed_law(LABELS, ALPHA, theta)
    if not counts.keys() <= law.keys():
        return 0.0
    pairs = np.array([(counts[view], chance * TRIALS) for view, chance in law.items()])
    rare = pairs[:, 1] < 20.0
    seen, expected = np.vstack([pairs[~rare], pairs[rare].sum(axis=0)]).T
    hit = seen > 0
    return float(chi2.sf(2.0 * np.sum(seen[hit] * np.log(seen[hit] / expected[hit])), seen.size - 1))


@pytest.mark.parametrize(
    "network",
    [
        {},
        {"start_window_s": 0.0, "latency": {"kind": "constant", "value_s": 0.1}},
        {"duplication": 0.5, "reordering": 0.3},
        {"bandwidth_bps": 1000.0},
    ],
    ids=["spread", "all at once", "copies", "slow links"],
)
def test_what_is_seen_follows_the_enumerated_law(network):
    """The control takes two percent less to be submitted."""
    assert p_value(**network) > 1e-9 > p_value(theta=0.98 * THETA, **network)


@pytest.mark.parametrize("fault", KINDS)
def test_every_planted_fault_departs_from_the_law(fault, monkeypatch):
    """Where it happens in one case of five."""
    Planted(fault, 0.2, TRIALS, 3, ALPHA, members=1).plant(monkeypatch)
    assert p_value() < 1e-9


NAMED = {
    "parity of five": "an odd number submits of the users 1, 2, 3, 4, 5 (error",
    "pattern of a pair": "an odd number submits of the users 3, 7 (error",
    "code word": "the whole pattern of who submits (error",
}
"""How the leak is named."""


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(one, marks=[pytest.mark.slow] * (one.trials > 10_000), id=f"{one.name} {one.trials}")
        for one in JOINT
    ],
)
def test_leaks_in_who_submits_together_are_caught(planted, monkeypatch, capsys):
    """Detects an attack that looks at each user by herself and at counts: without the added scores the audit passes."""
    planted.plant(monkeypatch)
    with monkeypatch.context() as blind:
        prepared = ClusterAttack.prepared

        def without_added_scores(*parts):
            attack = prepared(*parts)
            return replace(attack, exact=attack.exact[:2], submitters=None)

        blind.setattr(ClusterAttack, "prepared", without_added_scores)
        assert planted.audit(learn=True).passed
    done = planted.audit(learn=True)
    assert done.result.passed
    assert done.learned is not None
    seen_by = {
        event.attack
        for event, proved, claim in zip(
            done.learned.plan.deltas, done.learned.attacked, done.learned.certified, strict=True
        )
        if proved > claim
    }
    assert seen_by - {0, 1}  # neither the likelihood ratio nor the classifier
    assert not done.passed
    if planted.trials <= 10_000:
        assert NAMED[planted.fault] in audit_output(done).failure


def test_every_leak_in_who_submits_together_is_planted_quickly_and_in_full():
    assert {(one.fault, one.trials) for one in JOINT} == {(leak, n) for leak in JOINT_KINDS for n in (5_000, 100_000)}


@pytest.mark.parametrize(
    ("size", "rate", "seed"),
    [
        (2, 0.5, 1),
        (12, 0.5, 1),
        (12, 1.0, 1),
        *(pytest.param(*p, marks=pytest.mark.slow) for p in ((17, 0.05, 1), (30, 0.5, 1))),
    ],
)
def test_a_sound_exchange_passes_what_is_learnt_of_who_submits_together(size, rate, seed):
    done = Planted("own label", 0.0, 5_000, size, sampling_rate=rate).audit(seed, learn=True)
    assert done.passed
    assert done.learned is not None
    assert len(done.learned.scope.scores) == 5


def test_the_power_line_says_what_it_is_about(capsys):
    """Detects a stated power that is read as one against every leak."""
    print_output(audit_output(Planted("own label", 0.0, 1_000).audit(learn=True)), False)
    told = " ".join(capsys.readouterr().out.split())
    assert "power against too little noise only" in told
    assert "also looked for, without a stated power who submits together: the parity of every set of up to 12" in told
    assert "not looked for which labels several users submit together" in told
    print_output(audit_output(Planted("own label", 0.0, 1_000).audit()), False)
    assert "leaks through the set of users who submit not looked for here" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
@pytest.mark.parametrize("members", [0, 2])
def test_the_sound_exchange_passes(seed, members):
    assert Planted("own label", 0.0, 5_000, members=members).audit(seed).passed
