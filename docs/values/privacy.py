"""What bounds come to."""

import math

from docs.values.forms import published, short
from p2p_sim.privacy import local_epsilon
from p2p_sim.privacy.certificates.verify_certificate import LARGEST_N, LARGEST_TRIALS
from p2p_sim.privacy.exchange.delta_evaluator import SUMMED_IN_FULL
from p2p_sim.privacy.exchange.one_cluster import EXHAUSTIVE
from p2p_sim.privacy.rivals import resampled_classes
from p2p_sim.privacy.rivals.resampled_counts import LARGEST_CLUSTER

SOURCE = ("python -m analysis.privacy_tables", "analysis/test_published_privacy.py::test_the_privacy_study")

certified_users, certified_submissions = LARGEST_N, LARGEST_TRIALS
exhaustive, in_full, resampled_to, local = EXHAUSTIVE, SUMMED_IN_FULL, LARGEST_CLUSTER, local_epsilon(0.1)
brackets = published("privacy", "brackets.csv")
above = 100 * brackets[brackets["n"] > EXHAUSTIVE]["width"]
large = brackets[brackets["n"] >= 1000]["factor"]
widths, widest = (
    100 * brackets[brackets["n"].between(*ends)]["width"] for ends in ((EXHAUSTIVE + 1, 20_000), (20_001, 10**9))
)

papers = published("privacy", "paper.csv")
lemma9 = papers.iloc[0]
rounds = published("privacy", "rounds.csv").iloc[0]
sets = published("privacy", "data-sets.csv")
worst = sets.loc[sets["delta"].idxmax()]
event, binned = (published("privacy", "released.csv").iloc[place] for place in (0, 1))
audit = published("privacy", "audit.csv").iloc[0]

complete = published("privacy", "complete.csv")
dearest = 100 * (complete["epsilon_upper"] / complete["epsilon_exact"] - 1.0).max()
overlays = published("privacy", "overlays.csv")
users = overlays["n"].unique().item()
_all = complete[complete["n"] == users].set_index("sampling_rate")
all_more = 100 * (_all["epsilon_upper"] / _all["epsilon_exact"] - 1.0)
_at = overlays.set_index(["sampling_rate", "neighbours", "delta"])["epsilon_upper"]
degrees = overlays["neighbours"].unique()
by_degree = [[*map(str, degrees), "all"]]
for _theta in (0.1, 1.0):
    _ends = [f"{short(_at[_theta, d, 1e-6], 2)} ({short(_at[_theta, d, 1e-4], 2)})" for d in degrees]
    by_degree.append([*_ends, short(_all["epsilon_upper"][_theta], 2)])

_lines = published("privacy", "overlays-attained.csv")
_least = _lines.set_index(["sampling_rate", "neighbours", "delta"])["epsilon_lower"]
attained = [[*map(str, degrees), "all"]]
for _theta in (0.1, 1.0):
    _each = [(short(_least[_theta, d, 1e-6], 2), short(_least[_theta, d, 1e-4], 2)) for d in (*degrees, users)]
    attained.append([f"{small} ({large})" for small, large in _each])

_dense = published("privacy", "dense.csv").set_index(["table", "n", "sampling_rate"])
_ratios = _dense["epsilon_upper"] / _dense["epsilon_exact"]
_sizes = _ratios.index.unique("n")
near_uniform = [[f"n = {_sizes[0]}", *map(str, _sizes[1:])]]
for _name in _ratios.index.unique("table"):
    near_uniform.append([", ".join(f"{_ratios[_name, n, t]:.2f}" for t in (0.1, 1.0)) for n in _sizes])


def _rounded_up(end: float) -> str:
    places = 2 if end >= 1.0 else 3
    return short(math.ceil(end * 10**places) / 10**places, places)


def _bracket(lower: float, upper: float) -> str:
    """The lower end rounded down, the upper one up."""
    places = 2 if lower >= 1.0 else 3
    return f"{short(math.floor(lower * 10**places) / 10**places, places)} to {_rounded_up(upper)}"


_found = published("privacy", "resampled.csv")
resampled = [
    [f"{row.n}, {row.noise_scale:g}, {short(row.threshold, 1)}, {f'{row.resampling_prob:g}'.lstrip('0')}",
     f"{row.delta:g}".replace("e-06", "e-6"), short(row.pure_epsilon, 2 if row.pure_epsilon >= 1.0 else 3),
     _bracket(row.epsilon_lower, row.epsilon_upper)]
    for row in _found.itertuples()
]  # fmt: skip
resampled_widths = 100 * (_found["epsilon_upper"] / _found["epsilon_lower"] - 1.0)


def _shares(*values: float) -> list[str]:
    return [f"{value:g}".removeprefix("0") for value in values]


classes_to = resampled_classes.LARGEST_CLUSTER
classes = [
    [", ".join([f"{row.n}, {row.classes}", *_shares(row.resampling_prob, row.noise_scale, row.threshold)]),
     f"{row.delta:g}".replace("e-0", "e-"), short(row.pure_epsilon, 2 if row.pure_epsilon >= 1.0 else 3),
     _rounded_up(row.epsilon_upper)]
    for row in published("privacy", "resampled-classes.csv").itertuples()
]  # fmt: skip
