"""What a plug-in hands over is checked where it enters: one line names the package and the method."""

import pytest

import p2p_sim
from p2p_sim.base import plugins
from p2p_sim.base.errors import RunFailed
from p2p_sim.scenario import Scenario
from tests.commands import command
from tests.plug_ins import install

MODULE = """
from dataclasses import replace
from typing import Literal
import numpy as np
from p2p_sim import extend
from own_mechanism import SilentResponse, SilentResponseConfig

class Wrong(SilentResponse):
    def release_shard(self, shard, population, streams):
        return {release}
    def privacy(self, sizes, delta):
        good = super().privacy(sizes, delta)
        return {privacy}

class WrongConfig(SilentResponseConfig):
    kind: Literal["wrong"] = "wrong"
    def build(self, sizes, num_classes, delta, *_):
        return Wrong(extend.RandomizedResponse(self.flip_prob, num_classes), self.sampling_rate)

class Model:
    def probabilities(self, features):
        return {probabilities}

class WrongLearner(extend.Learner):
    kind: Literal["wrong_learner"] = "wrong_learner"
    def fit(self, features, labels, num_classes):
        return Model()
    def fit_release(self, features, release, num_classes, cluster_offsets):
        return Model()

class WrongPeople(extend.Source):
    kind: Literal["wrong_people"] = "wrong_people"
    def sample(self, places, streams):
        rows = extend.Examples({features}, np.arange(60, dtype=np.uint8) % 2)
        return extend.Sample(rows, 2, rows)
"""
GOOD = {
    "release": "super().release_shard(shard, population, streams)",
    "privacy": "good",
    "probabilities": "np.full((len(features), 2), 0.5)",
    "features": "np.zeros((60, 2))",
}
MANY = "np.arange(shard.start, shard.stop, dtype=np.int32)"


def scenario(installed, **parts: str) -> Scenario:
    install(installed, "spoilt", "1.5", {
        "p2p_sim.mechanisms": {"wrong": "spoilt:WrongConfig"},
        "p2p_sim.learners": {"wrong_learner": "spoilt:WrongLearner"},
        "p2p_sim.populations": {"wrong_people": "spoilt:WrongPeople"},
    }, None)  # fmt: skip
    text = MODULE
    for name, code in {**GOOD, **parts}.items():
        text = text.replace("{" + name + "}", code)
    (installed / "spoilt.py").write_text(text)
    plugins.offers.cache_clear()
    return Scenario.from_tree({
        "name": "x", "engine": "vectorised", "clusters": {"kind": "kmeans", "count": 1},
        "population": {"kind": "wrong_people"} if "features" in parts else {"kind": "synthetic", "users": 60},
        "mechanism": {"kind": "wrong", "flip_prob": 0.2},
        "learner": {"kind": "wrong_learner"},
    })  # fmt: skip


RELEASE, PRIVACY, LEARNER = (
    f"{method} of {key}.kind = 'wrong{ending}': " if method else f"the predictor of {key}.kind = 'wrong{ending}': "
    for method, key, ending in (
        ("release_on", "mechanism", ""),
        ("privacy", "mechanism", ""),
        ("", "learner", "_learner"),
    )
)
LABELS = RELEASE + "labels must be whole numbers in 0..1"
SUBMITTED = {  # what the users submit, by the fault that is found
    f"{MANY}, np.full(shard.size, np.nan)": RELEASE + "payload holds NaN",
    f"{MANY}, np.zeros((shard.size, 1), np.uint8)": RELEASE + "payload of kind 'hard' has shape .*; it must be \\(m\\)",
    f"{MANY}, np.full(shard.size, 2, np.uint8)": LABELS,
    f"{MANY}, np.full(shard.size, 0.5)": LABELS,
    "np.zeros(shard.size, np.int32), np.zeros(shard.size, np.uint8)": RELEASE + ".* each user submits once at most",
    f"{MANY} + 60, np.zeros(shard.size, np.uint8)": RELEASE + "users must lie in 0..59",
    f"{MANY}, np.zeros((shard.size, 2)), 'soft'": RELEASE + "releases 'soft' where its configuration says 'hard'",
}
STATED = {
    "epsilon_lower=9.0": PRIVACY + "epsilon_lower = 9 and epsilon_upper = .*: must be at least 0, the lower one first",
    "epsilon_lower=-2.0, epsilon_upper=-1.0": PRIVACY + ".* must be at least 0",
    "observer='martian'": PRIVACY + "observer 'martian' is not one of learner,",
    "adjacency='row'": PRIVACY + "adjacency 'row' is not one of label, example",
    "delta=0.1": PRIVACY + "delta = 0.1: must be at most the scenario's, 1e-05",
}
PREDICTED = {
    "np.full((len(features), 1), 1.0)": LEARNER + "probabilities has shape",
    "np.full((len(features), 2), np.nan)": LEARNER + "probabilities must be finite and at least 0",
    "np.tile([-1.0, 2.0], (len(features), 1))": LEARNER + "probabilities must be finite and at least 0",
}
FAULTS = [
    *(("release", f"extend.LabelRelease({code})", message) for code, message in SUBMITTED.items()),
    *(("privacy", f"[replace(b, {code}) for b in good]", message) for code, message in STATED.items()),
    *(("probabilities", code, message) for code, message in PREDICTED.items()),
    (
        "features",
        "np.full((60, 2), np.inf)",
        "sample of population.kind = 'wrong_people': users: features must be finite",
    ),
]


@pytest.mark.parametrize(("part", "code", "message"), FAULTS)
def test_what_a_plug_in_hands_over_is_checked(installed, part, code, message):
    with pytest.raises(RunFailed, match=f"^plug-in spoilt 1.5: .*{message}"):
        p2p_sim.run(scenario(installed, **{part: code}))


def test_what_is_right_passes(installed):
    assert p2p_sim.run(scenario(installed)).row["epsilon_upper"] > 0.0


def test_the_command_ends_with_one_line(installed, tmp_path):
    made = scenario(installed, privacy="[replace(b, observer='martian') for b in good]")
    file = tmp_path / "x.toml"
    file.write_text('name = "x"\nengine = "vectorised"\n[population]\nkind = "synthetic"\nusers = 60\n'
                    '[clusters]\nkind = "kmeans"\ncount = 1\n[mechanism]\nkind = "wrong"\nflip_prob = 0.2\n'
                    '[learner]\nkind = "wrong_learner"\n')  # fmt: skip
    assert made.mechanism.kind == "wrong"
    status, _, err = command("run", file, "--out", tmp_path / "out")
    assert status != 0
    assert "plug-in spoilt 1.5: privacy of mechanism.kind = 'wrong': observer 'martian'" in err
    assert "Traceback" not in err
