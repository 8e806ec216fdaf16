"""The audit finds every planted fault, passes what is sound, and its stated power is what happens.

A sound exchange fails with probability at most 1e-9 a test; seeds are fixed.
"""

from dataclasses import replace

import pytest

from p2p_sim.analysis.privacy.attack.fault_laws import FAULTS
from p2p_sim.attacks.targets import Batch
from p2p_sim.cli.printing.audit import failure, print_audit
from tests.planted_faults import JOINT, JOINT_KINDS, KINDS, PLANTED, Planted

SUBTLE = {
    ("true label", 0.01),
    ("own label", 0.05),
    ("own label", 0.25),
    ("neighbour's label", 0.05),
    ("flips redrawn", 0.1),
    ("order by label", 0.05),
    ("member asks herself", 1.0),
    ("member's own label", 1.0),
}
"""Faults whose like is caught beside them: `make validate` plants them too."""


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param(one, marks=[pytest.mark.slow] * ((one.fault, one.strength) in SUBTLE), id=one.name)
        for one in PLANTED
    ],
)
def test_every_planted_fault_is_caught(planted, monkeypatch):
    """Detects the fault at error 1e-9, and the line that is printed says what deviates."""
    planted.plant(monkeypatch)
    done = planted.audit()
    assert not done.passed
    assert done.deviation is not None
    assert done.deviation.error <= 1e-9
    told = failure(done)
    assert "departs from the protocol's law" in told
    assert done.deviation.what in told
    assert len(told.splitlines()) == 1


def test_the_public_list_is_complete():
    assert {planted.fault for planted in PLANTED} == {fault.name for fault in FAULTS} == set(KINDS)


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
        blind.setattr(Batch, "raw_sizes", ())
        assert planted.audit(learn=True).passed
    done = planted.audit(learn=True)
    assert done.result.passed
    assert done.deviation is None
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
        assert NAMED[planted.fault] in failure(done)


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
    print_audit(Planted("own label", 0.0, 1_000).audit(learn=True), False)
    told = " ".join(capsys.readouterr().out.split())
    assert "power against too little noise only" in told
    assert "also looked for, without a stated power who submits together: the parity of every set of up to 12" in told
    assert "not looked for which labels several users submit together" in told
    print_audit(Planted("own label", 0.0, 1_000).audit(), False)
    assert "who submits together not looked for here" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
@pytest.mark.parametrize("members", [0, 2])
def test_the_sound_exchange_passes(seed, members):
    assert Planted("own label", 0.0, 5_000, members=members).audit(seed).passed


@pytest.mark.parametrize(
    "network",
    [
        {"start_window_s": 0.0, "latency": {"kind": "constant", "value_s": 0.1}},
        {"duplication": 0.5, "reordering": 0.3},
        {"bandwidth_bps": 1000.0},
    ],
    ids=["all at once", "copies", "slow links"],
)
@pytest.mark.parametrize("members", [0, 1])
@pytest.mark.slow_where(lambda network, members: members and "duplication" in network)
def test_networks_without_faults_pass(network, members):
    """Submissions that arrive at the same moment have no order of users; copies of messages are no second ones."""
    assert Planted("own label", 0.0, 5_000, 8, members=members).audit(**network).passed


@pytest.mark.parametrize("planted", [Planted("silence", 0.0, 4_000, 2, 0.3, 1.0), Planted("silence", 0.0, 4_000, 7)])
def test_small_clusters_and_full_sampling_pass(planted):
    assert planted.audit().passed


@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, marks=[pytest.mark.slow] * (at % 3 > 0), id=one.name) for at, one in enumerate(FAULTS)],
)
def test_the_stated_power_is_what_happens(fault, monkeypatch):
    """Half as much again as stated is caught, and a third of it passes."""
    sound = Planted(fault.name, 0.0, 6_000, 8, members=1 if fault.members else 0)
    [stated] = [found.strength for found in sound.audit().detections if found.fault is fault]
    assert stated is not None
    for share, caught in ((1.5, True), (1 / 3, False)):
        with monkeypatch.context() as patched:
            faulty = replace(sound, strength=share * stated)
            faulty.plant(patched)
            assert faulty.audit(seed=2).passed is not caught


def test_what_too_few_trials_cannot_find_is_said_with_what_it_takes(monkeypatch):
    """Detects a power that is claimed in vain: fresh flips in tiny clusters that submit little."""
    small = Planted("flips redrawn", 1.0, 1_000, 5, 0.2, 0.2)
    small.plant(monkeypatch)
    done = small.audit()
    [found] = [found for found in done.detections if found.fault.name == small.fault]
    assert (found.strength, done.passed) == (None, True)
    assert found.more is not None
    assert not replace(small, trials=int(1.5 * found.more * small.trials)).audit().passed
