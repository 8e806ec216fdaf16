"""Privacy of the label exchange: exact values, certified bounds and the papers' claims. No simulator needed."""

from p2p_sim.analysis.privacy.exchange.calibration import best_sampling_rate, calibrate_each, calibrate_flip_prob
from p2p_sim.analysis.privacy.exchange.composition import compose
from p2p_sim.analysis.privacy.exchange.kary import KaryExchange
from p2p_sim.analysis.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.analysis.privacy.exchange.observers import Coalition, Eavesdropper, Peer, TimedLearner
from p2p_sim.analysis.privacy.exchange.paper import lemma9_epsilon, theorem3
from p2p_sim.analysis.privacy.exchange.sufficient import sufficient_flip_prob
from p2p_sim.analysis.privacy.networks.fetch import FetchDistribution
from p2p_sim.analysis.privacy.networks.realised_network import CappedFetch, UniformSources
from p2p_sim.analysis.privacy.others.centralised import ClusterResampling
from p2p_sim.analysis.privacy.others.dp_sgd import DpSgd, calibrate_noise
from p2p_sim.analysis.privacy.others.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
from p2p_sim.analysis.privacy.others.shuffled import ShuffledResponse
from p2p_sim.analysis.privacy.others.shuffled_messages import ShuffledMessages
from p2p_sim.analysis.privacy.statement.accountant import Accountant
from p2p_sim.analysis.privacy.statement.bound import Bracket, PrivacyBound
from p2p_sim.analysis.privacy.statement.local import local_epsilon

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
