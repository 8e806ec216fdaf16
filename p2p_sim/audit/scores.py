"""Scores by which an audit's attack guesses the labels of targets. A target is a user whose label is a coin; each
cluster has one. A score is a likelihood ratio from a mechanism's formula, or the log-odds of a classifier that learns
from other runs. A view is what the learner sees of the target's cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p2p_sim.audit.exchange_targets import Batch, ClusterTargets
from p2p_sim.audit.one_run import HELD_OUT_SEED, Floats, Scope, ScoredTargets, Targets, pilot_of
from p2p_sim.audit.submitter_scores import Submitters, largest_parity
from p2p_sim.base import one_thread
from p2p_sim.privacy import bernstein_window
from p2p_sim.privacy.exchange import OtherUsers, SmoothKernel, likelihoods

Score = Callable[[Batch], Floats]
"""A function that gives a batch of c targets their scores (c,). A coin chooses each target's label from two classes,
called low and high (0 and 1 for binary labels). A larger score means that the high class is more likely.
"""
LARGEST_TABLE = 512
"""Largest number of users of a cluster for which log-likelihood ratios are tabulated."""
MOST_TABLES = 64
"""Largest number of clusters for which log-likelihood ratios are tabulated."""
_TREES, _TOGETHER = 60, 200_000
"""The number of trees of a classifier, and the number of targets scored at a time. The second number limits the memory.
"""


class RatioTable(NamedTuple):
    """Log-likelihood ratios (T, n + 1) of a cluster of n users. There is a row for each number of submissions, and a
    column for each number of submitted ones.

    Row 0 is for `first` submissions, and each further row for one more.
    """

    first: int
    ratios: Floats


def log_ratio(zero: Floats, one: Floats, flip_prob: float) -> Floats:
    """The log-likelihood ratio ln Pr[view | label 1] - ln Pr[view | label 0] of each view. ±700 replaces ±infinity. The
    ratio is 0 if the view has probability 0.

    zero, one: the views' probabilities if the target's noisy bit is 0, and if it is 1. flip_prob: α.
    """
    keep_prob = 1.0 - flip_prob
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(flip_prob * zero + keep_prob * one) - np.log(keep_prob * zero + flip_prob * one)
    return np.asarray(np.nan_to_num(ratio, nan=0.0, posinf=700.0, neginf=-700.0))


@dataclass(frozen=True)
class LikelihoodRatio:
    """ln Pr[view | label 1] - ln Pr[view | label 0]. A view is the number of submissions and the number of ones among
    these.

    The ratio is exact if `tabulated`. Otherwise the number of ones is treated as normal, with the same variance under
    both labels. This approximation only makes the attack weaker.

    flip_prob, sampling_rate: α and θ. kernel: the distribution of a submission, given the number of ones among the
    cluster's noisy labels; None: a submission is the noisy label of a user drawn uniformly.
    """

    flip_prob: float
    sampling_rate: float
    tabulated: bool
    kernel: SmoothKernel | None = None
    _tables: dict[tuple[int, int], RatioTable] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, batch: Batch) -> Floats:
        """The scores (c,) of c targets, one in each cluster: ln Pr[view | label 1] - ln Pr[view | label 0]. The view is
        the number of users who submitted, and the number who submitted a 1. The scores are exact if the object has
        `tabulated`, and otherwise from a normal approximation.

        batch: for each target, `sent` is the number of submissions and `sent_ones` the number of submitted ones.
        `sizes` is the cluster size. `ones` is the number of other users with label 1.
        """
        if not self.tabulated:
            return self._normal(batch)
        scores = np.empty(len(batch.labels))
        kinds, which = np.unique(batch.sizes << 32 | batch.ones, return_inverse=True)
        for i, kind in enumerate(kinds.tolist()):
            here, size, ones = which == i, kind >> 32, kind & 0xFFFFFFFF
            if (size, ones) not in self._tables:
                self._tables[size, ones] = self._table(size, ones)
            first, table = self._tables[size, ones]
            sent = np.clip(batch.sent[here] - first, 0, len(table) - 1)
            scores[here] = table[sent, np.minimum(batch.sent_ones[here], size)]
        return scores

    def _table(self, size: int, ones: int) -> RatioTable:
        """The log-likelihood ratios of the target's label, 1 against 0, in a cluster of n users. The array `ratios`, of
        shape (T, n + 1), has rows for all numbers of submissions that are likely at the sampling rate θ. Row 0 is for
        `first` submissions. The columns are for the numbers of submitted ones.

        Args:
            size: n. ones: how many of the other users hold label 1.
        """
        theta = self.sampling_rate
        low, high = bernstein_window(size * theta, size * theta * (1.0 - theta), size, -50.0)
        ratios = np.zeros((high - low + 1, size + 1))
        worlds = [OtherUsers(size, size - 1 - ones, ones, self.flip_prob, kernel=self.kernel)]
        for row, (zero, one) in enumerate(likelihoods(worlds, range(low, high + 1))):
            ratios[row, : len(zero)] = log_ratio(zero, one, self.flip_prob)[:, 0]
        return RatioTable(low, ratios)

    def _normal(self, batch: Batch) -> Floats:
        """Approximate log-likelihood ratios (c,) of c targets, in clusters of n users of whom t submitted. The number
        of submitted ones is treated as normal, with the same variance under both labels of the target.

        The two means differ by t g'(p) (1-2α)/n. Here α is the flip probability, and p is the expected share of ones
        among the noisy labels. g(p) is the probability that a submission is a one, with the derivative g'. Without a
        kernel, g(p) = p.

        batch: for each target, `sizes` is n, `sent` is t, and `sent_ones` is the number of submitted ones. `ones` is
        the number of other users with label 1.
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


