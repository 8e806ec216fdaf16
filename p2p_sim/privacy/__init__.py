"""Privacy of the label exchange: exact values, certified bounds and the papers' claims, without the simulator."""

from p2p_sim.base.late_names import late

__getattr__, _, _ = late(__name__, __file__)
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
"""The stable names, listed in docs/stability.md. Other packages of p2p-sim use further names."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
