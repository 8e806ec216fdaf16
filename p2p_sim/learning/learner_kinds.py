"""The learners of a scenario, by `learner.kind`."""

from typing import Annotated

from p2p_sim.base.plugins import LEARNERS, PlugIns
from p2p_sim.learning.backward_correction import BackwardCorrectionConfig
from p2p_sim.learning.boosted_trees import BoostedTreesConfig
from p2p_sim.learning.cluster_and_features import ClusterAndFeaturesConfig
from p2p_sim.learning.convolutional import ConvolutionalConfig
from p2p_sim.learning.forward_correction import ForwardCorrectionConfig
from p2p_sim.learning.histogram import HistogramConfig
from p2p_sim.learning.knn import KnnConfig
from p2p_sim.learning.label_proportions import LabelProportionsConfig
from p2p_sim.learning.learner import Learner
from p2p_sim.learning.logistic_regression import LogisticRegressionConfig
from p2p_sim.learning.majority_table import MajorityTableConfig
from p2p_sim.learning.one_vs_rest import OneVsRestConfig
from p2p_sim.learning.ridge import RidgeConfig
from p2p_sim.learning.scikit_learner import EstimatorConfig
from p2p_sim.learning.soft_logistic_regression import SoftLogisticRegressionConfig
from p2p_sim.learning.trimmed import TrimmedClustersConfig

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