def learn_classifier(features: NDArray[np.float32], labels: NDArray[np.bool_]) -> Any:
    """A scikit-learn classifier, fitted by gradient boosting to features (N, F) and labels (N,) of held-out runs."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=_TREES, max_leaf_nodes=15, min_samples_leaf=100, early_stopping=False, random_state=0
    )
    with one_thread():  # scikit-learn is imported above: only now can its threads be limited
        return model.fit(features, labels)


def _features(batches: Sequence[Batch], ratio: Score) -> NDArray[np.float32]:
    """Features (N, F) of N targets, from which a classifier learns the targets' labels. Column 0 is the score made for
    the mechanism. Six 0-1 columns say what three users of the cluster submitted: the target, the next user and the last
    user. Then come three shares: of users who submitted, of ones among the submissions, and of users besides the target
    who hold label 1. The next column is the cluster's size. With more than two classes, two further shares follow.
    Two optional groups of columns come last: features of the order of arrival, and each user's submission with its
    time.

    Args:
        batches: the targets, in pieces. ratio: a function that gives the scores (c,) of a piece of c targets.
    """
    return np.concatenate([np.column_stack([ratio(batch).astype(np.float32), batch.features]) for batch in batches])


def _submits(features: NDArray[np.float32], size: int) -> NDArray[np.bool_]:
    """Which users of a cluster submitted anything, (N, n), for each of N targets with a cluster of n users.

    features: (N, F). The last 3n columns are the n users' submissions (0: nothing), their n times of arrival, and these
    times in ascending order. size: n.
    """
    return np.asarray(features[:, -3 * size : features.shape[1] - 2 * size] > 0.0)


@dataclass(frozen=True)
class ClusterAttack(Targets):
    """An attack on targets, one in each cluster. The attack gives each target several scores.

    ratio: the score made for the mechanism. classifier: a classifier whose log-odds are a score. exact: for each score,
    whether it is the exact log-likelihood ratio. submitters: scores that depend on who submits together; None: the
    attack does not look at each user's submission.
    """

    targets: ClusterTargets
    ratio: Score
    classifier: Any
    exact: tuple[bool, ...]
    submitters: Submitters | None = None

    @staticmethod
    def prepared(targets: ClusterTargets, ratio: Score, exact: bool, trials: int, seed: int) -> "ClusterAttack":
        """The attack on targets' labels, with a classifier that has learned from held-out runs. Held-out runs serve
        only to learn. If these runs show every user's submission, the attack also learns scores from the sets of users
        who submit together.

        Args:
            targets: draws batches of targets, with their labels and the learner's views. ratio: a function that scores
            a batch of targets by a formula made for the mechanism. exact: whether these scores are exact log-likelihood
            ratios. trials: how many targets the audit counts as evidence; this number fixes how many other targets the
            attack learns from. seed: root seed of the audit; the held-out runs add a constant to this seed.
        """
        held_out = list(targets.batches(pilot_of(trials), seed + HELD_OUT_SEED))
        labels, features = np.concatenate([batch.labels for batch in held_out]), _features(held_out, ratio)
        attack = ClusterAttack(targets, ratio, learn_classifier(features, labels), (exact, False))
        raw = held_out[0].raw  # with raw views, all clusters have one size
        if raw is None:
            return attack
        submitters = Submitters.of(_submits(features, raw.shape[1] // 3), labels)
        return replace(attack, exact=attack.exact + (False,) * len(submitters.names), submitters=submitters)

    @property
    def scope(self) -> Scope:
        """Words for the audit's report: what each score looks at, and which kinds of leaks the attack looks for or
        overlooks. Too little noise is always looked for.
        """
        scores = ("the score made for the mechanism", "a classifier")
        if self.submitters is None:
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
            "which labels several users submit together, and how several times go together, except what the trees show",
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
        """The scores of N targets by A attacks, (A, N). A larger score means that label 1 is more likely. The first
        score is made for the mechanism, usually a log-likelihood ratio. The second score is the log-odds of a
        classifier. If the attack looks at who submits together (A = 5), three more scores follow. Each is the first
        score plus log-odds of the label, learned from held-out runs. For the third score, the log-odds depend on
        whether an odd number of a set of users submits. For the fourth, they depend on which of some users submit. For
        the fifth, they depend on the whole pattern of who submits.

        batches: the targets, in pieces.
        """
        features = _features(batches, self.ratio)
        ratio = features[:, 0]
        scores: list[NDArray[np.floating]] = [ratio, self.classifier.decision_function(features)]
        if self.submitters is not None:
            scores += [ratio + evidence for evidence in self.submitters(_submits(features, self.submitters.size))]
        return np.stack(scores).astype(np.float32)
