"""Privacy of the label exchange: exact values, certified bounds and the papers' claims. No simulator needed."""

from typing import TYPE_CHECKING

from p2p_sim.analysis.privacy.late import late

if TYPE_CHECKING:  # what type checkers and editors read
    from p2p_sim.analysis.privacy.certificates.writing import certificate
    from p2p_sim.analysis.privacy.exchange.calibration import best_sampling_rate, calibrate_each, calibrate_flip_prob
    from p2p_sim.analysis.privacy.exchange.kary import KaryExchange
    from p2p_sim.analysis.privacy.exchange.label_exchange import LabelExchange
    from p2p_sim.analysis.privacy.exchange.observers import Coalition, Eavesdropper, Peer, TimedLearner
    from p2p_sim.analysis.privacy.exchange.paper import lemma9_epsilon, theorem3
    from p2p_sim.analysis.privacy.exchange.sufficient import sufficient_flip_prob
    from p2p_sim.analysis.privacy.networks.fetch import FetchDistribution
    from p2p_sim.analysis.privacy.networks.realised_network import CappedFetch, UniformSources
    from p2p_sim.analysis.privacy.others.centralised import ClusterResampling
    from p2p_sim.analysis.privacy.others.dp_sgd import DpSgd, calibrate_noise
    from p2p_sim.analysis.privacy.others.noisy_score import NoisyScore
    from p2p_sim.analysis.privacy.others.objective_perturbation import ObjectivePerturbation, calibrate_perturbation
    from p2p_sim.analysis.privacy.others.run_laws import Binomial, Poisson, Threshold, TruncatedNegativeBinomial
    from p2p_sim.analysis.privacy.others.selection import Selection
    from p2p_sim.analysis.privacy.others.shuffled import ShuffledResponse
    from p2p_sim.analysis.privacy.others.shuffled_messages import ShuffledMessages
    from p2p_sim.analysis.privacy.statement.accountant import Accountant
    from p2p_sim.analysis.privacy.statement.bound import Bracket, PrivacyBound
    from p2p_sim.analysis.privacy.statement.composition import compose
    from p2p_sim.analysis.privacy.statement.local import local_epsilon

__all__ = [
    "Accountant",
    "Binomial",
    "Bracket",
    "CappedFetch",
    "ClusterResampling",
    "Coalition",
    "DpSgd",
    "Eavesdropper",
    "FetchDistribution",
    "KaryExchange",
    "LabelExchange",
    "NoisyScore",
    "ObjectivePerturbation",
    "Peer",
    "Poisson",
    "PrivacyBound",
    "Selection",
    "ShuffledMessages",
    "ShuffledResponse",
    "Threshold",
    "TimedLearner",
    "TruncatedNegativeBinomial",
    "UniformSources",
    "best_sampling_rate",
    "calibrate_each",
    "calibrate_flip_prob",
    "calibrate_noise",
    "calibrate_perturbation",
    "certificate",
    "compose",
    "lemma9_epsilon",
    "local_epsilon",
    "sufficient_flip_prob",
    "theorem3",
]

__getattr__ = late(
    "p2p_sim.analysis.privacy",
    {
        "Accountant": "statement.accountant",
        "Binomial": "others.run_laws",
        "Bracket": "statement.bound",
        "CappedFetch": "networks.realised_network",
        "ClusterResampling": "others.centralised",
        "Coalition": "exchange.observers",
        "DpSgd": "others.dp_sgd",
        "Eavesdropper": "exchange.observers",
        "FetchDistribution": "networks.fetch",
        "KaryExchange": "exchange.kary",
        "LabelExchange": "exchange.label_exchange",
        "NoisyScore": "others.noisy_score",
        "ObjectivePerturbation": "others.objective_perturbation",
        "Peer": "exchange.observers",
        "Poisson": "others.run_laws",
        "PrivacyBound": "statement.bound",
        "Selection": "others.selection",
        "ShuffledMessages": "others.shuffled_messages",
        "ShuffledResponse": "others.shuffled",
        "Threshold": "others.run_laws",
        "TimedLearner": "exchange.observers",
        "TruncatedNegativeBinomial": "others.run_laws",
        "UniformSources": "networks.realised_network",
        "best_sampling_rate": "exchange.calibration",
        "calibrate_each": "exchange.calibration",
        "calibrate_flip_prob": "exchange.calibration",
        "calibrate_noise": "others.dp_sgd",
        "calibrate_perturbation": "others.objective_perturbation",
        "certificate": "certificates.writing",
        "compose": "statement.composition",
        "lemma9_epsilon": "exchange.paper",
        "local_epsilon": "statement.local",
        "sufficient_flip_prob": "exchange.sufficient",
        "theorem3": "exchange.paper",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
