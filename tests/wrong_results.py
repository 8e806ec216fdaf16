"""A package whose kinds return something wrong if they are asked to: `fault` says what."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from own_learner import NearestMean, NearestMeanConfig
from own_mechanism import UnevenResponseConfig
from own_overlay import StarConfig
from own_population import MoonsConfig

from p2p_sim import extend


@dataclass(frozen=True)
class Wrongly(extend.Accountant):
    """A sound accountant's statements, spoilt."""

    sound: extend.Accountant
    fault: str

    @property
    def conditions(self):
        return {"one text": "all is well", "numbers": (1, 2)}.get(self.fault, self.sound.conditions)

    def delta(self, epsilon):
        right = self.sound.delta(epsilon)
        return {
            "no bracket": lambda: right.upper,
            "nan bracket": lambda: extend.Bracket(np.nan, np.nan),
            "turned": lambda: extend.Bracket(0.5, 0.1),
            "above one": lambda: extend.Bracket(0.0, 1.5),
        }.get(self.fault, lambda: right)()

    def epsilon(self, delta):
        bound = self.sound.epsilon(delta)
        return {
            "lower above": lambda: replace(bound, epsilon_lower=bound.epsilon_upper + 1),
            "below nothing": lambda: replace(bound, epsilon_lower=-2.0, epsilon_upper=-1.0),
            "martian": lambda: replace(bound, observer="martian"),
            "other delta": lambda: replace(bound, delta=delta / 2),
            "adjacency": lambda: replace(bound, adjacency="planet"),
            "number": lambda: 1.0,
        }.get(self.fault, lambda: bound)()


class Narrowly(Wrongly):
    def delta(self):
        return extend.Bracket(0.0, 1.0)


@dataclass
class Changeable(extend.Accountant):
    sound: extend.Accountant

    @property
    def conditions(self):
        return self.sound.conditions

    def delta(self, epsilon):
        return self.sound.delta(epsilon)


class AnswersConfig(UnevenResponseConfig):
    kind: Literal["answers"] = "answers"
    fault: str = ""

    @property
    def columns(self):
        right = UnevenResponseConfig.columns
        return {
            "no column": (extend.Column("kind", "text"),),
            "nowhere": (extend.Column("nothing", "none"),),
            "names alone": ("flip_prob",),
            "taken": (extend.Column("num_users", "another number"),),
        }.get(self.fault, right)

    @property
    def num_users(self):
        return 3.0

    def release(self, labels, features, clusters, streams):
        release = super().release(labels, features, clusters, streams)
        user, payload = release.user, release.payload
        many = len(user)
        return {
            "nan labels": lambda: extend.LabelRelease(user, np.full(many, np.nan)),
            "column": lambda: extend.LabelRelease(user, payload[:, None]),
            "one user": lambda: extend.LabelRelease(np.zeros_like(user), payload),
            "descending": lambda: extend.LabelRelease(user[::-1], payload),
            "strangers": lambda: extend.LabelRelease(user + many, payload),
            "negative": lambda: extend.LabelRelease(np.arange(-1, many - 1), payload),
            "few": lambda: extend.LabelRelease(user, payload[:-1]),
            "third class": lambda: extend.LabelRelease(user, payload + np.uint8(1)),
            "list of users": lambda: extend.LabelRelease(user.astype(float), payload),
            "soft": lambda: extend.LabelRelease(user, np.full((many, 2), 0.5), "soft"),
            "half users": lambda: extend.LabelRelease(user + 0.5, payload),
            "nothing": lambda: None,
            "model": lambda: extend.ModelRelease(NearestMean(np.zeros((2, 2)))),
        }.get(self.fault, lambda: release)()

    def transition(self, num_classes):
        right = super().transition(num_classes)
        return {
            "rows": lambda: right * 0.9,
            "negative rows": lambda: right * 3 - 1,
            "nan rows": lambda: right * np.nan,
            "wide rows": lambda: np.hstack([right, right]),
            "list of rows": lambda: right.tolist(),
        }.get(self.fault, lambda: right)()

    def calibrated(self, setup):
        return None if self.fault == "calibrated" else self

    def local_epsilon(self, sizes):
        return {"negative": -1.0, "nan": np.nan, "word": "3"}.get(
            self.fault.removesuffix(" ε"), super().local_epsilon(sizes)
        )

    def privacy(self, sizes, delta):
        bounds = super().privacy(sizes, delta)
        return {"too few": bounds[1:], "no list": None}.get(self.fault, bounds)

    def noise_law(self, outcome):
        law = super().noise_law(outcome)
        return {
            "law": lambda: 0.2,
            "classes of law": lambda: extend.NoiseLaw(np.full((1, 3, 3), 1 / 3)),
            "groups of law": lambda: replace(law, group=np.zeros(3, dtype=np.int64)),
        }.get(self.fault, lambda: law)()

    def accountant(self, setup, size):
        sound = super().accountant(setup, size)
        if self.fault in ("narrow", "changeable"):
            return Narrowly(sound, self.fault) if self.fault == "narrow" else Changeable(sound)
        return None if self.fault == "no accountant" else Wrongly(sound, self.fault)


