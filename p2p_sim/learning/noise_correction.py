"""Learners that use the public law of the labels' noise: backward and forward correction, and label proportions."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from p2p_sim.learning.learner import Floats, Learner, Received
from p2p_sim.learning.logistic_regression import LinearSoftmax, WeightedLogisticConfig
from p2p_sim.mechanisms import NoiseLaw, Predictor, ReleaseKind


class UnbiasedLearner(Learner):
    """The base of learners that use unbiased weights of the classes. On average over the noise, the true label has
    weight 1 and every other label has weight 0.
    """

    uses_noise_law: ClassVar[bool] = True
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("hard", "signed")

    def learn(self, received: Received) -> Predictor:
        """The predictor of class probabilities, learned from hard labels or from labels that are K signed weights. A
        hard label is replaced by its row of the inverse noise matrix. On average over the noise, the K weights of this
        row are 1 for the true class and 0 for the others. Signed weights that a mechanism releases have this property
        already.

        Args:
            received: released labels that arrived, and the public features of all users.

        Raises:
            InputError: the noise matrix of hard labels is not public, or has no inverse.
        """
        if received.release.kind == "signed":
            return self.fit(received.rows, received.weights)
        return self.fit(received.rows, received.law(self.kind).weights(received.release.payload.astype(np.int64)))


class BackwardCorrectionConfig(UnbiasedLearner, WeightedLogisticConfig):
    """Logistic regression with the loss T⁻¹ℓ, whose mean over the noise T is the loss ℓ of the true labels.

    This is the backward correction of Patrini et al. (CVPR 2017). A label's weights are a row of T⁻¹ and sum to 1, so
    the loss is convex. In the exchange a user may submit another user's label. The label counts for the user who
    submits it. So flips are undone, but the mixing of labels is not. A noise law without an inverse is refused.
    """

    kind: Literal["backward_correction"] = "backward_correction"


@dataclass(frozen=True, eq=False)
class Observed:
    """Released labels as m observations. An observation is a label that was released for some user of a bag. A bag is a
    set of users: a single user, a cluster, or a part of a cluster.

    The true label of an observation is modelled as the label of a random user of the bag. So its predicted distribution
    is the mean of the distributions predicted for the bag's users.

    features: (n, d) features of the n users of all bags, bag by bag. starts: (B,) index of the first user of each of B
    bags; no bag is empty. bag: (m,) the bag of each observation. likelihood: (m, K) probability of the released label
    under each true label. count: (m,) how often the label was released.
    """

    features: NDArray[np.floating]
    starts: NDArray[np.int64]
    bag: NDArray[np.int64]
    likelihood: Floats
    count: Floats

    @staticmethod
    def of(received: Received, law: NoiseLaw) -> "Observed":
        """The released hard labels in the form that their likelihood needs. If users release their own labels, each
        label is one observation, and the user alone is the bag. If a released label belongs to a random user of the
        cluster, all users of the cluster are the bag. Then equal labels of a cluster with the same noise matrix are one
        observation with a count.

        Args:
            received: released labels that arrived, and the public features of all users. law: probabilities of each
            released label given the true label. It also says whether users release their own labels.
        """
        labels = received.release.payload.astype(np.int64)
        rows = np.arange(len(labels))
        if law.source == "user":
            return Observed(received.rows, rows, rows, law.likelihoods(labels), np.ones(len(labels)))
        group, kinds = law.groups(len(labels)), len(law.transition)
        cells = (received.cluster * kinds + group) * law.num_classes + labels
        cell, count = np.unique(cells, return_counts=True)
        clusters, bag = np.unique(cell // (kinds * law.num_classes), return_inverse=True)
        sizes = np.diff(received.cluster_offsets)
        users = np.repeat(np.isin(np.arange(len(sizes)), clusters), sizes)
        starts = np.cumsum(sizes[clusters]) - sizes[clusters]
        likelihood = law.transition[cell // law.num_classes % kinds, :, cell % law.num_classes]
        return Observed(received.features[users], starts, bag.ravel(), likelihood, count.astype(np.float64))

    def loss(self, distribution: Floats) -> tuple[float, Floats]:
        """The negative log likelihood of the released labels, in nats, and its derivative (n, K) with respect to the
        predictions. A true label follows the mean prediction over the users of the bag (one user, or all users of a
        cluster).

        Args:
            distribution: (n, K) class probabilities predicted for the n users of all bags, bag by bag.
        """
        sizes = np.diff(np.append(self.starts, len(distribution)))
        single = len(self.starts) == len(distribution)
        mean = distribution if single else np.add.reduceat(distribution, self.starts, axis=0) / sizes[:, None]
        probability = np.maximum((mean[self.bag] * self.likelihood).sum(axis=1), 1e-300)
        value = -float(self.count @ np.log(probability))
        each = -(self.count / probability)[:, None] * self.likelihood
        slope: Floats = np.stack([np.bincount(self.bag, column, len(self.starts)) for column in each.T], axis=1)
        if not single:
            slope = np.asarray(np.repeat(slope / sizes[:, None], sizes, axis=0), dtype=np.float64)
        return value, slope


@dataclass(frozen=True, eq=False)
class Objective:
    """The function of coefficients W that the fit minimises: -log likelihood of the observed labels + l2 |W|²/2. Here
    |W|² is the sum of the squares of all coefficients except the intercepts.

    Scores are linear in the features. If there are two classes, the first has score 0.
    """

    observed: Observed
    num_classes: int
    l2: float

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the coefficients: (d + 1, K), or (d + 1, 1) for two classes. The last row has the intercepts."""
        return self.observed.features.shape[1] + 1, self.num_classes if self.num_classes > 2 else 1

    def __call__(self, flat: Floats) -> tuple[float, Floats]:
        """The objective and its gradient, in the form that SciPy's minimiser needs.

        Args:
            flat: the coefficients as one vector, row by row; the gradient has the same form. The rows are the d
            features and, last, the intercept. The columns are the K classes; if K = 2, only the second class has a
            column.
        """
        w, x = flat.reshape(self.shape), self.observed.features
        p = LinearSoftmax(w).probabilities(x)
        value, slope = self.observed.loss(p)
        back = p * (slope - (p * slope).sum(axis=1, keepdims=True))
        back = back if self.num_classes > 2 else back[:, 1:]
        pulled = self.l2 * w
        pulled[-1] = 0.0
        return value + 0.5 * float(np.vdot(pulled, w)), np.ravel(np.vstack([x.T @ back, back.sum(axis=0)]) + pulled)


