"""What one run of a mechanism leaves behind: a release, and what is known of the run besides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base.errors import InputError
from p2p_sim.exchange.network_record import NetworkRecord
from p2p_sim.exchange.randomizer import PayloadKind
from p2p_sim.exchange.traffic import Arrivals, Traffic
from p2p_sim.exchange.transcript import Transcript
from p2p_sim.network.overlay import Overlay

ReleaseKind = Literal["hard", "bits", "soft", "signed", "values", "model", "density"]
"""What a release is made of: labels with such payloads, a model, or a density of features."""


class Predictor(Protocol):
    """A learned model that predicts class probabilities."""

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of the features (n, d)."""


@dataclass(frozen=True)
class LabelRelease:
    """The noisy data set that reaches a learner: labels for some users, never a true one.

    user: (m,) int32, ascending; the user with whose (public) features the label is learned.
    payload: (m, ...) the label: a class (hard), K bits, K probabilities (soft), K signed weights, or a number (values).
    candidates: (m, ceil(K/8)) packed bits; the classes among which each label was drawn, where public messages of
    others decide it.
    """

    user: NDArray[np.int32]
    payload: NDArray[np.generic]
    kind: PayloadKind = "hard"
    candidates: NDArray[np.uint8] | None = None

    @staticmethod
    def of(payload: NDArray[np.generic], kind: PayloadKind = "hard") -> "LabelRelease":
        """The release of a label for every user, under her own name or that of another user of her cluster."""
        return LabelRelease(np.arange(len(payload), dtype=np.int32), payload, kind)

    def after(self, users: int) -> "LabelRelease":
        """The same labels, their users numbered after `users` others."""
        return replace(self, user=self.user + users)

    def of_labels(self, chosen: NDArray[np.bool_]) -> "LabelRelease":
        """The release of some of the labels alone, those that are chosen (m,)."""
        candidates = None if self.candidates is None else self.candidates[chosen]
        return LabelRelease(self.user[chosen], self.payload[chosen], self.kind, candidates)

    @staticmethod
    def join(parts: "Sequence[LabelRelease]") -> "LabelRelease":
        """The labels of several releases in one, one after another."""
        user, payload = (np.concatenate(column) for column in zip(*((p.user, p.payload) for p in parts), strict=True))
        among = [part.candidates for part in parts if part.candidates is not None]
        return LabelRelease(user, payload, parts[0].kind, np.concatenate(among) if among else None)

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Tally:
    """Hard labels of users at the points of a known law, counted; nobody knows any more whose labels these are.

    counts: (P, K) labels of each class at each point.
    """

    counts: NDArray[np.int64]

    @staticmethod
    def of(point: NDArray[np.integer], labels: NDArray[np.generic], shape: tuple[int, int]) -> "Tally":
        """Count labels (m,) of users at points (m,); shape: (P, K)."""
        cell = point.astype(np.int64)
        cell *= shape[1]
        cell += labels.astype(np.uint8, copy=False)
        return Tally(np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape))

    def __len__(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True)
class ModelRelease:
    """The release of a mechanism that learns by itself: a predictor, and no labels.

    cells: how many cells the rule or the density behind it has that are released; None: it has none.
    """

    predictor: Predictor
    cells: int | None = None


@dataclass(frozen=True, eq=False)
class DensityRelease:
    """The release of a mechanism that counts features in cells: a density that is constant on each, and no labels.

    coordinates: (m, d) the cells where it is above 0, in lexicographic order; cell j holds x with
    origin + j·side <= x < origin + (j+1)·side in each coordinate. masses: (m,) the mass of each, above 0; they need not
    add up to 1. side: of a cell. origin: a corner of cell 0. counts: (m,) noisy counts, where these are released too.
    """

    coordinates: NDArray[np.int64]
    masses: NDArray[np.float64]
    side: float
    origin: float = 0.0
    counts: NDArray[np.float64] | None = None

    @property
    def heights(self) -> NDArray[np.float64]:
        """The density in each cell (m,)."""
        return np.asarray(self.masses / self.side ** self.coordinates.shape[1])

    @staticmethod
    def moved(features: NDArray[np.floating], origin: float) -> NDArray[np.float64]:
        """Features (n, d) as differences from the origin, all finite."""
        with np.errstate(over="ignore"):
            return np.asarray(np.nan_to_num(features.astype(np.float64) - origin))


