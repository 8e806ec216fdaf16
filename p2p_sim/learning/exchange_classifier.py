"""A scikit-learn classifier that learns from labels passed on by the label exchange."""

import math
import secrets
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from p2p_sim.base import InputError, Streams
from p2p_sim.mechanisms import LabelExchangeConfig, Setup
from p2p_sim.network import NetworkConfig
from p2p_sim.population import Examples, KMeansClusters, Population
from p2p_sim.privacy import PrivacyBound

Floats = NDArray[np.float64]
MOST_CLUSTERS = 100
"""Largest default number of clusters. Fewer and larger clusters lower ε and cost little accuracy."""


@dataclass(eq=False, repr=False)
class LabelExchangeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from labels passed on by the label exchange (clustering paper, Algorithm 2).

    Each row is a user with public features X and a private label y. She flips her label with probability α. She fetches
    the noisy label of a random peer of her cluster, and submits the fetched label with probability θ. The `estimator`
    learns from the submitted labels. Nobody is trusted. `privacy_` bounds what the fitted model and its predictions
    reveal.

    Args:
        flip_prob: α in [0, 1 - 1/K] for K classes. sampling_rate: θ in (0, 1]. target_epsilon: a wanted ε; the smallest
        sufficient α found then replaces flip_prob. n_clusters: number of k-means clusters of X if `fit` gets no
        clusters; None: about √n for n rows, at most 100. delta: δ of `privacy_`, in (0, 1); None: n^-2, at most 1e-4.
        estimator: a scikit-learn classifier; None: logistic regression. random_state: a seed or a RandomState, which
        makes the noise repeatable; None: fresh noise in every fit, which a release needs.

    Attributes:
        classes_: (K,) the classes. privacy_: bounds of ε (a `PrivacyBound`) for the cluster with the largest ε, against
        whoever gets the submitted labels. clusters_: (n,) cluster of each row. flip_prob_: α. submissions_: number of
        submitted labels. estimator_: the fitted estimator.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LabelExchangeClassifier(flip_prob=0.2, n_clusters=4, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.8, model.privacy_.observer, model.privacy_.epsilon_upper < math.log(4)
    (True, 'learner', True)
    """

    flip_prob: float | None = 0.1
    sampling_rate: float = 1.0
    _: KW_ONLY
    target_epsilon: float | None = None
    n_clusters: int | None = None
    delta: float | None = None
    estimator: Any = None
    random_state: int | np.random.RandomState | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, clusters: ArrayLike | None = None) -> Self:
        """Exchange the labels of all rows, learn from the submitted labels, and return this object.

        Args:
            X: (n, d) features. y: (n,) labels. clusters: (n,) cluster of each row; each cluster has at least two rows.
            None: k-means finds the clusters.

        Raises:
            ValueError: a parameter is out of its range, all labels are of one class, or a cluster has a single row.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, numbered = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"labels: all are of one class, {self.classes_[0]}; two classes are needed")
        streams = Streams(self._seed(), 0)
        self.clusters_ = self._clusters(rows, clusters, streams)
        # a population lists users in the order of their clusters
        order, sizes = np.argsort(self.clusters_, kind="stable"), np.bincount(self.clusters_)
        people = Population(
            rows[order], numbered[order].astype(np.uint8), np.concatenate([[0], np.cumsum(sizes)]), len(self.classes_)
        )
        flip_prob = None if self.target_epsilon is not None else self.flip_prob
        delta = min(len(rows) ** -2.0, 1e-4) if self.delta is None else self.delta
        try:
            config = LabelExchangeConfig(
                flip_prob=flip_prob, target_epsilon=self.target_epsilon, sampling_rate=self.sampling_rate
            )
            mechanism = config.deployed(Setup(np.unique(sizes), len(self.classes_), delta, "vectorised"))
        except InputError as error:  # scikit-learn expects a ValueError for a parameter out of its range
            raise ValueError(str(error).removeprefix("mechanism.")) from None
        release = mechanism.run(people, NetworkConfig(), streams).labels
        self.flip_prob_, self.submissions_ = mechanism.parameters["flip_prob"], len(release)
        self.privacy_: PrivacyBound = max(mechanism.privacy(np.unique(sizes), delta), key=lambda b: b.epsilon_upper)
        self.estimator_ = self._learned(people.features[release.user], self.classes_[release.payload])
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Class probabilities of the rows X (n, d), as (n, K), predicted by the fitted estimator.

        A class that nobody submitted has probability 0. If no label at all was submitted, every class has probability
        1/K.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        shares = np.zeros((len(rows), len(self.classes_)))
        shares[:, np.searchsorted(self.classes_, self.estimator_.classes_)] = self.estimator_.predict_proba(rows)
        return shares

    def predict(self, X: ArrayLike) -> NDArray[np.generic]:
        """The most probable class (n,) of each row of X. If no label was submitted, classes are drawn uniformly."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(validate_data(self, X, dtype=np.float64, reset=False)))

    def _seed(self) -> int:
        if self.random_state is None:
            return secrets.randbits(63)
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(2**31 - 1))
        return int(self.random_state)

    def _clusters(self, rows: Floats, stated: ArrayLike | None, streams: Streams) -> NDArray[np.int64]:
        """The cluster of each row, (n,), numbered from 0: the stated clusters, or clusters by k-means if none are
        stated.
        """
        if stated is not None:
            cluster = np.unique(np.asarray(stated), return_inverse=True)[1].astype(np.int64)
            if cluster.shape != (len(rows),) or np.bincount(cluster).min() < 2:
                raise ValueError("clusters: must name a cluster of at least two rows for each row of X")
            return cluster
        if len(rows) < 2:
            raise ValueError(f"n_samples = {len(rows)}: a cluster needs at least two users")
        count = self.n_clusters or min(MOST_CLUSTERS, math.isqrt(len(rows)))
        return KMeansClusters(count=min(count, len(rows))).assign(
            Examples(rows, np.zeros(len(rows), np.uint8)), streams
        )

    def _learned(self, rows: NDArray[np.floating], labels: NDArray[np.generic]) -> Any:
        """The estimator fitted to the submitted labels (m,) and the features of their submitters, (m, d).

        If all labels are of one class, a constant is predicted. If there are no labels, a uniformly random class is
        predicted.
        """
        from sklearn.dummy import DummyClassifier
        from sklearn.linear_model import LogisticRegression

        if not len(labels):
            uniform = DummyClassifier(strategy="uniform", random_state=0)
            return uniform.fit(np.zeros((len(self.classes_), 1)), self.classes_)
        if len(np.unique(labels)) < 2:
            return DummyClassifier().fit(rows, labels)
        learner = LogisticRegression(max_iter=1000) if self.estimator is None else clone(self.estimator)
        return learner.fit(rows, labels)
