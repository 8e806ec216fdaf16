"""Privacy of the label exchange: exact values, certified bounds and the papers' claims, without the simulator."""

from typing import TYPE_CHECKING

from p2p_sim.base.packages import late

if TYPE_CHECKING:  # what type checkers and editors read
    from p2p_sim.privacy.accountant import Accountant
    from p2p_sim.privacy.bound import Bracket, PrivacyBound
    from p2p_sim.privacy.certificates.writing import certificate
    from p2p_sim.privacy.composition import compose
    from p2p_sim.privacy.conversions import gdp, loss_law, pld, renyi, tradeoff
    from p2p_sim.privacy.exchange.best_peers import best_peers
    from p2p_sim.privacy.exchange.calibration import best_sampling_rate, calibrate_each, calibrate_flip_prob
    from p2p_sim.privacy.exchange.corrected_theorem3 import sufficient_flip_prob
    from p2p_sim.privacy.exchange.kary import KaryExchange
    from p2p_sim.privacy.exchange.label_exchange import LabelExchange
    from p2p_sim.privacy.exchange.majority_exchange import MajorityExchange, PluralityExchange, calibrate_majority
    from p2p_sim.privacy.exchange.observers import Coalition, Eavesdropper, Peer, TimedLearner
    from p2p_sim.privacy.exchange.paper_bounds import lemma9_epsilon, theorem3
    from p2p_sim.privacy.guessing_advantage import advantage, worst_advantage
    from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
    from p2p_sim.privacy.overlays.realised_network import CappedFetch, UniformSources
    from p2p_sim.privacy.randomized_response import local_epsilon
    from p2p_sim.privacy.rivals.centralised import ClusterResampling
    from p2p_sim.privacy.rivals.dp_sgd import DpSgd, calibrate_noise
    from p2p_sim.privacy.rivals.majority_coalition import MajorityCoalition
    from p2p_sim.privacy.rivals.noisy_score import NoisyScore
    from p2p_sim.privacy.rivals.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
    from p2p_sim.privacy.rivals.private_selection import Selection
    from p2p_sim.privacy.rivals.selection_run_laws import (
        BinomialRuns,
        PoissonRuns,
        ThresholdStop,
        TruncatedNegativeBinomial,
    )
    from p2p_sim.privacy.rivals.shuffled_labels import ShuffledResponse
    from p2p_sim.privacy.rivals.shuffled_messages import ShuffledMessages

__all__ = [
    "Accountant",
    "BinomialRuns",
    "Bracket",
    "CappedFetch",
    "ClusterResampling",
    "Coalition",
    "DpSgd",
    "Eavesdropper",
    "FetchDistribution",
    "KaryExchange",
    "LabelExchange",
    "MajorityCoalition",
    "MajorityExchange",
    "NoisyScore",
    "ObjectivePerturbation",
    "Peer",
    "PluralityExchange",
    "PoissonRuns",
    "PrivacyBound",
    "Selection",
    "ShuffledMessages",
    "ShuffledResponse",
    "ThresholdStop",
    "TimedLearner",
    "TruncatedNegativeBinomial",
    "UniformSources",
    "advantage",
    "best_peers",
    "best_sampling_rate",
    "calibrate_each",
    "calibrate_flip_prob",
    "calibrate_majority",
    "calibrate_noise",
    "calibrate_perturbation",
    "certificate",
    "compose",
    "gdp",
    "lemma9_epsilon",
    "local_epsilon",
    "loss_law",
    "pld",
    "renyi",
    "sufficient_flip_prob",
    "theorem3",
    "tradeoff",
    "worst_advantage",
]

_NAMES = {
    "accountant": "Accountant",
    "bound": "Bracket PrivacyBound",
    "certificates.writing": "certificate",
    "composition": "compose",
    "conversions": "gdp loss_law pld renyi tradeoff",
    "exchange.best_peers": "best_peers",
    "exchange.calibration": "best_sampling_rate calibrate_each calibrate_flip_prob",
    "exchange.corrected_theorem3": "sufficient_flip_prob",
    "exchange.kary": "KaryExchange",
    "exchange.label_exchange": "LabelExchange",
    "exchange.majority_exchange": "MajorityExchange PluralityExchange calibrate_majority",
    "exchange.observers": "Coalition Eavesdropper Peer TimedLearner",
    "exchange.paper_bounds": "lemma9_epsilon theorem3",
    "guessing_advantage": "advantage worst_advantage",
    "overlays.fetch_distribution": "FetchDistribution",
    "overlays.realised_network": "CappedFetch UniformSources",
    "randomized_response": "local_epsilon",
    "rivals.centralised": "ClusterResampling",
    "rivals.dp_sgd": "DpSgd calibrate_noise",
    "rivals.majority_coalition": "MajorityCoalition",
    "rivals.noisy_score": "NoisyScore",
    "rivals.objective_perturbation": "ObjectivePerturbation calibrate_perturbation",
    "rivals.private_selection": "Selection",
    "rivals.selection_run_laws": "BinomialRuns PoissonRuns ThresholdStop TruncatedNegativeBinomial",
    "rivals.shuffled_labels": "ShuffledResponse",
    "rivals.shuffled_messages": "ShuffledMessages",
}
"""The public names of each module."""

__getattr__ = late("p2p_sim.privacy", {name: home for home, names in _NAMES.items() for name in names.split()})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
