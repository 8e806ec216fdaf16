"""Privacy of the label exchange: exact values, certified bounds and the papers' claims. No simulator needed."""

from analysis.privacy.exchange.calibration import best_sampling_rate, calibrate_each, calibrate_flip_prob
from analysis.privacy.exchange.composition import compose
from analysis.privacy.exchange.kary import KaryExchange
from analysis.privacy.exchange.label_exchange import LabelExchange
from analysis.privacy.exchange.observers import Coalition, Eavesdropper, Peer, TimedLearner
from analysis.privacy.exchange.paper import lemma9_epsilon, theorem3
from analysis.privacy.exchange.sufficient import sufficient_flip_prob
from analysis.privacy.networks.fetch import FetchDistribution
from analysis.privacy.networks.realised_network import CappedFetch, UniformSources
from analysis.privacy.others.centralised import ClusterResampling
from analysis.privacy.others.dp_sgd import DpSgd, calibrate_noise
from analysis.privacy.others.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
from analysis.privacy.others.shuffled import ShuffledResponse
from analysis.privacy.others.shuffled_messages import ShuffledMessages
from analysis.privacy.statement.accountant import Accountant
from analysis.privacy.statement.bound import Bracket, PrivacyBound
from analysis.privacy.statement.local import local_epsilon

__all__ = [
    "Accountant",
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
