"""Scores of targets: the likelihood ratio of a mechanism, and what a classifier learns from held-out runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.exchange_targets import Batch, ClusterTargets
from p2p_sim.audit.one_run import HELD_OUT_SEED, Scope, ScoredTargets, Targets, pilot_of
from p2p_sim.audit.submitter_scores import Submitters, largest_parity
from p2p_sim.base import one_thread
from p2p_sim.privacy import bernstein_window
from p2p_sim.privacy.exchange import OtherUsers, SmoothKernel, likelihoods

Floats = NDArray[np.float64]
Score = Callable[[Batch], Floats]
"""(c,) of a batch of c targets, the larger the likelier the label is the high one."""
LARGEST_TABLE = 512
"""Most users of a cluster whose law is tabulated."""
MOST_TABLES = 64
"""Most pairs (cluster size, ones) that are tabulated."""
_TREES, _TOGETHER = 60, 200_000
"""Trees of the classifier; targets that are scored at a time, which bounds the memory."""


class RatioTable(NamedTuple):
    """Log likelihood ratios of a cluster's view, (T, n + 1): by the number of submissions, from `first` on, and the
    ones among them.
    """

    first: int
    ratios: Floats


@dataclass(frozen=True)
class LikelihoodRatio:
    """ln Pr[view | label 1] - ln Pr[view | label 0] of the number of submissions and the ones among them.

    Exact if `tabulated`; otherwise both laws of the ones are taken as normal with one variance, which only costs power.

    flip_prob, sampling_rate: α and θ. tabulated: whether the exact law is used. kernel: how a submission depends on the
    noisy ones, None: it is one user's noisy label.
    """

    flip_prob: float
    sampling_rate: float
    tabulated: bool
    kernel: SmoothKernel | None = None
    _tables: dict[tuple[int, int], RatioTable] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, batch: Batch) -> Floats:
        """The scores (c,) of a batch of targets."""
        if not self.tabulated:
            return self._normal(batch)
        scores = np.empty(len(batch.labels))
        kinds, which = np.unique(batch.sizes << 32 | batch.ones, return_inverse=True)
        for i, kind in enumerate(kinds.tolist()):
            here, size, ones = which == i, kind >> 32, kind & 0xFFFFFFFF
            first, table = self._table(size, ones)
            sent = np.clip(batch.sent[here] - first, 0, len(table) - 1)
            scores[here] = table[sent, np.minimum(batch.sent_ones[here], size)]
        return scores

    def _table(self, size: int, ones: int) -> RatioTable:
        """The table of ln ((αA + (1-α)B) / ((1-α)A + αB)) for clusters of this size in which `ones` of the others hold
        label 1.
        """
        if (size, ones) not in self._tables:
            theta, alpha = self.sampling_rate, self.flip_prob
            low, high = bernstein_window(size * theta, size * theta * (1.0 - theta), size, -50.0)
            ratios = np.zeros((high - low + 1, size + 1))
            worlds = [OtherUsers(size, size - 1 - ones, ones, alpha, kernel=self.kernel)]
            for row, (a, b) in enumerate(likelihoods(worlds, range(low, high + 1))):
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.log(alpha * a + (1.0 - alpha) * b) - np.log((1.0 - alpha) * a + alpha * b)
                ratios[row, : len(ratio)] = np.nan_to_num(ratio[:, 0], nan=0.0, posinf=700.0, neginf=-700.0)
            self._tables[size, ones] = RatioTable(low, ratios)
        return self._tables[size, ones]

    def _normal(self, batch: Batch) -> Floats:
        """The scores by normal laws of the number of ones with one variance, whose means differ by t g'(p) (1-2α)/n;
        g(p) = p if one peer is asked.
        """
        n, t, alpha = batch.sizes, batch.sent, self.flip_prob
        others = batch.ones * (1.0 - alpha) + (n - 1 - batch.ones) * alpha
        share, slope = (others + 0.5) / n, np.ones(1)
        if self.kernel is not None:
            slope = np.array([self.kernel.slope(p) for p in share.tolist()])
            share = self.kernel.shares(share, 1).ones
        spread = t * share * (1.0 - share) + t * (t - 1.0) * (slope / n) ** 2 * (n - 1.0) * alpha * (1.0 - alpha)
        steps = t * slope * (1.0 - 2.0 * alpha) / n
        return np.asarray((batch.sent_ones - t * share) * steps / np.maximum(spread, 1e-9))


@dataclass(frozen=True)
class LearnedScores:
    """The score of a classifier: the logarithm of the odds that it gives a label, after learning from other runs."""

    model: Any

    @staticmethod
    def of(features: NDArray[np.float32], labels: NDArray[np.bool_]) -> "LearnedScores":
        """Learn by gradient boosting from the features (N, F) and labels (N,) of held-out runs."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = HistGradientBoostingClassifier(
            max_iter=_TREES, max_leaf_nodes=15, min_samples_leaf=100, early_stopping=False, random_state=0
        )
        with one_thread():  # scikit-learn's threads are known only once it is imported
            return LearnedScores(model.fit(features, labels))

    def __call__(self, features: NDArray[np.float32]) -> Floats:
        """The scores (N,) of targets with features (N, F)."""
        with one_thread():
            return np.asarray(self.model.decision_function(features))


