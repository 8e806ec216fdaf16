"""The outcome of one run of a mechanism: the release, and what is recorded about the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError
from p2p_sim.exchange import Arrivals, NetworkRecord, PayloadKind, Traffic, Transcript
from p2p_sim.network import Overlay

Floats = NDArray[np.float64]
ReleaseKind = Literal["hard", "bits", "soft", "signed", "values", "model", "density"]
"""What a release consists of: labels with one of the first five payloads, a model, or a density estimate."""


class Predictor(Protocol):
    """Interface of a learned classifier."""

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K) of the features (n, d)."""


@dataclass(frozen=True)
class LabelRelease:
    """The noisy labels of some users that reach a learner.

    user: (m,) int32, ascending; the user of each label, whose public features the learner uses with the label. payload:
    (m, ...) the labels: classes (hard), K bits, K probabilities (soft), K signed weights, or numbers (values).
    candidates: packed bits (m, ceil(K/8)), the classes among which each label was drawn. None: other
    users' messages do not decide on these classes.
    """

    user: NDArray[np.int32]
    payload: NDArray[np.generic]
    kind: PayloadKind = "hard"
    candidates: NDArray[np.uint8] | None = None

    @staticmethod
    def of(payload: NDArray[np.generic], kind: PayloadKind = "hard") -> "LabelRelease":
        """A release with one label for each of n users, numbered from 0.

        Args:
            payload: (n, ...) the labels. kind: what a label is: "hard" (a class), "bits" (K packed bits), "soft" (K
            class probabilities), "signed" (K weights, perhaps below 0), or "values" (a number).
        """
        return LabelRelease(np.arange(len(payload), dtype=np.int32), payload, kind)

    def of_labels(self, chosen: NDArray[np.bool_]) -> "LabelRelease":
        """The release restricted to the chosen ones of its m labels.

        Args:
            chosen: (m,), whether each released label is kept.
        """
        candidates = None if self.candidates is None else self.candidates[chosen]
        return LabelRelease(self.user[chosen], self.payload[chosen], self.kind, candidates)

    @staticmethod
    def join(parts: "Sequence[LabelRelease]") -> "LabelRelease":
        """One release with the labels of several shards (groups of whole clusters). Users keep their numbers."""
        user, payload = (np.concatenate(column) for column in zip(*((p.user, p.payload) for p in parts), strict=True))
        among = [part.candidates for part in parts if part.candidates is not None]
        return LabelRelease(user, payload, parts[0].kind, np.concatenate(among) if among else None)

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Tally:
    """Numbers of hard labels at each possible point of the features, for runs that keep no single labels.

    counts: (P, K) number of labels of each class at each of P points.
    """

    counts: NDArray[np.int64]

    @staticmethod
    def of(point: NDArray[np.integer], labels: NDArray[np.generic], shape: tuple[int, int]) -> "Tally":
        """The numbers (P, K) of labels of each of K classes at each of P points. Features take only these P values. A
        learner needs nothing else from hard labels. For very many users, these numbers need less memory than labels.

        Args:
            point: (m,) index of each user's point, 0 to P-1. labels: (m,) her class. shape: (P, K).
        """
        cell = point.astype(np.int64)
        cell *= shape[1]
        cell += labels.astype(np.uint8, copy=False)
        return Tally(np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape))


@dataclass(frozen=True)
class ModelRelease:
    """The release of a mechanism that learns by itself: a predictor, and no labels.

    cells: number of cells of feature space for which the mechanism released a value; None: the predictor does not use
    cells.
    """

    predictor: Predictor
    cells: int | None = None


@dataclass(frozen=True, eq=False)
class DensityRelease:
    """A released density of features. The density is constant on each cell of a grid.

    coordinates: (m, d) integer coordinates of the cells of positive density, in lexicographic order. Cell j holds the
    points x with origin + j·side <= x < origin + (j+1)·side in each coordinate. masses: (m,) mass of each cell, above
    0; the sum need not be 1. side: length of a cell's edge. origin: a corner of cell 0. counts: (m,) noisy counts, if
    released.
    """

    coordinates: NDArray[np.int64]
    masses: Floats
    side: float
    origin: float = 0.0
    counts: Floats | None = None

    @property
    def heights(self) -> Floats:
        """Density (m,) in each cell: mass over volume."""
        return np.asarray(self.masses / self.side ** self.coordinates.shape[1])

    @staticmethod
    def moved(features: NDArray[np.floating], origin: float) -> Floats:
        """The features (n, d) less `origin`, a number at which a cell of the grid begins. NaN becomes 0. An infinite
        number becomes the largest finite number of its sign.
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.nan_to_num(features.astype(np.float64) - origin))


@dataclass(frozen=True)
class ByCluster:
    """A predictor for each cluster, by the cluster's number. A predictor predicts the rows of its cluster."""

    predictors: Mapping[int, Predictor]

    def probabilities(self, features: NDArray[np.floating]) -> Floats:
        """Predicted class probabilities (n, K) of n rows of unknown clusters: the mean over all predictors, with equal
        weights.

        Args:
            features: (n, d).
        """
        return np.asarray(np.mean([each.probabilities(features) for each in self.predictors.values()], axis=0))

    def within(self, features: NDArray[np.floating], cluster: NDArray[np.int64]) -> Floats:
        """Predicted class probabilities (n, K) of n >= 1 rows. The predictor of cluster[i] predicts row i."""
        parts = {c: self.predictors[c].probabilities(features[cluster == c]) for c in np.unique(cluster).tolist()}
        probabilities = np.empty((len(cluster), next(iter(parts.values())).shape[1]))
        for c, part in parts.items():
            probabilities[cluster == c] = part
        return probabilities


