"""Scores of targets: the likelihood ratio of a mechanism, and what a classifier learns from held-out runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.exchange_targets import Batch, ClusterTargets
from p2p_sim.audit.one_run import HELD_OUT_SEED, Scope, ScoredTargets, Targets, pilot_of
from p2p_sim.audit.submitter_scores import Submitters, largest_parity
from p2p_sim.base.threads import one_thread
from p2p_sim.privacy.binomial_windows import bernstein_window
from p2p_sim.privacy.exchange.direct_sum import OtherUsers, likelihoods

Floats = NDArray[np.float64]
Score = Callable[[Batch], Floats]
"""(c,) of a batch of c targets, the larger the likelier the label is the high one."""
LARGEST_TABLE = 512
"""Most users of a cluster whose law is tabulated."""
MOST_TABLES = 64
"""Most pairs (cluster size, ones) that are tabulated."""
_TREES, _TOGETHER = 60, 200_000


@dataclass(frozen=True)
class LikelihoodRatio:
    """ln Pr[view | label 1] - ln Pr[view | label 0] of the number of submissions and the ones among them.

    Exact if `tabulated`; otherwise both laws of the ones are taken as normal with one variance, which only costs power.

    flip_prob, sampling_rate: α and θ. tabulated: whether the exact law is used.
    """

    flip_prob: float
    sampling_rate: float
    tabulated: bool
    _tables: dict[tuple[int, int], tuple[int, Floats]] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, batch: Batch) -> Floats:
        """(c,) of a batch."""
        if not self.tabulated:
            return self._normal(batch)
        found = np.empty(len(batch.labels))
        kinds, which = np.unique(batch.sizes << 32 | batch.ones, return_inverse=True)
        for i, kind in enumerate(kinds.tolist()):
            here, size, ones = which == i, kind >> 32, kind & 0xFFFFFFFF
            first, table = self._table(size, ones)
            sent = np.clip(batch.sent[here] - first, 0, len(table) - 1)
            found[here] = table[sent, np.minimum(batch.sent_ones[here], size)]
        return found

    def _table(self, size: int, ones: int) -> tuple[int, Floats]:
        """The smallest number of submissions of the table, and the table by submissions and ones."""
        if (size, ones) not in self._tables:
            theta, alpha = self.sampling_rate, self.flip_prob
            low, high = bernstein_window(size * theta, size * theta * (1.0 - theta), size, -50.0)
            found = np.zeros((high - low + 1, size + 1))
            worlds = [OtherUsers(size, size - 1 - ones, ones, alpha)]
            for row, (a, b) in enumerate(likelihoods(worlds, range(low, high + 1))):
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.log(alpha * a + (1.0 - alpha) * b) - np.log((1.0 - alpha) * a + alpha * b)
                found[row, : len(ratio)] = np.nan_to_num(ratio[:, 0], nan=0.0, posinf=700.0, neginf=-700.0)
            self._tables[size, ones] = low, found
        return self._tables[size, ones]

    def _normal(self, batch: Batch) -> Floats:
        n, t, alpha = batch.sizes, batch.sent, self.flip_prob
        others = batch.ones * (1.0 - alpha) + (n - 1 - batch.ones) * alpha
        share = (others + 0.5) / n
        spread = t * share * (1.0 - share) + t * (t - 1.0) / n**2 * (n - 1.0) * alpha * (1.0 - alpha)
        return np.asarray((batch.sent_ones - t * share) * t * (1.0 - 2.0 * alpha) / n / np.maximum(spread, 1e-9))


@dataclass(frozen=True)
class LearnedScores:
    """The logarithm of the odds that a classifier gives a label, having learnt from other runs."""

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
        """(N,) of the features (N, F)."""
        with one_thread():
            return np.asarray(self.model.decision_function(features))


def scored(
    batches: Iterable[Batch],
    ratio: Score,
    learned: LearnedScores | None,
    submitters: Submitters | None,
    noted: Callable[[Batch], None],
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Labels (N,) of all targets, and their scores (A, N), or without a classifier the features (N, F) for one.

    Args:
        noted: is told of each batch.
    """
    labels, found, told = [], [], list[NDArray[np.float32]]()
    for batch in batches:
        noted(batch)
        labels.append(batch.labels)
        told.append(np.concatenate([ratio(batch).astype(np.float32)[:, None], batch.features], axis=1))
        if learned is not None and sum(map(len, told)) >= _TOGETHER:
            found.append(_scores(told, learned, submitters))
            told = []
    if learned is None:
        return np.concatenate(labels), np.concatenate(told)
    return np.concatenate(labels), np.concatenate(
        [*found, *([_scores(told, learned, submitters)] if told else [])], axis=1
    )


