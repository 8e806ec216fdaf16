"""The methods that the stacking study compares, with the AUC and the true ε of each method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from analysis.stacking.organisation_data import Benchmark, Floats, OrganisationsData, Rows, Split
from p2p_sim.base import Streams
from p2p_sim.stacking import (
    Combiner,
    FeatureStacking,
    PrivateLogisticRegression,
    SampleStacking,
    TransferStacking,
    clip_rows,
    pphtl,
)

COMBINERS = get_args(Combiner)
OVERSPENT = "PST-F(U), Kε spent"
METHODS = ("PLR", "PLR(W)", "PST-S", "PST-F(U)", "PST-F(W)", "PST-F(W), no high level", OVERSPENT)
TRANSFER = ("PLR (target)", "PLR (source)", "PPHTL", "PLR-HTL", "PLR-HTL(W)", "PST-H(U)", "PST-H(W)",
            "PST-H(W), no high level")  # fmt: skip


@dataclass(frozen=True)
class BenchmarkPoint:
    """The parameters of one point in the benchmark studies.

    epsilon, l2: ε and the penalty λ. count: number of groups of features, or of parts of the rows. skew: the number α
    if the importance of component i is αⁱ; None if the importance of a component is its variance.
    """

    epsilon: float
    l2: float
    count: int = 5
    skew: float | None = None


def benchmark_row(
    method: str, data: Benchmark, split: Split, point: BenchmarkPoint, streams: Streams
) -> dict[str, float]:
    """Test AUC (key auc) and true ε (key epsilon_upper) of one method in one replicate. The true ε is for one row, and
    can exceed the requested ε.

    Args:
        method: one of `METHODS`. "PLR": one private logistic regression. "PLR(W)": PLR on features scaled by
        importance. "PST-S": stacking of models of parts of the rows. The other methods stack models of feature groups.
        "PST-F(U)": random, equally important groups. "PST-F(W)": groups weighted by importance. "PST-F(W), no high
        level": the same groups, but the mean of the models instead of a trained combination. "PST-F(U), Kε spent": the
        method as the stacking paper prints it, which spends K times the ε.
        data: its public rows determine scales and importance. split: rows to learn from, and rows to test on. point:
        the requested ε, the penalty λ, the number K of feature groups or of parts of the rows, and the definition of
        importance. streams: random numbers of the replicate.
    """
    (rows, labels), (test, truth) = split
    noise = streams.generator("stacking noise " + method)
    # PLR and PLR(W) train one model on all features; PST-S trains one model on each part of the rows
    if method in ("PLR", "PLR(W)", "PST-S"):
        scale = weighted_scale(data, point) if method == "PLR(W)" else np.ones(rows.shape[1])
        bound = float(np.median(np.linalg.norm(data.public[0] * scale, axis=1)))
        if method == "PST-S":
            model = SampleStacking(point.epsilon, point.count, bound, l2=point.l2, random_state=noise)
        else:
            model = PrivateLogisticRegression(point.epsilon, point.l2, bound, random_state=noise)
        model.fit(rows * scale, labels)
        return _row(model.decision_function(test * scale), truth, model.privacy_.epsilon_upper)
    if method == OVERSPENT:
        return _overspent(data, split, point, streams, noise)
    stacking = feature_stacking(data, point, "(W)" in method, streams)
    stacking.random_state = noise
    if "no high level" in method:
        stacking.set_params(combiner="mean", low_share=1.0)
    stacking.fit(rows, labels)
    return _row(stacking.decision_function(test), truth, stacking.privacy_.epsilon_upper)


def combiner_rows(
    weighted: bool, data: Benchmark, split: Split, point: BenchmarkPoint, streams: Streams
) -> list[dict[str, object]]:
    """AUC of several ways to combine the same models, and of each model alone (the stacking paper's Figure 4). Each
    model is a private logistic regression on one group of features. The result has a row for each way and for each
    model, with the keys combiner, auc and epsilon_upper. For model k alone, `combiner` is "group k".

    Args:
        weighted: True for groups weighted by their importance; False for random, equally important groups. data: its
        public rows determine scales and importance. split: rows to learn from, and rows to test on. point: ε, the
        penalty and the number of groups. streams: random numbers of the replicate.
    """
    (rows, labels), (test, truth) = split
    lines: list[dict[str, object]] = []
    for combiner in COMBINERS:
        model = feature_stacking(data, point, weighted, streams)
        model.set_params(combiner=combiner, random_state=streams.generator("stacking noise"))
        model.fit(rows, labels)
        lines.append({"combiner": combiner, **_row(model.decision_function(test), truth, model.privacy_.epsilon_upper)})
    alone = model.models_.margins(test)
    upper = model.perturbation_.epsilon_upper
    lines += [{"combiner": f"group {k}", **_row(alone[:, k], truth, upper)} for k in range(alone.shape[1])]
    return lines


def feature_stacking(data: Benchmark, point: BenchmarkPoint, weighted: bool, streams: Streams) -> FeatureStacking:
    """An unfitted stack of private logistic regressions, one for each group of features (principal components).

    Args:
        data: its public rows determine the importance of groups and the norms to which rows are clipped. point: ε, the
        penalty λ, the number of groups, and the definition of importance. weighted: True for PST-F(W), with groups of
        consecutive components weighted by importance; False for PST-F(U), with random, equally important groups.
        streams: draws random groups.
    """
    d = data.public[0].shape[1]
    order = np.arange(d) if weighted else streams.generator("stacking groups").permutation(d)
    groups = [part.tolist() for part in np.array_split(order, point.count)]
    return FeatureStacking(
        point.epsilon, groups=groups, importance=importance(data, point) if weighted else None,
        importance_is_public=weighted, l2=point.l2, norm_bound=_bounds(data, groups),
    )  # fmt: skip


def importance(data: Benchmark, point: BenchmarkPoint) -> list[float]:
    """The importance q_k of each group of consecutive features (principal components); the q_k sum to 1. By default q_k
    is the group's share of the variance of the public rows. If `point.skew` is a number α, component i (from 0) has the
    weight αⁱ. Then q_k is the group's share of all weights (the stacking paper's equation 6).

    Args:
        data: has the public rows. point: number of groups, and `skew`.
    """
    d = data.public[0].shape[1]
    weights = data.public[0].var(axis=0) if point.skew is None else point.skew ** np.arange(d)
    shares = np.array([part.sum() for part in np.array_split(weights, point.count)])
    return [float(share) for share in shares / shares.sum()]


def weighted_scale(data: Benchmark, point: BenchmarkPoint) -> Floats:
    """Factors (d,) by which PLR(W), a single private logistic regression, multiplies the d features. In group k the
    factor is q_k/B_k, divided by the largest such ratio of all groups. Here q_k is the group's importance, and B_k is
    the median norm of the public rows within the group.

    Args:
        data: has the public rows. point: number of groups, and the definition of importance.
    """
    groups = np.array_split(np.arange(data.public[0].shape[1]), point.count)
    ratios = np.array(importance(data, point)) / np.array(_bounds(data, groups))
    return np.repeat(ratios / ratios.max(), [len(group) for group in groups])


def _bounds(data: Benchmark, groups: Sequence[Sequence[int] | NDArray[np.intp]]) -> list[float]:
    """For each group of features, the median norm of public rows within the group, to which private rows are clipped.

    Args:
        data: has the public rows. groups: the indices of the features of each group.
    """
    return [float(np.median(np.linalg.norm(data.public[0][:, list(group)], axis=1))) for group in groups]


def _overspent(
    data: Benchmark, split: Split, point: BenchmarkPoint, streams: Streams, noise: np.random.Generator
) -> dict[str, float]:
    """Test AUC (key auc) and true ε (key epsilon_upper) of PST-F(U) as the stacking paper prints it: each of the K
    feature groups gets all of ε. All groups learn from the same rows, so the true ε is K times as large.

    Args:
        data: its public rows determine the bounds of norms. split: rows to learn from, and rows to test on. Half of the
        rows to learn from train the models of groups; the other half trains their combination. point: ε, the penalty
        and K. streams: draws the groups. noise: draws the noise.
    """
    (rows, labels), (test, truth) = split
    half = len(rows) // 2
    low = feature_stacking(data, point, False, streams)
    low.set_params(epsilon=point.count * point.epsilon, combiner="mean", low_share=1.0, random_state=noise)
    low.fit(rows[:half], labels[:half])
    meta, meta_test = (np.tanh(0.5 * low.models_.margins(part)) / np.sqrt(point.count) for part in (rows[half:], test))
    high = PrivateLogisticRegression(point.epsilon, point.l2, random_state=noise).fit(meta, labels[half:])
    return _row(high.decision_function(meta_test), truth, low.privacy_.epsilon_upper)


def transfer_rows(
    organisations: OrganisationsData, epsilon: float, *, l2: dict[str, float], streams: Streams,
    methods: Sequence[str] = TRANSFER, only: int | None = None,
) -> list[dict[str, object]]:  # fmt: skip
    """AUC of each method of transfer at each target. One organisation, the source, privately releases models of its
    rows. Other organisations, the targets, can use these models to train private models of their rows. For each method
    the source makes one release for all targets. The result has a row for each method and target. The keys are
    organisation (the target), method, rows (how many rows the target trains on), auc and epsilon_upper. The last is the
    ε of the target's rows.

    Args:
        organisations: draws the rows; has groups of features with their importance. epsilon: ε of the source's release
        and of each target's model. l2: penalty λ of each method. streams: random numbers of the replicate. methods: the
        names of the methods, by default all. only: how many targets are run, from the first one on; None: all targets.
    """
    source, targets = organisations.draw(streams)
    scale = np.ones(organisations.num_features)
    for group, q in zip(organisations.groups, organisations.importance, strict=True):
        scale[group] = q / np.sqrt(len(group)) / max(organisations.importance)
    lines: list[dict[str, object]] = []
    for method in methods:
        teacher = _Source(
            organisations, method, epsilon=epsilon, l2=l2[method], scale=scale, source=source, streams=streams
        )
        for name, (train, test) in list(targets.items())[:only]:
            measured = teacher.row(train, test, streams.generator(f"stacking noise {name}"))
            lines.append({"organisation": name, "method": method, "rows": len(train[1])} | measured)
    return lines


class _Source:
    """The models that the source releases for one method. Targets learn from these models."""

    def __init__(
        self, organisations: OrganisationsData, method: str, *, epsilon: float, l2: float, scale: Floats, source: Rows,
        streams: Streams,
    ) -> None:  # fmt: skip
        self.method, self.epsilon, self.l2 = method, epsilon, l2
        self.scale = scale if method == "PLR-HTL(W)" else np.ones_like(scale)
        self.bound = float(np.linalg.norm(self.scale))
        noise = streams.generator("stacking noise of the source")
        # PST-H releases a model for each group of features; every other method releases one model of all features
        if method.startswith("PST-H"):
            weighted = "(W)" in method
            groups = organisations.groups
            if not weighted:
                order = streams.generator("stacking groups").permutation(organisations.num_features)
                groups = [part.tolist() for part in np.array_split(order, len(groups))]
            self.models = FeatureStacking(
                epsilon, groups=groups, importance=organisations.importance if weighted else None,
                importance_is_public=weighted, l2=l2, norm_bound=[float(np.sqrt(len(group))) for group in groups],
                combiner="mean", low_share=1.0, random_state=noise,
            ).fit(*source).models_  # fmt: skip
        else:
            self.plr = PrivateLogisticRegression(epsilon, l2, self.bound, random_state=noise)
            self.plr.fit(source[0] * self.scale, source[1])

    def row(self, train: Rows, test: Rows, noise: np.random.Generator) -> dict[str, float]:
        """AUC of a target's model on the target's test rows (key auc), and ε for the target's training rows (key
        epsilon_upper). The method "PLR (source)" uses the source's model unchanged, so this ε is 0.

        Args:
            train, test: features and labels of the target's rows. noise: draws the noise of the target's model.
        """
        if self.method == "PLR (source)":
            return _row(clip_rows(test[0] / self.bound) @ self.plr.coef_[0], test[1], 0.0)
        # in PST-H, the outputs of the source's models are the features of the target's model; in PPHTL and PLR-HTL, the
        # target's model is drawn towards the source's model
        if self.method.startswith("PST-H"):
            model = TransferStacking(self.epsilon, self.models, l2=self.l2, random_state=noise)
            if "no high level" in self.method:
                model.set_params(combiner="mean", low_share=1.0)
        elif self.method == "PPHTL":
            half = self.l2 / 2.0
            model = pphtl(self.plr.coef_, self.epsilon, l2=half, pull=half, norm_bound=self.bound, random_state=noise)
        else:
            prior = None if self.method == "PLR (target)" else self.plr.coef_
            model = PrivateLogisticRegression(self.epsilon, self.l2, self.bound, prior, random_state=noise)
        model.fit(train[0] * self.scale, train[1])
        return _row(model.decision_function(test[0] * self.scale), test[1], model.privacy_.epsilon_upper)


def _row(scores: Floats, truth: NDArray[np.int64], epsilon_upper: float) -> dict[str, float]:
    """The AUC (key auc) of scores (n,) for labels (n,), and the given ε (key epsilon_upper). The AUC is 0.5 if all
    labels are equal.
    """
    auc = float(roc_auc_score(truth, scores)) if 0 < truth.sum() < len(truth) else 0.5
    return {"auc": auc, "epsilon_upper": epsilon_upper}
