"""The outcome of one run of a mechanism: the release, and what is recorded about the run."""

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
    """Interface of a learned classifier."""

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of the features (n, d)."""


@dataclass(frozen=True)
class LabelRelease:
    """The noisy data set that reaches a learner: labels for some users, never a true one.

    user: (m,) int32, ascending; the user with whose (public) features the label is learned.
    payload: (m, ...) the label: a class (hard), K bits, K probabilities (soft), K signed weights, or a number (values).
    candidates: (m, ceil(K/8)) packed bits or None; the classes among which each label was drawn, if public messages of
    other users determine these.
    """

    user: NDArray[np.int32]
    payload: NDArray[np.generic]
    kind: PayloadKind = "hard"
    candidates: NDArray[np.uint8] | None = None

    @staticmethod
    def of(payload: NDArray[np.generic], kind: PayloadKind = "hard") -> "LabelRelease":
        """A release with one label for each user 0..n-1, from payloads (n, ...)."""
        return LabelRelease(np.arange(len(payload), dtype=np.int32), payload, kind)

    def after(self, users: int) -> "LabelRelease":
        """These labels with user numbers raised by `users`, to join a shard to those before it."""
        return replace(self, user=self.user + users)

    def of_labels(self, chosen: NDArray[np.bool_]) -> "LabelRelease":
        """The release restricted to the labels that the mask `chosen` (m,) marks."""
        candidates = None if self.candidates is None else self.candidates[chosen]
        return LabelRelease(self.user[chosen], self.payload[chosen], self.kind, candidates)

    @staticmethod
    def join(parts: "Sequence[LabelRelease]") -> "LabelRelease":
        """One release of the labels of several shards, in the given order."""
        user, payload = (np.concatenate(column) for column in zip(*((p.user, p.payload) for p in parts), strict=True))
        among = [part.candidates for part in parts if part.candidates is not None]
        return LabelRelease(user, payload, parts[0].kind, np.concatenate(among) if among else None)

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Tally:
    """Counts of hard labels at each point of a known law, for runs that do not keep single labels.

    counts: (P, K) labels of each class at each point.
    """

    counts: NDArray[np.int64]

    @staticmethod
    def of(point: NDArray[np.integer], labels: NDArray[np.generic], shape: tuple[int, int]) -> "Tally":
        """Counts labels (m,) of users at points (m,) of the law; shape: (P, K)."""
        cell = point.astype(np.int64)
        cell *= shape[1]
        cell += labels.astype(np.uint8, copy=False)
        return Tally(np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape))

    def __len__(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True)
class ModelRelease:
    """The release of a mechanism that learns by itself: a predictor, and no labels.

    cells: number of released cells of the rule or density behind it; None: it has no cells.
    """

    predictor: Predictor
    cells: int | None = None


@dataclass(frozen=True, eq=False)
class DensityRelease:
    """The release of a mechanism that counts features in cells: a density that is constant on each cell, and no labels.

    coordinates: (m, d) the cells of positive density, in lexicographic order; cell j holds x with
    origin + j·side <= x < origin + (j+1)·side in each coordinate. masses: (m,) the mass of each, above 0; they need not
    add up to 1. side: length of a cell's edge. origin: a corner of cell 0. counts: (m,) noisy counts, if released too.
    """

    coordinates: NDArray[np.int64]
    masses: NDArray[np.float64]
    side: float
    origin: float = 0.0
    counts: NDArray[np.float64] | None = None

    @property
    def heights(self) -> NDArray[np.float64]:
        """Density (m,) in each cell: mass over volume."""
        return np.asarray(self.masses / self.side ** self.coordinates.shape[1])

    @staticmethod
    def moved(features: NDArray[np.floating], origin: float) -> NDArray[np.float64]:
        """Features (n, d) relative to the origin, with infinite or missing numbers replaced by finite ones."""
        with np.errstate(over="ignore"):
            return np.asarray(np.nan_to_num(features.astype(np.float64) - origin))


@dataclass(frozen=True)
class ByCluster:
    """Several clusters' predictors, by the cluster's number; each is for its own cluster's rows."""

    predictors: Mapping[int, Predictor]

    def probabilities(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of rows of unknown clusters: the mean over all clusters' predictors."""
        return np.asarray(np.mean([each.probabilities(features) for each in self.predictors.values()], axis=0))

    def within(self, features: NDArray[np.floating], cluster: NDArray[np.int64]) -> NDArray[np.float64]:
        """Predicted class probabilities (n, K) of at least one row, each by the predictor of its cluster (n,)."""
        parts = {c: self.predictors[c].probabilities(features[cluster == c]) for c in np.unique(cluster).tolist()}
        probabilities = np.empty((len(cluster), next(iter(parts.values())).shape[1]))
        for c, part in parts.items():
            probabilities[cluster == c] = part
        return probabilities


@dataclass(frozen=True)
class OrganisationFacts:
    """What a run recorded about organisations that exchange models; each tuple has one entry per organisation, (N,).

    epsilon: what its rows have paid, by the ledger. shown_to: other organisations that received its models.
    came: other organisations whose models it received in time. offline: never there, or away when a message came.
    """

    epsilon: tuple[float, ...]
    shown_to: tuple[tuple[int, ...], ...]
    came: tuple[tuple[int, ...], ...]
    offline: tuple[bool, ...]

    @property
    def arrived(self) -> tuple[int, ...]:
        """How many organisations' models each organisation received in time (N,)."""
        return tuple(map(len, self.came))


Release = LabelRelease | ModelRelease | DensityRelease
"""What a run releases."""


@dataclass(frozen=True)
class Outcome:
    """The result of one run of a mechanism; everything except the release exists only if messages were simulated.

    traffic: counts of messages. transcript: every delivered message, if it was recorded.
    arrival_s: (m,) when each label of the release reached the learner, seconds.
    realised: what is known of the network besides labels, for accounting. overlay: None if every user may ask every
    user.
    organisations: results of organisations that exchange models.
    If users are drawn shard by shard, only sums are kept: the release is a tally, `arrivals` holds the times, and
    `truth` counts the true labels, for results that are not private.
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
        """The release, if it consists of labels.

        Raises:
            InputError: the mechanism releases a model or a density.
        """
        if not isinstance(self.release, LabelRelease):
            raise InputError("mechanism: releases no labels, but a model or a density")
        return self.release

    @staticmethod
    def summed(parts: "Sequence[Outcome]") -> "Outcome":
        """The outcome of a run that keeps only sums, added up from its parts in the order of the shards."""
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
        """The outcome of a run, joined from its parts in the order of the shards; transcripts are left out."""
        times = [part.arrival_s for part in parts if part.arrival_s is not None]
        return Outcome(
            LabelRelease.join([part.labels for part in parts]),
            _traffic_of(parts),
            arrival_s=np.concatenate(times) if times else None,
            realised=_shards_of(parts),
            overlay=overlay,
        )


def _traffic_of(parts: Sequence[Outcome]) -> Traffic | None:
    """Message counts summed over all parts of a run; None if no part has sent any."""
    counts = [part.traffic for part in parts if part.traffic is not None]
    return sum(counts, Traffic()) if counts else None


def _shards_of(parts: Sequence[Outcome]) -> tuple[NetworkRecord, ...] | None:
    """Network records of all shards of a run, in order; None if no part has a record."""
    records = [part.realised for part in parts if part.realised is not None]
    return tuple(shard for record in records for shard in record) if records else None