@dataclass(frozen=True)
class ByCluster:
    """Several clusters' predictors, by the cluster's number; each is for its own cluster's rows."""

    predictors: Mapping[int, Predictor]

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) where nobody knows whose rows these are: the mean over the clusters."""
        return np.asarray(np.mean([each.probabilities(features) for each in self.predictors.values()], axis=0))

    def within(self, features: NDArray[np.floating], cluster: NDArray[np.int64]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of rows whose clusters (n,) are known; at least one row."""
        parts = {c: self.predictors[c].probabilities(features[cluster == c]) for c in np.unique(cluster).tolist()}
        probabilities = np.empty((len(cluster), next(iter(parts.values())).shape[1]))
        for c, part in parts.items():
            probabilities[cluster == c] = part
        return probabilities


@dataclass(frozen=True)
class OrganisationFacts:
    """What happened to organisations that exchange models; tuples have an entry for each of N organisations.

    epsilon: what its rows have paid, by the ledger. shown_to: the others that have seen its models. came: the others
    whose models it had in time. offline: never there, or away when a message came.
    """

    epsilon: tuple[float, ...]
    shown_to: tuple[tuple[int, ...], ...]
    came: tuple[tuple[int, ...], ...]
    offline: tuple[bool, ...]

    @property
    def arrived(self) -> tuple[int, ...]:
        """How many models of others each organisation had in time."""
        return tuple(map(len, self.came))


Release = LabelRelease | ModelRelease | DensityRelease
"""What a run releases."""


@dataclass(frozen=True)
class Outcome:
    """The result of one run of a mechanism; everything except the release exists only if messages were simulated.

    traffic: counts. transcript: every delivered message, if it was recorded.
    arrival_s: (m,) when each label of the release reached the learner, seconds. realised: what is known of the run
    besides labels, by which it is accounted for. overlay: None if every user may ask every user.
    organisations: results of organisations that exchange models.
    Of users who are drawn shard by shard there are only sums: the release is a tally, `arrivals` holds the times, and
    `truth` counts the true labels, for the columns without privacy.
    """

    release: Release | Tally
    traffic: Traffic | None = None
    transcript: Transcript | None = None
    arrival_s: NDArray[np.float64] | None = None
    realised: tuple[NetworkRecord, ...] | None = None
    overlay: Overlay | None = None
    organisations: OrganisationFacts | None = None
    arrivals: Arrivals | None = None
    truth: Tally | None = None

    @property
    def labels(self) -> LabelRelease:
        """The released labels.

        Raises:
            InputError: the mechanism releases a model or a density.
        """
        if not isinstance(self.release, LabelRelease):
            raise InputError("mechanism: releases no labels, but a model or a density")
        return self.release

    @staticmethod
    def summed(parts: "Sequence[Outcome]") -> "Outcome":
        """The outcome of a run of which only sums are kept, from those of its parts in the order of the shards."""
        arrivals = Arrivals()
        for part in parts:
            arrivals.add(part.arrivals or Arrivals())
        released = [part.release.counts for part in parts if isinstance(part.release, Tally)]
        truth = [part.truth.counts for part in parts if part.truth is not None]
        return Outcome(
            Tally(np.sum(released, axis=0)),
            _traffic_of(parts),
            realised=_shards_of(parts),
            arrivals=arrivals,
            truth=Tally(np.sum(truth, axis=0)),
        )

    @staticmethod
    def join(parts: "Sequence[Outcome]", overlay: Overlay | None = None) -> "Outcome":
        """The outcome of a run from those of its parts, in the order of the shards; transcripts are left out."""
        times = [part.arrival_s for part in parts if part.arrival_s is not None]
        return Outcome(
            LabelRelease.join([part.labels for part in parts]),
            _traffic_of(parts),
            arrival_s=np.concatenate(times) if times else None,
            realised=_shards_of(parts),
            overlay=overlay,
        )


def _traffic_of(parts: Sequence[Outcome]) -> Traffic | None:
    """The messages of all parts of a run, counted; None if no part has sent any."""
    counts = [part.traffic for part in parts if part.traffic is not None]
    return sum(counts, Traffic()) if counts else None


def _shards_of(parts: Sequence[Outcome]) -> tuple[NetworkRecord, ...] | None:
    """What is known of the shards of all parts of a run, besides labels; None if no part has a record."""
    records = [part.realised for part in parts if part.realised is not None]
    return tuple(shard for record in records for shard in record) if records else None