class Vectors(AnswersConfig):
    kind: Literal["vectors"] = "vectors"
    shape: Literal["soft", "signed", "bits", "values"] = "soft"

    @property
    def releases(self):
        return self.shape

    def release(self, labels, features, clusters, streams):
        release = UnevenResponseConfig.release(self, labels, features, clusters, streams)
        one_hot = np.eye(2)[release.payload]
        payload = {"bits": lambda: np.packbits(one_hot.astype(bool), axis=1)}.get(self.shape, lambda: one_hot)()
        payload = {
            "infinite": lambda: payload + np.inf,
            "doubled": lambda: 2 * payload,
            "minus": lambda: payload * 3 - 1,
            "wide": lambda: np.hstack([payload, payload]),
            "words": lambda: payload.astype(np.uint16),
        }.get(self.fault, lambda: payload)()
        return extend.LabelRelease(release.user, payload, self.shape)


class ModelConfig(UnevenResponseConfig):
    kind: Literal["modelled"] = "modelled"
    whole: ClassVar[bool] = True
    fault: str = ""

    @property
    def releases(self):
        return "model"

    def release(self, labels, features, clusters, streams):
        return extend.ModelRelease(3.0 if self.fault == "no model" else Said(self.fault))


class Mute:
    def probabilities(self):
        return None


@dataclass(frozen=True)
class Said:
    fault: str

    def probabilities(self, features):
        right = np.full((len(features), 2), 0.5)
        return {
            "nan": right * np.nan,
            "infinite": right + np.inf,
            "list": right.tolist(),
            "negative": right * [3, -1],
            "sums": right * 2,
            "flat": right[:, 0],
            "none": None,
            "turned": right.T,
            "classes": np.full((len(features), 3), 1 / 3),
            "integers": right.astype(int),
        }.get(self.fault, right)


class SaysConfig(NearestMeanConfig):
    kind: Literal["says"] = "says"
    fault: str = ""
    when: str = "release"

    def fit(self, features, weights):
        return Said(self.fault) if self.when == "truth" else super().fit(features, weights)

    def learn(self, received):
        right = super().fit(received.rows, received.weights)
        none = {"nobody": None, "mute": Mute()}
        if self.fault in none:
            return none[self.fault]
        return Said(self.fault) if self.when == "release" else right


class FitsConfig(NearestMeanConfig):
    kind: Literal["fits"] = "fits"
    fault: str = ""

    def fit(self, features, weights):
        return 3 if self.fault else super().fit(features, weights)


class DrawnConfig(MoonsConfig):
    kind: Literal["drawn"] = "drawn"
    fault: str = ""

    def sample(self, places, streams):
        sample = super().sample(places, streams)
        users, held = sample.users, sample.holdout
        n = len(users.labels)
        here = np.zeros(n, dtype=np.int32)
        law = extend.FiniteLaw(np.zeros((2, 2)), np.full(2, 0.5), np.full((2, 2), 0.5), np.zeros(2, dtype=np.int64))

        def with_law(point, **wrong):
            return replace(sample, holdout=None, law=replace(law, **wrong), point=point)

        return {
            "nothing": lambda: None,
            "nan features": lambda: replace(sample, users=replace(users, features=users.features * np.nan)),
            "nan held out": lambda: replace(sample, holdout=replace(held, features=held.features * np.nan)),
            "list": lambda: replace(sample, users=replace(users, labels=users.labels.tolist())),
            "column": lambda: replace(sample, users=replace(users, labels=users.labels[:, None])),
            "nan labels": lambda: replace(sample, users=replace(users, labels=users.labels * np.nan)),
            "fewer labels": lambda: replace(sample, users=replace(users, labels=users.labels[1:])),
            "wider": lambda: replace(sample, holdout=replace(held, features=np.hstack([held.features] * 2))),
            "third class": lambda: replace(sample, users=replace(users, labels=users.labels + np.uint8(1))),
            "nobody": lambda: replace(sample, users=extend.Examples(users.features[:0], users.labels[:0])),
            "flat": lambda: replace(sample, users=replace(users, features=users.features[:, 0])),
            "pair": lambda: (users, held),
            "one class": lambda: replace(sample, num_classes=1),
            "half a class": lambda: replace(sample, num_classes=2.5),
            "cluster": lambda: replace(sample, users=replace(users, cluster=np.full(n, 0.5))),
            "row": lambda: replace(sample, users=replace(users, row=np.zeros(n - 1, dtype=np.int32))),
            "unmeasured": lambda: replace(sample, holdout=None),
            "mass": lambda: with_law(here, mass=np.full(2, 0.7)),
            "negative mass": lambda: with_law(here, mass=np.array([1.5, -0.5])),
            "law of labels": lambda: with_law(here, label_distribution=np.full((2, 2), np.nan)),
            "shape of law": lambda: with_law(here, cluster=np.zeros(3, dtype=np.int64)),
            "far point": lambda: with_law(np.full(n, 2, dtype=np.int32)),
            "no point": lambda: with_law(None),
            "values": lambda: replace(sample, values=(1.0, 0.0)),
        }.get(self.fault, lambda: sample)()