def _scores(
    told: list[NDArray[np.float32]], learned: LearnedScores, submitters: Submitters | None
) -> NDArray[np.float32]:
    """The likelihood ratio, the classifier's score, and the ratio with the evidence of who submits."""
    features = np.concatenate(told)
    ratio = features[:, 0]
    scores: list[NDArray[np.floating]] = [ratio, learned(features)]
    if submitters is not None:
        scores += [ratio + evidence for evidence in submitters(_submits(features, submitters.size))]
    return np.stack(scores).astype(np.float32)


def _up_to(users: int) -> str:
    return f"up to {users} users" if users > 1 else "one user"


def _submits(features: NDArray[np.float32], size: int) -> NDArray[np.bool_]:
    """Who submits (N, n), from features (N, F) that end with the raw view."""
    return np.asarray(features[:, -3 * size : features.shape[1] - 2 * size] > 0.0)


@dataclass(frozen=True)
class ClusterAttack(Targets):
    """Targets, one in each cluster, with the scores that they get.

    exact: as in `one_run.Targets`, of each score. submitters: None where the raw view is not looked at.
    """

    targets: ClusterTargets
    ratio: Score
    learned: LearnedScores
    exact: tuple[bool, ...]
    submitters: Submitters | None = None

    @staticmethod
    def prepared(targets: ClusterTargets, ratio: Score, exact: bool, trials: int, seed: int) -> "ClusterAttack":
        """Learn from held-out runs.

        Args:
            ratio: the score that is no classifier's. exact: whether it is the logarithm of the likelihood ratio.
        """
        sizes = set[int]()
        held_out = targets.batches(pilot_of(trials), seed + HELD_OUT_SEED)
        labels, features = scored(held_out, ratio, None, None, lambda batch: sizes.update(batch.raw_sizes))
        learned, kinds = LearnedScores.of(features, labels), (exact, False)
        if not sizes:
            return ClusterAttack(targets, ratio, learned, kinds)
        submitters = Submitters.of(_submits(features, sizes.pop()), labels)
        return ClusterAttack(targets, ratio, learned, kinds + (False,) * len(submitters.names), submitters)

    @property
    def scope(self) -> Scope:
        """What the attack looks at."""
        scores = ("the score made for the mechanism", "a classifier")
        if self.submitters is None:
            return Scope(
                scores,
                "what the target, the next user and the last user of a cluster submit, beside the counts; where "
                "times are known, their order",
                "any other user by herself, and who submits together",
            )
        users = largest_parity(self.submitters.size)
        return Scope(
            (*scores, *self.submitters.names),
            f"who submits together: the parity of every set of {_up_to(users)}, words of users who do and do not, and "
            "whole patterns; a classifier's trees on each submission and its time",
            "which labels several users submit together, and how several times go together, but for what those trees "
            "show",
        )

    def seen(self, trials: int, seed: int, epsilons: Sequence[float]) -> ScoredTargets:
        users, claims = list[int](), list[Floats]()

        def noted(batch: Batch) -> None:
            users.append(int(batch.sizes.sum()))
            if batch.claims is not None:
                claims.append(batch.claims)

        batches = self.targets.batches(trials, seed, epsilons)
        labels, scores = scored(batches, self.ratio, self.learned, self.submitters, noted)
        return ScoredTargets(labels, scores, sum(users), np.sum(claims, axis=0) / labels.size if claims else None)
