"""Errors and risks of predictors, over all rows and by group. Only these measures may look at true labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from p2p_sim.base import InputError
from p2p_sim.learning.learner import Floats, Loss, probabilities_of
from p2p_sim.learning.ridge import LinearValues, squared_risks
from p2p_sim.measures import (
    ERROR,
    REFERENCE,
    SHARE,
    Group,
    area_under_curve,
    bayes_error_rate,
    best_logistic_risk,
    constant_risks,
    error_rate,
    exchanged_distribution,
    heterogeneity,
    heterogeneity_upper_estimate,
    log_risk,
    logistic_risk_after,
)
from p2p_sim.mechanisms import ByCluster, Predictor
from p2p_sim.population import CLASS, Examples, FiniteLaw, People, Population, take_rows


@dataclass(frozen=True)
class Risk:
    """Error rates, risks and areas under the ROC curve of a private predictor. The prefix nonprivate_ marks the values
    of the same learner's predictor without privacy.

    A value is None if it does not apply, or if no predictor without privacy was trained. A released density estimate
    predicts nothing, and so has no values.

    error_rate, nonprivate_error_rate: 0-1 loss, exact under a known law (distribution), else on the rows held out.
    excess_risk, nonprivate_excess_risk: expected loss minus `best_risk`; exact.
    excess_risk_loss: the loss in which excess risk is measured: "log" (nats), "zero_one" or "squared".
    best_risk: expected loss of the best model of the hypothesis class.
    bayes_error_rate: smallest 0-1 loss of any classifier.
    majority_error_rate: 0-1 loss of always predicting the most frequent class, under a known law or else among users.
    constant_excess_risk: excess risk of the best predictor that uses no features, under a known law.
    auc, nonprivate_auc: area under the ROC curve, only if there are two classes and both occur. This is the probability
    that a row of label 1 has a larger score than a row of label 0; ties count half.
    """

    error_rate: float | None
    nonprivate_error_rate: float | None
    excess_risk: float | None = None
    nonprivate_excess_risk: float | None = None
    best_risk: float | None = None
    bayes_error_rate: float | None = None
    excess_risk_loss: Loss | None = None
    majority_error_rate: float | None = None
    constant_excess_risk: float | None = None
    auc: float | None = None
    nonprivate_auc: float | None = None


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of a private predictor and, if there is one, of a predictor without privacy, for m rows.

    population: the users; the m rows are the points of the known law or, without a law, the rows held out. mass: (m, K)
    weight of each row and class: the probability under a known law, else 1 for a held-out row's label. probabilities:
    for each predictor, its class probabilities (m, K). numbers: for each predictor that predicts numbers, its
    predictions (m,).
    """

    population: People
    mass: Floats
    probabilities: list[Floats]
    numbers: list[Floats]

    @property
    def error_mass(self) -> list[Floats]:
        """For each predictor, `mass` (m, K) with 0 for each row's predicted class. The sum is the error rate under a
        known law, else the number of errors.
        """
        classes = np.arange(self.population.num_classes)
        return [self.mass * (classes != p.argmax(axis=1)[:, None]) for p in self.probabilities]


def predict(population: People, private: Predictor, nonprivate: Predictor | None) -> Predicted:
    """Predictions of the private predictor and, if there is one, of the predictor without privacy. The rows are the
    points of the known law or, without a law, the rows held out. If the private predictor consists of predictors for
    some clusters, only rows of these clusters are used.

    Args:
        population: the users, with a known law or rows held out. private: learned from the release. nonprivate: learned
        from true labels; None if none was trained.
    """
    if isinstance(private, ByCluster):
        population = _judged(cast(Population, population), tuple(private.predictors))
    cluster: NDArray[np.int64] | None
    if (law := population.law) is not None:
        features, cluster = law.points, law.cluster
        mass = law.mass[:, None] * law.label_distribution
    else:
        held = cast(Examples, cast(Population, population).holdout)  # rows are held out where no law is known
        features, cluster = held.features, held.cluster  # type: ignore[assignment]
        mass = np.eye(population.num_classes)[held.labels]
    learned = [private] if nonprivate is None else [private, nonprivate]
    numbers = [p.numbers(features) for p in learned if isinstance(p, LinearValues)]
    return Predicted(population, mass, [probabilities_of(p, features, cluster) for p in learned], numbers)


