"""Privacy of the label exchange: exact values, certified bounds and the papers' claims. No simulator needed."""

from analysis.privacy.bound import Bracket, PrivacyBound
from analysis.privacy.calibration import best_sampling_rate, calibrate_each, calibrate_flip_prob
from analysis.privacy.centralised import ClusterResampling
from analysis.privacy.composition import compose
from analysis.privacy.dp_sgd import DpSgd, calibrate_noise
from analysis.privacy.fetch import FetchDistribution
from analysis.privacy.kary import KaryExchange
from analysis.privacy.label_exchange import LabelExchange
from analysis.privacy.local import local_epsilon
from analysis.privacy.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
from analysis.privacy.observers import Coalition, Eavesdropper, Peer, TimedLearner
from analysis.privacy.paper import lemma9_epsilon, theorem3
from analysis.privacy.realised import CappedFetch, UniformSources
from analysis.privacy.shuffled import ShuffledResponse
from analysis.privacy.shuffled_messages import ShuffledMessages
from analysis.privacy.sufficient import sufficient_flip_prob

__all__ = [
    "Bracket",
    "CappedFetch",
    "ClusterResampling",
    "Coalition",
    "DpSgd",
    "Eavesdropper",
    "FetchDistribution",
    "KaryExchange",
    "LabelExchange",
    "ObjectivePerturbation",
    "Peer",
    "PrivacyBound",
    "ShuffledMessages",
    "ShuffledResponse",
    "TimedLearner",
    "UniformSources",
    "best_sampling_rate",
    "calibrate_each",
    "calibrate_flip_prob",
    "calibrate_noise",
    "calibrate_perturbation",
    "compose",
    "lemma9_epsilon",
    "local_epsilon",
    "sufficient_flip_prob",
    "theorem3",
]
