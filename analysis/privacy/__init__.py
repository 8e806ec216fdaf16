"""Privacy of the label exchange: exact values, certified bounds and the papers' claims. No simulator needed."""

from analysis.privacy.bound import Bracket, PrivacyBound
from analysis.privacy.calibration import calibrate_flip_prob
from analysis.privacy.label_exchange import LabelExchange
from analysis.privacy.local import local_epsilon
from analysis.privacy.paper import lemma9_epsilon, theorem3
from analysis.privacy.sufficient import sufficient_flip_prob

__all__ = [
    "Bracket",
    "LabelExchange",
    "PrivacyBound",
    "calibrate_flip_prob",
    "lemma9_epsilon",
    "local_epsilon",
    "sufficient_flip_prob",
    "theorem3",
]