@dataclass(frozen=True)
class OrganisationFacts:
    """Records of a run about N organisations that exchange models. Each tuple has an entry for each organisation.

    epsilon: ε that the organisation spent, by the ledger of its releases. shown_to: indices of the other organisations
    that received the organisation's models. came: indices of the other organisations whose models arrived in time.
    offline: whether the organisation was never online, or was offline when a message arrived.
    """

    epsilon: tuple[float, ...]
    shown_to: tuple[tuple[int, ...], ...]
    came: tuple[tuple[int, ...], ...]
    offline: tuple[bool, ...]

    @property
    def arrived(self) -> tuple[int, ...]:
        """For each of N organisations, the number of others whose models arrived in time."""
        return tuple(map(len, self.came))


Release = LabelRelease | ModelRelease | DensityRelease
"""What a run releases."""


@dataclass(frozen=True)
class Outcome:
    """The result of one run of a mechanism. A field is None if the run did not record it.

    traffic: counts of messages. transcript: every delivered message, if a transcript was asked for.
    arrival_s: (m,) time in seconds at which each released label reached the learner. If organisations exchange models:
    the ascending times at which organisations received the models that they used.
    realised: for each shard (group of whole clusters), what happened on the network, for privacy accounting; no labels.
    overlay: whom each user may ask; None: everybody of her cluster.
    organisations: facts about organisations that exchange models.
    arrivals, truth: arrival times, and numbers of true labels, for a run that draws users shard by shard. Such a run
    keeps only sums, and its release is a `Tally`. Results that are not private use `truth`.
    """

    release: Release | Tally
    traffic: Traffic | None = None
    transcript: Transcript | None = None
    arrival_s: Floats | None = None
    realised: tuple[NetworkRecord, ...] | None = None
    overlay: Overlay | None = None
    organisations: OrganisationFacts | None = None
    arrivals: Arrivals | None = None
    truth: Tally | None = None

    @property
    def labels(self) -> LabelRelease:
        """The release, if it consists of labels.

        Raises:
            InputError: the release is a model, a density, or only counts of labels.
        """
        if not isinstance(self.release, LabelRelease):
            raise InputError("mechanism: releases no labels, but a model or a density")
        return self.release

    @staticmethod
    def join(parts: "Sequence[Outcome]", overlay: Overlay | None = None) -> "Outcome":
        """The outcome of a run, joined from the outcomes of its shards in their order. Transcripts are left out.

        Args:
            parts: the outcomes. Either all hold labels, or all hold only counts of released and true labels. overlay:
            whom each user of the whole run may ask; None: everybody of her cluster.
        """
        # what every shard recorded, in the order of the shards
        traffic = [part.traffic for part in parts if part.traffic is not None]
        realised = tuple(shard for part in parts for shard in part.realised or ())
        times = [part.arrival_s for part in parts if part.arrival_s is not None]
        tallies = [part.release.counts for part in parts if isinstance(part.release, Tally)]
        whole = Outcome(
            Tally(np.sum(tallies, axis=0)) if tallies else LabelRelease.join([part.labels for part in parts]),
            sum(traffic, Traffic()) if traffic else None,
            arrival_s=np.concatenate(times) if times else None,
            realised=realised if any(part.realised is not None for part in parts) else None,
            overlay=overlay,
        )
        if not tallies:
            return whole
        # a run that keeps only sums also has arrival times and counts of true labels
        arrivals = Arrivals()
        for part in parts:
            arrivals.add(part.arrivals or Arrivals())
        truth = [part.truth.counts for part in parts if part.truth is not None]
        return replace(whole, arrivals=arrivals, truth=Tally(np.sum(truth, axis=0)))
