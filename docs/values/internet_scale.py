"""Bytes, time and privacy for 10⁹ users, and what the simulator needs."""

import pandas as pd

from analysis.internet_scale import __main__ as internet_scale
from analysis.internet_scale import growth
from analysis.internet_scale.beyond import USERS as ONCE
from analysis.internet_scale.growth import LATENCY, NETWORKS, REQUEST
from docs.values.forms import published
from p2p_sim.base.streams import BLOCK
from p2p_sim.exchange.exchange_run import EXACT
from p2p_sim.privacy.exchange.one_cluster import EXHAUSTIVE

SOURCE = ("python -m analysis.internet_scale", "analysis/test_internet_scale.py::test_the_study")
SOURCES = {
    "beyond": (
        "python -m analysis.internet_scale.beyond",
        "analysis/test_internet_scale.py::test_a_run_in_shares_is_the_same_run",
    ),
    **dict.fromkeys(
        ("whole", "whole_users", "whole_clusters", "whole_smallest", "whole_largest", "whole_cost", "whole_draw"),
        ("python -m analysis.internet_scale.whole_runs",
         "analysis/test_internet_scale.py::test_a_whole_run_in_parts_is_the_same_run"),
    ),
}  # fmt: skip
NAMES, USERS = ("plain", "retries"), growth.USERS
LARGEST, SEEN = 1_000_000, 100_000
"""Users of the largest runs, and of the largest that a fit which is put to the test has seen."""
EARLY, LATE = (f"fit up to {n:,}" for n in (SEEN, LARGEST))
BEYOND = internet_scale.BEYOND

latency, request, big_header, lost = LATENCY, REQUEST, internet_scale.BIG_HEADER, NETWORKS["retries"].loss
_whole = published("internet-scale")
found = _whole.set_index(["setting", "quantity", "at", "basis"]).sort_index()
replicates = _whole.query("basis == 'measured'")["replicates"].unique().item()


def both(quantity: str, at: float = USERS, basis: str = "law") -> list[float]:
    """Of the plain network, and of that with retries."""
    return [found.loc[(name, quantity, at, basis), "value"] for name in NAMES]


def ends(line: pd.Series, digits: int) -> str:
    """From the low end to the high one."""
    return f"{line['low']:.{digits}f} to {line['high']:.{digits}f}"


# bytes and the learner's link
_spans = [ends(found.loc[(name, "served_100_s", USERS, "law")], 1) for name in NAMES]
links = [
    [f"{u:.4g} bytes; {v:.3g} GB" for u, v in zip(both("bytes_per_user"), both("sent_gb"), strict=True)],
    [f"{v:.3g} GB" for v in both("learner_gb")],
    [f"{u:.0f} s; {v:.1f} s" for u, v in zip(both("served_1_s"), both("served_10_s"), strict=True)],
    [f"{v:.1f} s ({says})" for v, says in zip(both("served_100_s"), (f"95%: {_spans[0]}", _spans[1]), strict=True)],
    [f"{v / 3600:.1f} h" for v in both("served_1_big_header_s")],
]
served = found.loc[("retries", "served_1_s", LARGEST, "measured")]
served_by_law = found.loc[("retries", "served_1_s", LARGEST, "law"), "value"]


# the last arrival
def _last(name: str, at: float, basis: str = "law") -> str:
    line = found.loc[(name, "last_s", at, basis)]
    return f"{line['value']:.1f} ({ends(line, 1)})"


def _missed(name: str) -> str:
    """What a fit predicts of the run with 10⁸ users, the upper end in bold if the run ended later."""
    predicted, high = _last(name, ONCE, EARLY), found.loc[(name, "last_s", ONCE, EARLY), "high"]
    later = found.loc[(name, "last_s", ONCE, BEYOND), "value"] > high
    return predicted.replace(f" to {high:.1f})", f" to **{high:.1f}**)") if later else predicted


def _shares(name: str) -> str:
    """How often the interval of a fit holds, in bold if less than half the time."""
    fits = ((LARGEST, EARLY), (USERS, EARLY), (USERS, LATE))
    shares = [found.loc[(name, "last_s_coverage", at, basis), "value"] for at, basis in fits]
    return "; ".join(f"{share:.0%}" if share >= 0.5 else f"**{share:.0%}**" for share in shares)


held = _whole.query("quantity == 'last_s_inside' and basis == 'law'")
inside = (held["value"] * held["replicates"]).sum()
_predicted = found.xs(("last_s_inside", LARGEST, EARLY), level=(1, 2, 3)).loc[list(NAMES)]
last = [
    [_last(name, LARGEST) for name in NAMES],
    [_last(name, LARGEST, EARLY) for name in NAMES],
    [f"{n:.0f}" for n in _predicted["value"] * _predicted["replicates"]],
    [_last(name, ONCE) for name in NAMES],
    [_missed(name) for name in NAMES],
    [f"**{v:.1f}**" for v in both("last_s", ONCE, BEYOND)],
    [f"**{_last(name, USERS)}**" for name in NAMES],
    [_last(name, USERS, EARLY) for name in NAMES],
    [_last(name, USERS, LATE) for name in NAMES],
    [_shares(name) for name in NAMES],
]
studies = found.loc[("plain", "last_s_coverage", USERS, EARLY), "replicates"]
further = USERS // SEEN