class WebConfig(StarConfig):
    kind: Literal["web"] = "web"
    fault: str = ""

    def expected_degree(self, size):
        return {"nan degree": np.nan, "negative degree": -1.0, "no degree": None}.get(self.fault, 2.0)

    def graph(self, size, seed):
        right = super().graph(size, seed)
        return {
            "floats": right + 0.0,
            "list": right.tolist(),
            "triples": np.hstack([right, right[:, :1]]),
            "nothing": None,
            "number": np.array(3),
            "flat": right[:, 0],
            "below": right - 1,
            "loop": right * 0,
            "twice": np.vstack([right, right]),
            "away": right + size,
        }.get(self.fault, right)


class NoiseConfig(extend.NetworkFault):
    kind: Literal["noise"] = "noise"
    fault: str = ""

    def delay_s(self, messages):
        right = np.zeros(messages.user.size)
        return {"nan": right * np.nan, "back in time": right - 1, "never": right + np.inf, "one number": 0.5}.get(
            self.fault, right
        )

    def lost(self, messages):
        right = np.zeros(messages.user.size, dtype=bool)
        by_neighbour = np.arange(right.size) < right.size // 2  # depends on the place in the array
        wrong = {"floats": right + 0.0, "nothing": None, "longer": np.append(right, True), "by neighbour": by_neighbour}
        return (
            np.random.default_rng().random(right.size) < 0.5
            if self.fault == "own dice"
            else wrong.get(self.fault, right)
        )

    def duplicated(self, messages):
        right = np.zeros(messages.user.size, dtype=bool)
        return {"numbers": right + 0, "column": right[:, None]}.get(self.fault, right)

    def corrupted(self, messages, payload, num_classes):
        return {
            "labels": lambda: payload + np.uint8(2),
            "vectors": lambda: payload * np.nan,
            "list": lambda: payload.tolist(),
            "wide": lambda: np.stack([payload, payload]),
            "wider type": lambda: payload.astype(np.int64),
        }.get(self.fault, lambda: payload)()


class Behaves(extend.Protocol):
    def __init__(self, fault):
        self.fault = fault

    def user(self, me):
        if self.fault == "no yield at all":
            me.submit(me.ask().label)
        return None if self.fault == "no generator" else self.steps(me)

    def steps(self, me):
        reply = yield {"number": 3, "nothing": None, "reply": extend.Reply(0, 0)}.get(self.fault, me.ask())
        if self.fault == "no yield":
            me.submit(me.ask().label)
        submitted = {
            "class 2": 2,
            "class -1": -1,
            "half a class": 0.5,
            "word": "0",
            "none": None,
            "from nobody": extend.Reply(0, 10**6),
            "reply of a word": extend.Reply("0", 0),
        }.get(self.fault)
        if reply is not None or submitted is not None or self.fault == "none":
            me.submit(reply if submitted is None and self.fault != "none" else submitted)
        peers = {"to nobody": 10**6, "to -1": -1, "to a half": 0.5, "to none": None}
        payloads = {"word sent": "0", "nan sent": float("nan"), "unasked": 1}
        if self.fault in {**peers, **payloads}:
            me.send(peers.get(self.fault, me.number), payloads.get(self.fault, 1))
        seconds = {"back in time": -1.0, "never": float("inf"), "word waited": "1"}.get(self.fault, 0.1)
        yield me.wait(seconds)
        probability = {"probability": 1.5, "nan coin": np.nan}.get(self.fault, 0.5)
        me.coin(0 if self.fault == "nameless" else "toss", probability)

    def answer(self, me, request):
        if request.payload is not None:
            return 1 if self.fault == "unasked" else None
        answers = {"string": "0", "half": 0.5, "class 2 answered": 2, "reply answered": extend.Reply(0, 0)}
        return answers.get(self.fault, me.noisy_label)


class Narrow(extend.Protocol):
    def user(self):
        yield


class BehavesConfig(extend.ProtocolConfig):
    kind: Literal["behaves"] = "behaves"
    fault: str = ""

    def protocol(self):
        return {"no protocol": None, "class": Behaves, "narrow": Narrow()}.get(self.fault, Behaves(self.fault))
