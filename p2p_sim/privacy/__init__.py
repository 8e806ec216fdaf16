"""Privacy of the label exchange: exact values, certified bounds and the papers' claims. No simulator needed."""

from typing import TYPE_CHECKING

from p2p_sim.base.packages import late

if TYPE_CHECKING:  # what type checkers and editors read
    from p2p_sim.privacy.accountant import Accountant
    from p2p_sim.privacy.bound import Bracket, PrivacyBound
    from p2p_sim.privacy.certificates.writing import certificate
    from p2p_sim.privacy.composition import compose
    from p2p_sim.privacy.conversions import advantage, gdp, loss_law, pld, renyi, tradeoff, worst_advantage
    from p2p_sim.privacy.exchange.calibration import best_sampling_rate, calibrate_each, calibrate_flip_prob
    from p2p_sim.privacy.exchange.corrected_theorem3 import sufficient_flip_prob
    from p2p_sim.privacy.exchange.kary import KaryExchange
    from p2p_sim.privacy.exchange.label_exchange import LabelExchange
    from p2p_sim.privacy.exchange.majority_exchange import MajorityExchange, PluralityExchange, calibrate_majority
    from p2p_sim.privacy.exchange.observers import Coalition, Eavesdropper, Peer, TimedLearner
    from p2p_sim.privacy.exchange.paper_bounds import lemma9_epsilon, theorem3
    from p2p_sim.privacy.overlays.fetch_distribution import FetchDistribution
    from p2p_sim.privacy.overlays.realised_network import CappedFetch, UniformSources
    from p2p_sim.privacy.randomized_response import local_epsilon
    from p2p_sim.privacy.rivals.centralised import ClusterResampling
    from p2p_sim.privacy.rivals.dp_sgd import DpSgd, calibrate_noise
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

__getattr__ = late(
    "p2p_sim.privacy",
    {
        "Accountant": "accountant",
        "BinomialRuns": "rivals.selection_run_laws",
        "Bracket": "bound",
        "CappedFetch": "overlays.realised_network",
        "ClusterResampling": "rivals.centralised",
        "Coalition": "exchange.observers",
        "DpSgd": "rivals.dp_sgd",
        "Eavesdropper": "exchange.observers",
        "FetchDistribution": "overlays.fetch_distribution",
        "KaryExchange": "exchange.kary",
        "LabelExchange": "exchange.label_exchange",
        "MajorityExchange": "exchange.majority_exchange",
        "NoisyScore": "rivals.noisy_score",
        "ObjectivePerturbation": "rivals.objective_perturbation",
        "Peer": "exchange.observers",
        "PluralityExchange": "exchange.majority_exchange",
        "PoissonRuns": "rivals.selection_run_laws",
        "PrivacyBound": "bound",
        "Selection": "rivals.private_selection",
        "ShuffledMessages": "rivals.shuffled_messages",
        "ShuffledResponse": "rivals.shuffled_labels",
        "ThresholdStop": "rivals.selection_run_laws",
        "TimedLearner": "exchange.observers",
        "TruncatedNegativeBinomial": "rivals.selection_run_laws",
        "UniformSources": "overlays.realised_network",
        "advantage": "conversions",
        "best_sampling_rate": "exchange.calibration",
        "calibrate_each": "exchange.calibration",
        "calibrate_flip_prob": "exchange.calibration",
        "calibrate_majority": "exchange.majority_exchange",
        "calibrate_noise": "rivals.dp_sgd",
        "calibrate_perturbation": "rivals.objective_perturbation",
        "certificate": "certificates.writing",
        "compose": "composition",
        "gdp": "conversions",
        "lemma9_epsilon": "exchange.paper_bounds",
        "local_epsilon": "randomized_response",
        "loss_law": "conversions",
        "pld": "conversions",
        "renyi": "conversions",
        "sufficient_flip_prob": "exchange.corrected_theorem3",
        "theorem3": "exchange.paper_bounds",
        "tradeoff": "conversions",
        "worst_advantage": "conversions",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
