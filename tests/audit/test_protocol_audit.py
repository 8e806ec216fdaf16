"""Audits of plug-ins' protocols and mechanisms: sound ones pass, noise that is drawn twice and true labels are caught.

Each audit fails a sound mechanism with probability at most 1e-9; seeds are fixed.
"""

import importlib
from dataclasses import dataclass, replace

import numpy as np
import pytest

from p2p_sim.audit.protocol_attack import audit_protocol
from p2p_sim.audit.small_exchange_attack import audit
from p2p_sim.base.errors import InputError
from p2p_sim.exchange.protocol import Protocol
from p2p_sim.mechanisms.randomized_response import RandomizedResponse
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import prepare
from p2p_sim.scenario import Scenario, load_scenario
from tests.plug_ins import EXAMPLE, install


@pytest.fixture
def asked(installed) -> Replicate:
    return Replicate(load_scenario(EXAMPLE / "second_opinion.toml").replace(**{"population.users": 2_000}))


@dataclass(frozen=True)
class Indiscreet(RandomizedResponse):
    """Planted: what protocols must not have, the true labels and a second draw of the noise."""

    def randomize(self, labels, rng):
        Behaviour.true, Behaviour.second = (
            labels.copy(),
            super().randomize(labels, np.random.default_rng(rng.integers(2**32))),
        )
        return super().randomize(labels, rng)


class Behaviour(Protocol):
    """Asks a peer, and submits her own noisy label."""

    def user(self, me):
        yield me.ask()
        me.submit(self.submitted(me))

    def submitted(self, me):
        return me.noisy_label


class Twice(Behaviour):
    """Planted: peers get one noisy label and the learner another."""

    def submitted(self, me):
        return int(self.second[me.number])


class Truthful(Behaviour):
    """Planted: a tenth of the replies is the true label."""

    def answer(self, me, request):
        return int(self.true[me.number]) if me.coin("true", 0.1) else me.noisy_label


def planted(asked: Replicate, protocol: Protocol, randomizer=Indiscreet):
    sound = prepare(asked).mechanism
    return replace(sound, protocol=protocol, randomizer=randomizer(sound.randomizer.flip_prob))


def test_the_example_passes_and_proves_most_of_the_noise(asked):
    done = audit(asked.scenario, trials=6_000)
    assert done.passed
    assert done.engine == "processes"
    assert done.epsilon_attacked > 0.7 * done.bound.epsilon_upper


def test_noise_drawn_once_passes_and_twice_is_caught(asked):
    """The same behaviour, with the learner's label once drawn anew."""
    assert audit_protocol(asked, 6_000, mechanism=planted(asked, Behaviour())).passed
    assert not audit_protocol(asked, 6_000, mechanism=planted(asked, Twice())).passed


def test_a_true_label_in_a_tenth_of_the_replies_is_caught(asked):
    assert not audit_protocol(asked, 20_000, mechanism=planted(asked, Truthful())).passed


MECHANISM = """
from typing import Literal
import numpy as np
from p2p_sim import extend
from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse

class Config(extend.Mechanism):
    kind: Literal["blocks"] = "blocks"
    claimed: float = 0.2
    flip_prob: float = 0.2

    def release(self, labels, features, clusters, streams):
        flips = streams.generator("flip").random(labels.size) < self.flip_prob
        places = streams.generator("shuffle").random(labels.size)
        order = np.lexsort((places, np.repeat(np.arange(len(clusters) - 1), np.diff(clusters))))
        return extend.LabelRelease.of((labels ^ flips).astype(np.uint8)[order])

    def accountant(self, setup, size):
        return ShuffledResponse(size, self.claimed, 2)
"""


def test_any_mechanism_that_releases_labels_is_audited_by_its_accountant(folder):
    """Planted: a quarter of the noise that the accountant has."""
    install(folder, "blocks", "1.0", {"p2p_sim.mechanisms": {"blocks": "blocks:Config"}}, MECHANISM)
    importlib.invalidate_caches()
    users = {"kind": "synthetic", "users": 3000, "num_clusters": 100}
    for flip_prob, passes in ((0.2, True), (0.05, False)):
        tree = {"name": "blocks", "population": users, "mechanism": {"kind": "blocks", "flip_prob": flip_prob}}
        done = audit(Scenario.from_tree(tree), trials=20_000)
        assert done.passed is passes
        assert done.attacked[0] > 0.0


def test_other_mechanisms_are_refused(asked):
    tree = {"name": "other", "mechanism": {"kind": "randomized_response", "flip_prob": 0.2}}
    with pytest.raises(InputError, match="not a protocol of noisy labels"):
        audit_protocol(Replicate(Scenario.from_tree(tree)), 1_000)