class ForwardCorrectionConfig(WeightedLogisticConfig):
    """Logistic regression whose predictions, passed through the public noise, fit the released labels best.

    It maximises Σ log Σ_y p(y|x) T[y, ỹ] over released labels ỹ with an L2 penalty (Patrini et al., CVPR 2017, forward
    correction). Here T[y, ỹ] is the exact probability of ỹ given the true label y. In the exchange a released label
    belongs to a random user of the cluster. Then p(y|x) is replaced by its mean over the cluster's users. On true
    labels this is logistic regression. The objective is not convex; all coefficients start at 0.
    """

    kind: Literal["forward_correction"] = "forward_correction"
    uses_noise_law: ClassVar[bool] = True

    def learn(self, received: Received) -> Predictor:
        """The predictor learned from released hard labels: a logistic regression with an L2 penalty. The predictions,
        passed through the public noise, give these labels the largest penalised likelihood.

        Args:
            received: the features of all users, the hard labels that arrived, and the public probabilities of each
            released label given the true label.

        Raises:
            InputError: these probabilities are not public.
        """
        return self.fitted(Observed.of(received, received.law(self.kind)), received.num_classes)

    def fitted(self, observed: Observed, num_classes: int) -> LinearSoftmax:
        """The linear model of K classes that maximises the penalised likelihood of the observed labels, found by
        L-BFGS. All coefficients start at 0.

        Args:
            observed: released labels with their likelihoods. num_classes: number K of classes.
        """
        from scipy.optimize import minimize

        objective = Objective(observed, num_classes, self.l2)
        optimum = minimize(
            objective, np.zeros(np.prod(objective.shape)), jac=True, method="L-BFGS-B",
            options={
                "maxiter": self.max_iterations, "maxfun": 10 * self.max_iterations,
                "gtol": 1e-6 * max(1.0, float(observed.count.sum())) ** 0.5,
            },
        )  # fmt: skip
        return LinearSoftmax(optimum.x.reshape(objective.shape))


class LabelProportionsConfig(WeightedLogisticConfig):
    """Logistic regression from the class shares of bags (sets of users). The mean prediction over a bag's users is
    fitted to the bag's shares.

    It maximises Σ_b n_b Σ_y s_by log(mean of p(y|x) over the n_b users of bag b) with an L2 penalty (Ardehaly and
    Culotta, ICDM workshops 2017). Here s_by are the noisy shares that the mechanism released. The users of a cluster
    with the same soft label count as one bag, even if they were several bags with equal shares. The objective is not
    convex; all coefficients start at 0.
    """

    kind: Literal["label_proportions"] = "label_proportions"
    accepts: ClassVar[tuple[ReleaseKind, ...]] = ("soft",)

    def learn(self, received: Received) -> Predictor:
        """The predictor learned from noisy class shares that the mechanism released for bags (sets of users in one
        cluster). Every user has the K shares of her bag as a soft label.

        Args:
            received: the soft labels that arrived, and the features and clusters of all users.
        """
        likelihood = ForwardCorrectionConfig(l2=self.l2, max_iterations=self.max_iterations)
        return likelihood.fitted(bags_of(received), received.num_classes)


def bags_of(received: Received) -> Observed:
    """Noisy class shares, released as soft labels, in the form that a likelihood needs. The users of a cluster who have
    the same shares are a bag. For each bag and class there is one observation: the class, as if released without noise.
    Its count is the class's share times the number of the bag's users. So counts may be fractions.

    Args:
        received: the soft labels (K class shares each) that arrived, and the features and clusters of all users.
    """
    labelled = np.column_stack([received.cluster, received.release.payload.astype(np.float64)])
    shares, bag, users = np.unique(labelled, axis=0, return_inverse=True, return_counts=True)
    classes, bags = received.num_classes, len(users)
    return Observed(
        features=received.rows[np.argsort(bag.ravel(), kind="stable")],
        starts=(np.cumsum(users) - users).astype(np.int64),
        bag=np.repeat(np.arange(bags), classes).astype(np.int64),
        likelihood=np.tile(np.eye(classes), (bags, 1)),  # each class counts as a label without noise
        count=(shares[:, 1:] * users[:, None]).ravel().astype(np.float64),
    )