def _features(batches: Sequence[Batch], ratio: Score) -> NDArray[np.float32]:
    """Features (N, F) of all targets: the score that is no classifier's first, then what a classifier learns from."""
    parts = [np.concatenate([ratio(batch).astype(np.float32)[:, None], batch.features], axis=1) for batch in batches]
    return np.concatenate(parts)


def _submits(features: NDArray[np.float32], size: int) -> NDArray[np.bool_]:
    """Who submits (N, n), from features (N, F) that end with the raw view."""
    return np.asarray(features[:, -3 * size : features.shape[1] - 2 * size] > 0.0)


@dataclass(frozen=True)
class ClusterAttack(Targets):
    """An attack on targets, one in each cluster, with the scores that it gives them.

    exact: as in `one_run.Targets`, of each score. submitters: None where the raw view is not looked at.
    """

    targets: ClusterTargets
    ratio: Score
    learned: LearnedScores
    exact: tuple[bool, ...]
    submitters: Submitters | None = None

    @staticmethod
    def prepared(targets: ClusterTargets, ratio: Score, exact: bool, trials: int, seed: int) -> "ClusterAttack":
        """The attack, its classifier having learned from held-out runs.

        Args:
            ratio: the score that is no classifier's. exact: whether it is the logarithm of the likelihood ratio.
        """
        held_out = list(targets.batches(pilot_of(trials), seed + HELD_OUT_SEED))
        labels, features = np.concatenate([batch.labels for batch in held_out]), _features(held_out, ratio)
        learned, kinds = LearnedScores.of(features, labels), (exact, False)
        raw = held_out[0].raw  # all clusters have one size, or none is looked at
        if raw is None:
            return ClusterAttack(targets, ratio, learned, kinds)
        submitters = Submitters.of(_submits(features, raw.shape[1] // 3), labels)
        return ClusterAttack(targets, ratio, learned, kinds + (False,) * len(submitters.names), submitters)

    @property
    def scope(self) -> Scope:
        """What the attack looks at."""
        scores = ("the score made for the mechanism", "a classifier")
        if self.submitters is None:  # the raw view is not looked at
            return Scope(
                scores,
                "what the target, the next user and the last user of a cluster submit, beside the counts; where "
                "times are known, their order",
                "any other user by herself, and who submits together",
            )
        users = largest_parity(self.submitters.size)
        largest = f"up to {users} users" if users > 1 else "one user"
        return Scope(
            (*scores, *self.submitters.names),
            f"who submits together: the parity of every set of {largest}, words of users who do and do not, and "
            "whole patterns; a classifier's trees on each submission and its time",
            "which labels several users submit together, and how several times go together, but for what those trees "
            "show",
        )

    def sample(self, trials: int, seed: int, epsilons: Sequence[float]) -> ScoredTargets:
        labels, scores, claims = [], [], list[Floats]()
        users, pending = 0, list[Batch]()
        for batch in self.targets.batches(trials, seed, epsilons):
            labels.append(batch.labels)
            users += int(batch.sizes.sum())
            claims += [] if batch.claims is None else [batch.claims]
            pending.append(batch)
            if sum(len(each.labels) for each in pending) >= _TOGETHER:
                scores.append(self._scores(pending))
                pending = []
        scores += [self._scores(pending)] if pending else []
        coins = np.concatenate(labels)
        mean = np.sum(claims, axis=0) / coins.size if claims else None
        return ScoredTargets(coins, np.concatenate(scores, axis=1), users, mean)

    def _scores(self, batches: Sequence[Batch]) -> NDArray[np.float32]:
        """The scores of all targets, (A, N): the likelihood ratio, the classifier's score, and the ratio with the
        evidence of who submits.
        """
        features = _features(batches, self.ratio)
        ratio = features[:, 0]
        scores: list[NDArray[np.floating]] = [ratio, self.learned(features)]
        if self.submitters is not None:
            scores += [ratio + evidence for evidence in self.submitters(_submits(features, self.submitters.size))]
        return np.stack(scores).astype(np.float32)