# averages and the deadline
fitted, by_law, ran = (
    {name: found.loc[("retries", name, ONCE, basis)] for name in ("bytes_per_user", "p99_s")}
    for basis in (EARLY, "law", BEYOND)
)
late_fit, late_ran = (found.loc[("plain", "p99.9_s", ONCE, basis)] for basis in (EARLY, BEYOND))
fewest = found.xs("measured", level="basis").index.unique("at").min()
half, slow = both("p50_s"), both("p99.9_s")
times = sorted(last / share for last, share in zip(both("last_s"), slow, strict=True))
too_late, never_arrive = max(both("later_than_p99.9")) / 1e6, both("never_arrive")[1] / 1e6

# privacy
delta, alpha, uneven, exhaustive = (
    growth.DELTA, growth.FLIP_PROB, growth.UNEVEN, EXHAUSTIVE,
)  # fmt: skip
_learner = _whole[_whole["part"] == "learner"]
certified = 100 * (_learner["high"] / _learner["low"] - 1.0).max()
_rates = _learner.pivot(index="setting", columns="at", values="value")
clusters = [
    [f"{size:,.0f}" for size in _rates],
    *([f"{v:#.3g}" for v in _rates.loc[f"θ = {rate}"]] for rate in (1, 0.1)),
]
_sizes = _whole[_whole["part"] == "cluster sizes"].set_index(["quantity", "setting", "at"])["value"].sort_index()
_targets = (1.0, 0.5, 0.1)
_rows = [("smallest_cluster", f"α = {alpha:g}, θ = {theta:g}") for alpha, theta in growth.NOISES]
smallest = [
    [f"ε = {_targets[0]:g}", *(f"{e:g}" for e in _targets[1:])],
    *([f"{_sizes[*row, e]:,.0f}" for e in _targets] for row in [*_rows, ("mean_of_random_sizes", _rows[0][1])]),
]
_shared = _whole[_whole["part"] == "coalition"].set_index(["quantity", "at", "setting"])["value"].sort_index()
asked = _shared.xs("asked the target", level="setting").item()
member = f"{_shared['delta', 2.0].item():.1e}".replace("e-0", "e-")
_columns = [f"{100 * share:g}% of all users" for share in growth.COLLUDING]
users_asked, worst, most, unasked = (
    _shared[quantity, 1000][_columns]
    for quantity in ("users_asked", "members_worst_cluster", "members_no_cluster_has_more", "epsilon_unasked")
)
most_each = ", ".join(f"{members:.0f}" for members in most)
coalitions = [
    [name.removesuffix(" of all users") for name in _columns],
    [f"{v / 1e6:.1f} million" for v in users_asked],
    [f"{u:.0f}; {v:.0f}" for u, v in zip(worst, most, strict=True)],
    [f"{v:.3f}" for v in unasked],
]
with_most, alone = _shared["epsilon_unasked", 100, _columns[-1]], _rates.loc["θ = 1", 100]

# the simulator
_costs = published("internet-scale", "costs.csv").set_index(["quantity", "at", "basis", "setting"]).sort_index()
measured = _costs.loc[("cpu_s", LARGEST, "measured"), "value"]
_fits = _costs.loc[("cpu_s", LARGEST, EARLY)]
predicted = [
    ends(_fits.loc[name], 2)
    + ("" if _fits.loc[name, "low"] <= measured[name] <= _fits.loc[name, "high"] else ", missed,")
    for name in NAMES
]
_far = _costs.loc[("cpu_s", USERS, LATE)]
far = [
    f"{fit['value']:,.0f} s ({fit['low']:,.0f} to {fit['high']:,.0f})" for _, fit in _far.loc[list(NAMES)].iterrows()
]
kept = _costs.loc[("peak_bytes_per_user", LARGEST, "in one piece"), "value"].max()
beyond = published("internet-scale", "beyond-timings.csv").set_index("setting")

# a whole run
_ran = published("internet-scale", "whole.csv")
whole_users = int(_ran["n"].unique().item())
_ran = _ran.set_index(["setting", "quantity"])["value"].sort_index()
_spent = published("internet-scale", "whole-timings.csv").set_index("setting")
whole_clusters, whole_smallest, whole_largest = (
    int(_ran["plain", name]) for name in ("num_clusters", "min_cluster_size", "max_cluster_size")
)


def _beside(quantity: str, digits: int) -> list[str]:
    """What the run had, and what the law says: between its roundings, or 95% of runs."""
    laws = (found.loc[(name, quantity, whole_users, "law")] for name in NAMES)
    return [f"{_ran[name, quantity]:.{digits}f}; {ends(law, digits)}" for name, law in zip(NAMES, laws, strict=True)]


whole = [
    _beside("bytes_per_user", 2),
    [f"{_ran[name, 'arrived']:.3%}; {found.loc[(name, 'arrived', whole_users, 'law'), 'value']:.3%}" for name in NAMES],
    _beside("p50_s", 3),
    _beside("p99_s", 3),
    _beside("last_s", 1),
    [f"{_ran[name, 'excess_risk']:.4f}; {_ran[name, 'excess_risk_floor']:.4f}" for name in NAMES],
    [f"{_ran[name, 'epsilon_upper']:.4f}" for name in NAMES],
    [f"{_spent.loc[name, 'cpu_s']:,.0f} s; {_spent.loc[name, 'accounting_s']:,.0f} s" for name in NAMES],
]
exact, block = EXACT, BLOCK
whole_draw = _spent.loc["one draw"]
whole_cost = _spent["peak_mib"].max()