def measured(predicted: Predicted, loss: Loss = "log") -> Risk:
    """The values of `Risk` for a private predictor and, if there is one, a predictor without privacy. Under a known law
    all values are exact. Otherwise error rates and areas under the ROC curve are computed on the rows held out; Bayes'
    error rate and all risks are None.

    Excess risk is the expected loss minus the smallest expected loss of a family of models. For the log loss (in nats),
    the family is all affine logistic models. For the 0-1 loss it is all functions, and for the squared loss all affine
    functions.

    Args:
        predicted: predictions of both predictors for the same rows. loss: the loss in which excess risk is measured.
    """
    population = predicted.population
    if population.law is not None:
        risk = _under_law(predicted, population.law, loss)
    else:
        held, users = predicted.mass.argmax(axis=1), cast(Population, population).labels  # true labels
        # the second value is None if there is no predictor without privacy
        error, reference, *_ = *(float(np.mean(p.argmax(axis=1) != held)) for p in predicted.probabilities), None
        # the most frequent class among the users; the smallest if several are equally frequent
        majority = None if loss == "squared" else float(np.mean(held != np.bincount(users).argmax()))
        risk = Risk(error, reference, majority_error_rate=majority)
    if population.num_classes != 2 or loss == "squared":
        return risk
    negative, positive = predicted.mass.T
    area, reference_area, *_ = *(area_under_curve(negative, positive, p[:, 1]) for p in predicted.probabilities), None
    return replace(risk, auc=area, nonprivate_auc=reference_area)


def _under_law(predicted: Predicted, law: FiniteLaw, loss: Loss) -> Risk:
    """Exact error rates and excess risks of predictions at the points of a known law, without areas under the curve.

    Args:
        predicted: predictions of both predictors. law: the known law of the data. loss: the loss in which excess risks
        are measured.
    """
    errors = [error_rate(law.mass, law.label_distribution, p) for p in predicted.probabilities]
    bayes = bayes_error_rate(law.mass, law.label_distribution)
    majority, entropy = constant_risks(law.mass, law.label_distribution)
    # risks of both predictors, of the best model of the hypothesis class, and of the best constant
    if loss == "squared":
        risks, best, constant = squared_risks(predicted.population, law, predicted.numbers)
    elif loss == "zero_one":
        risks, best, constant = errors, bayes, majority
    else:
        risks = [log_risk(law.mass, law.label_distribution, p) for p in predicted.probabilities]
        best, constant = best_logistic_risk(law.points, law.mass, law.label_distribution[:, 1]), entropy
    error, reference, *_ = *errors, None
    excess, reference_excess, *_ = *(risk - best for risk in risks), None
    return Risk(
        error_rate=error,
        nonprivate_error_rate=reference,
        excess_risk=excess,
        nonprivate_excess_risk=reference_excess,
        best_risk=best,
        bayes_error_rate=bayes,
        excess_risk_loss=loss,
        majority_error_rate=None if loss == "squared" else majority,
        constant_excess_risk=constant - best,
    )


def _judged(population: Population, clusters: tuple[int, ...]) -> Population:
    """The population with only the points of its law, or the held-out rows, that belong to the given clusters. Only
    these clusters have a predictor. The probabilities of the remaining points are scaled so that they sum to 1. The
    population is unchanged if neither a law nor the clusters of the held-out rows are known.

    Args:
        population: the users, with a known law or rows held out. clusters: numbers of the clusters.

    Raises:
        InputError: no held-out row is in any of the clusters.
    """
    law, holdout = population.law, population.holdout
    if law is not None:
        of = np.isin(law.cluster, clusters)
        mass = law.mass[of] / law.mass[of].sum()
        judged = FiniteLaw(law.points[of], mass, law.label_distribution[of], law.cluster[of])
        return replace(population, law=judged, groupings=take_rows(population.groupings, of))
    if holdout is None or holdout.cluster is None:
        return population
    rows = np.flatnonzero(np.isin(holdout.cluster, clusters))
    if not rows.size:
        raise InputError("population.test_fraction: no row of an organisation that is judged was held out")
    return replace(population, holdout=holdout.take(rows), groupings=take_rows(population.groupings, rows))


