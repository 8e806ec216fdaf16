"""The kinds of learners for a scenario, and a check that population, mechanism and learner fit together."""

from typing import Annotated

from p2p_sim.base import LEARNERS, PlugIns
from p2p_sim.learning.cluster_and_features import ClusterAndFeaturesConfig
from p2p_sim.learning.convolutional import ConvolutionalConfig
from p2p_sim.learning.histogram import HistogramConfig
from p2p_sim.learning.learner import Learner
from p2p_sim.learning.local_averages import KnnConfig, MajorityTableConfig
from p2p_sim.learning.logistic_regression import (
    LogisticRegressionConfig,
    OneVsRestConfig,
    SoftLogisticRegressionConfig,
    TrimmedClustersConfig,
)
from p2p_sim.learning.noise_correction import BackwardCorrectionConfig, ForwardCorrectionConfig, LabelProportionsConfig
from p2p_sim.learning.ridge import RidgeConfig
from p2p_sim.learning.scikit_learner import BoostedTreesConfig, EstimatorConfig
from p2p_sim.mechanisms import ReleaseKind
from p2p_sim.population import Source


def check_fit(population: Source, mechanism: tuple[str, ReleaseKind], learner: Learner) -> None:
    """Check that a learner can learn from what a mechanism releases. A mechanism for numbers also needs a population
    whose labels are numbers. A released density is the result itself: nothing is learned from it, and the learner must
    be the default learner. A released model fits every learner for classes.

    Args:
        population: the source of the users, which tells whether labels are classes or numbers. mechanism: the kind of
        the mechanism, and what it releases: "hard" labels (classes), "bits", "soft" labels (class probabilities),
        "signed" weights, "values" (numbers), "model" or "density". learner: the learner; `accepts` lists the kinds of
        labels that it takes.

    Raises:
        ValueError: population, mechanism and learner do not fit together. The message is one line; it names the keys,
        and the kinds that fit.
    """
    (kind, releases), accepted = mechanism, learner.accepts
    # A density is the result itself. Released numbers need labels that are numbers. A learner for numbers needs
    # released numbers.
    if releases == "density":
        if learner != LogisticRegressionConfig():
            raise ValueError(
                f"learner.kind = {learner.kind!r}: nothing is learned from a density, which mechanism.kind = {kind!r} "
                "releases; leave [learner] out"
            )
        return
    if releases == "values" and population.known_values is None:
        raise ValueError(
            f"population.kind = {population.kind!r}: its labels are classes, and mechanism.kind = {kind!r} privatises "
            "numbers; 'linear', 'diabetes' and 'table' with label_range have labels that are numbers"
        )
    if learner.loss == "squared" and releases != "values":
        raise ValueError(
            f"learner.kind = {learner.kind!r}: takes numbers, and mechanism.kind = {kind!r} releases none; "
            "'rr_on_bins' and 'unbiased_values' do"
        )
    if releases == "model" or releases in accepted:
        return
    takes_them = {"values": "ridge", "bits": "one_vs_rest"}.get(releases, "soft_logistic_regression")
    raise ValueError(
        f"learner.kind = {learner.kind!r}: takes {' or '.join(accepted)} labels, and mechanism.kind = {kind!r} "
        f"releases {releases} ones; {takes_them!r} takes these"
    )


LearnerConfig = Annotated[
    LogisticRegressionConfig
    | SoftLogisticRegressionConfig
    | EstimatorConfig
    | MajorityTableConfig
    | HistogramConfig
    | TrimmedClustersConfig
    | KnnConfig
    | OneVsRestConfig
    | ConvolutionalConfig
    | ForwardCorrectionConfig
    | BackwardCorrectionConfig
    | ClusterAndFeaturesConfig
    | BoostedTreesConfig
    | LabelProportionsConfig
    | RidgeConfig,
    PlugIns(LEARNERS, Learner),
]
