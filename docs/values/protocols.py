"""Protocols without a server side by side."""

import math

from docs.values.forms import interval, published, short, up

SOURCE = ("python -m analysis.protocols", "analysis/test_protocols.py::test_the_study_runs_in_small")
OBSERVERS = ("learner", "peer", "coalition", "eavesdropper")
SHOWN = 200
"""Users in the cluster of the table of views."""
OTHERS = ("ask 3", "ask 5", "pushed labels", "trusted shuffler", "randomised response")
EQUAL = ("the same ε₀", "the same certified ε at the learner")

_views, _points = published("protocols", "views.csv"), published("protocols")


def _theta(value: float) -> str:
    return f"{value:g}".removeprefix("0")


def _bracket(attack: float, certified: float) -> str:
    """The attack's end rounded down, the certified one up."""
    return f"[{short(math.floor(1000 * attack) / 1000)}, {short(up(certified, 3))}]"


views = [
    [str(line["protocol"]), _theta(line["sampling_rate"])]
    + [_bracket(line[f"{who}_attack"], line[f"{who}_certified"]) for who in OBSERVERS]
    for _, line in _views[_views["cluster_size"] == SHOWN].iterrows()
]


def _gains(equal: str) -> list[list[str]]:
    """A line for each data set at θ = 1: the exchange's accuracy, and what each other protocol gains over it."""
    part = _points[(_points["equal"] == equal) & (_points["sampling_rate"] == 1.0)].set_index(["panel", "protocol"])
    return [
        [panel, short(part.loc[(panel, "label exchange (ask 1)"), "accuracy"])]
        + [interval(*(part.loc[(panel, way), name] for name in ("gain", "gain_low", "gain_high"))) for way in OTHERS]
        for panel in dict.fromkeys(_points["panel"])
    ]


same_noise, same_epsilon = (_gains(equal) for equal in EQUAL)
replicates = int(_points["replicates"].min())
messages = {
    way: short(_points[(_points["protocol"] == way) & (_points["sampling_rate"] == 1.0)]["messages_a_user"].mean(), 0)
    for way in ("label exchange (ask 1)", "ask 3", "ask 5", "pushed labels")
}