def exchange_floor(population: People, flip_prob: float, loss: Loss = "log") -> float | None:
    """The excess risk that remains in the label exchange even if infinitely many labels arrive. An exchanged label
    comes from a random user of the cluster, and is flipped with probability α. So the best model for exchanged labels
    differs from the best model for true labels. The result is the exact excess risk, on true labels, of the best model
    for exchanged labels. None: there are not two classes, or the law of the data or its clusters are unknown.

    Args:
        population: the users, with or without a known law. flip_prob: α. loss: the loss in which risk is measured:
        "log" (nats; best affine logistic model) or "zero_one" (best of all functions).
    """
    law = population.law
    if law is None or not population.law_clusters or population.num_classes != 2:
        return None
    positive = law.label_distribution[:, 1]
    exchanged = exchanged_distribution(law.mass, positive, law.cluster, flip_prob)
    if loss == "zero_one":
        reached = error_rate(law.mass, law.label_distribution, np.stack([1.0 - exchanged, exchanged], axis=1))
        return reached - bayes_error_rate(law.mass, law.label_distribution)
    reached = logistic_risk_after(law.points, law.mass, exchanged, positive)
    return reached - best_logistic_risk(law.points, law.mass, positive)


class Heterogeneity(NamedTuple):
    """The heterogeneity φ of a population's clusters, and words that say whether it is exact or an estimate."""

    value: float
    basis: str


def population_heterogeneity(population: People) -> Heterogeneity:
    """The heterogeneity φ = E Σ_y |p(y|x) - p(y|c)| of the population's clusters, and how it was found. Here p(y|x) is
    the probability of label y at features x, and p(y|c) is the probability of y in the cluster c of x.

    The value is exact if p(y|x) is known: for the whole law, or for the users at hand. Otherwise it is an estimate from
    true labels; the mean of this estimate is an upper bound of φ.
    """
    law, sizes = population.law, population.cluster_sizes
    if law is not None and population.law_clusters:
        return Heterogeneity(heterogeneity(law.mass, law.label_distribution, law.cluster), "exact")
    people = cast(Population, population)
    if law is not None and people.point is not None:
        users, cluster = np.full(people.num_users, 1.0 / people.num_users), np.repeat(np.arange(len(sizes)), sizes)
        phi = heterogeneity(users, law.label_distribution[people.point], cluster)
        return Heterogeneity(phi, "exact for the users at hand")
    estimate = heterogeneity_upper_estimate(people.labels, people.cluster_offsets, people.num_classes)
    return Heterogeneity(estimate, "estimate of an upper bound, from labels")


def by_group(predicted: Predicted, kinds: Sequence[str]) -> dict[str, float | None]:
    """Three values for each group of rows: share, error_rate (of the private predictor) and nonprivate_error_rate. The
    name of a column ends in the grouping and the group, as in error_rate[sex=Female].

    The share is the group's share of the rows held out, or its probability under a known law. An error rate is the mean
    0-1 loss. None: the group has no rows, or the predictor was not trained.

    Args:
        predicted: predictions for the rows. kinds: names of the groupings: "class" (each class is a group), or
        groupings that the population has, such as "sex".
    """
    if not kinds:
        return {}
    mass, wrong, whole = predicted.mass, predicted.error_mass, predicted.mass.sum()
    row: dict[str, float | None] = {}
    for kind in kinds:
        # for each group, its mass and the mass of each predictor's errors; a class is a column of the arrays (m, K)
        if kind == CLASS:
            names: Sequence[str] = [str(k) for k in range(predicted.population.num_classes)]
            share, *errors = (part.sum(axis=0) for part in (mass, *wrong))
        else:
            grouping = cast(Population, predicted.population).groupings[kind]
            names, grouped = grouping.names, grouping.of >= 0
            of = grouping.of[grouped]
            share, *errors = (np.bincount(of, part.sum(axis=1)[grouped], len(names)) for part in (mass, *wrong))
        for index, name in enumerate(names):
            rates = [float(error[index] / share[index]) for error in errors] if share[index] > 0.0 else []
            figures = (float(share[index] / whole), *rates, None, None)  # None for each missing rate
            columns = map(Group(kind, name).column, (SHARE, ERROR, REFERENCE))
            row |= dict(zip(columns, figures, strict=False))
    return row
