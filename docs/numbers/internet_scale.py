"""docs/internet-scale.md: bytes, time and privacy for 10⁹ users."""

from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.privacy.setting import EXHAUSTIVE
from docs.numbers.page import Page, Source, published, table
from docs.published.internet_scale import BIG_HEADER
from docs.published.internet_scale_network import LATENCY, NETWORKS, REQUEST
from docs.published.internet_scale_privacy import DELTA, UNEVEN, USERS

SMALLEST, SEEN, LARGEST = 1_000, 100_000, 1_000_000
"""Users of the smallest runs, of the largest that a fit which is put to the test has seen, of the largest repeated."""
EARLY, LATE = (f"fit up to {n:,}" for n in (SEEN, LARGEST))
FAR, ONE_RUN = 10**8, "10⁸ users run"
NAMES = ("plain", "retries")


def _found() -> pd.DataFrame:
    return published("internet-scale").set_index(["setting", "quantity", "at", "basis"]).sort_index()


def _both(found: pd.DataFrame, quantity: str, at: float = USERS, basis: str = "law") -> Sequence[float]:
    """Of the plain network, and of that with retries."""
    return [found.loc[(name, quantity, at, basis), "value"] for name in NAMES]


def settings() -> Iterator[str]:
    """What is simulated."""
    runs = published("internet-scale").query("basis == 'measured'")["replicates"].unique().item()
    yield f"10³ to 10⁶ users ({runs} replicates each)"
    law = f"log-normal latencies (median {LATENCY.median_s:g} s, σ = {LATENCY.sigma:g})"
    yield f"{law}, messages of {REQUEST} bytes and one more for a label"
    yield f"{NETWORKS['retries'].loss:.0%} of the messages get lost"


def bytes_and_links() -> Iterator[str]:
    """The table of bytes and of the learner's link, and what the text says of them."""
    found = _found()
    every, slow, middle = (_both(found, name) for name in ("sent_gb", "served_1_s", "served_10_s"))
    sent = (f"{one:.4g} bytes; {gb:.3g} GB" for one, gb in zip(_both(found, "bytes_per_user"), every, strict=True))
    served = (f"{one:.0f} s; {ten:.1f} s" for one, ten in zip(slow, middle, strict=True))
    ends = [found.loc[(name, "served_100_s", USERS, "law"), ["value", "low", "high"]] for name in NAMES]
    forms = ("{:.1f} s (95%: {:.1f} to {:.1f})", "{:.1f} s ({:.1f} to {:.1f})")
    rows = [
        ["a user sends, on average; all users", *sent],
        ["the learner gets", *(f"{v:.3g} GB" for v in _both(found, "learner_gb"))],
        ["last label served, link of 1 Gbit/s; 10 Gbit/s", *served],
        ["100 Gbit/s", *(form.format(*line) for form, line in zip(forms, ends, strict=True))],
        [
            f"1 Gbit/s, if a submission has {BIG_HEADER:,} bytes besides the label",
            *(f"{v / 3600:.1f} h" for v in _both(found, "served_1_big_header_s")),
        ],
    ]
    yield table(("10⁹ users", *NAMES), rows)
    yield f"a connection of its own ({BIG_HEADER:,} bytes are assumed)"
    yield "At 100 Gbit/s the link waits for stragglers"
    exact, mean = (found.loc[("retries", "served_1_s", LARGEST, basis)] for basis in ("law", "measured"))
    law, measured = (f"{line['value']:.2f} s" for line in (exact, mean))
    link = f"10⁶ users and {1000 * LARGEST / USERS:g} Mbit/s that is {law} by the law"
    yield f"{link}, and {'' if measured == law else f'{measured} '}on average of {mean['replicates']} runs"


def _last(found: pd.DataFrame, name: str, at: float, basis: str = "law") -> str:
    line = found.loc[(name, "last_s", at, basis)]
    return f"{line['value']:.1f} ({line['low']:.1f} to {line['high']:.1f})"


def _prediction(found: pd.DataFrame, name: str) -> str:
    """What the fit predicts of 10⁸ users, the end that the run lies beyond in bold."""
    line, text = found.loc[(name, "last_s", FAR, EARLY)], _last(found, name, FAR, EARLY)
    above = found.loc[(name, "last_s", FAR, ONE_RUN), "value"] > line["high"]
    return text.replace(f"to {line['high']:.1f}", f"to **{line['high']:.1f}**") if above else text


def _shares(found: pd.DataFrame, name: str) -> str:
    """How often the intervals of three fits hold, in bold if less than half the time."""
    fits = ((LARGEST, EARLY), (USERS, EARLY), (USERS, LATE))
    shares = [found.loc[(name, "last_s_coverage", *fit), "value"] for fit in fits]
    return "; ".join(f"{share:.0%}" if share >= 0.5 else f"**{share:.0%}**" for share in shares)


def last_arrival() -> Iterator[str]:
    """The table of the last arrival, and what the text says of fits and of the law."""
    found = _found()
    held = published("internet-scale").query("quantity == 'last_s_inside' and basis == 'law'")
    inside = (held["value"] * held["replicates"]).sum()
    yield f"Of {held['replicates'].sum()} measured last arrivals, {inside:.0f} lie in the law's 95% interval"
    predicted = found.xs(("last_s_inside", LARGEST, EARLY), level=(1, 2, 3)).loc[list(NAMES)]
    of = f"of {predicted['replicates'].unique().item()} measured at 10⁶, inside that prediction"
    rows = [
        ["10⁶ users, exact law: median (95%)", *(_last(found, name, LARGEST) for name in NAMES)],
        ["10⁶, predicted by the fit to 10³ to 10⁵", *(_last(found, name, LARGEST, EARLY) for name in NAMES)],
        [of, *(f"{n:.0f}" for n in predicted["value"] * predicted["replicates"])],
        ["10⁸, exact law", *(_last(found, name, FAR) for name in NAMES)],
        ["10⁸, predicted by the fit to 10³ to 10⁵", *(_prediction(found, name) for name in NAMES)],
        ["**10⁸, one run**", *(f"**{v:.1f}**" for v in _both(found, "last_s", FAR, ONE_RUN))],
        ["**10⁹, exact law**", *(f"**{_last(found, name, USERS)}**" for name in NAMES)],
        ["10⁹, fit to 10³ to 10⁵", *(_last(found, name, USERS, EARLY) for name in NAMES)],
        ["10⁹, fit to 10³ to 10⁶", *(_last(found, name, USERS, LATE) for name in NAMES)],
        ["how often a fit to 10⁵ holds at 10⁶; at 10⁹; one to 10⁶ at 10⁹", *(_shares(found, name) for name in NAMES)],
    ]
    yield table(("last label arrives, s", *NAMES), rows)
    studies = found.loc[("plain", "last_s_coverage", USERS, EARLY), "replicates"]
    yield f"counted in {studies:,} studies drawn from the exact law"
    yield f"looks fair ten times further out and is wrong {USERS // SEEN:,} times further out"


def averages() -> Iterator[str]:
    """What does not depend on n, and the deadline."""
    found = _found()
    fits = [found.loc[("retries", name, USERS, EARLY)] for name in ("bytes_per_user", "p99_s")]
    exact = [found.loc[("retries", name, USERS, "law"), "value"] for name in ("bytes_per_user", "p99_s")]
    ends = (f"{fit['low']:.{digits}f} to {fit['high']:.{digits}f}" for fit, digits in zip(fits, (2, 3), strict=True))
    say = "the fits say {} bytes a user and {} s for the 99th percentile with retries".format(*ends)
    yield f"{say}; the law says {exact[0]:.2f} and {exact[1]:.3f} s"
    high, true = found.loc[("plain", "p99.9_s", USERS, EARLY), "high"], _both(found, "p99.9_s")
    missed = f"the 99.9th percentile of *plain*, at most {high:.3f} s by the fit, is {true[0]:.3f} s"
    yield f"{missed} (among {SMALLEST:,} users it rests on one)"
    half = _both(found, "p50_s")
    yield f"there after {half[0]:.2f} s (plain) and {half[1]:.2f} s (retries)"
    yield f"99.9% of those that come after {true[0]:.1f} s and {true[1]:.1f} s"
    times = sorted(last / share for last, share in zip(_both(found, "last_s"), true, strict=True))
    yield "the last one takes {:.0f} to {:.0f} times as long".format(*times)
    lost = max(_both(found, "later_than_p99.9"))
    yield f"A deadline at the 99.9th percentile loses {lost / 1e6:.1f} million labels of 10⁹"
    yield f"the {_both(found, 'never_arrive')[1] / 1e6:.0f} million that retries could not save"


def clusters() -> Iterator[str]:
    """ε by cluster, and the smallest clusters for an ε."""
    found = published("internet-scale")
    yield f"1e-6 fails for {1e-6 * USERS:,.0f} of them, and **{DELTA:g}** for {DELTA * USERS:g}, on average"
    learner = found[found["part"] == "learner"]
    above = 100 * (learner["high"] / learner["low"] - 1.0).max()
    yield f"(above {EXHAUSTIVE:,} users certified, at most {above:.1f}% above the lower end)"
    sizes, rates = learner["at"].unique(), learner.set_index("setting")["value"]
    rows = [[f"ε, {rate}", *(f"{v:#.3g}" for v in rates[rate])] for rate in ("θ = 1", "θ = 0.1")]
    yield table(("users of a cluster", *(f"{size:,.0f}" for size in sizes)), rows)
    smallest = found[found["part"] == "cluster sizes"].set_index(["quantity", "setting", "at"])["value"]
    noises, targets = smallest.index.unique("setting"), smallest.index.unique("at")
    lines = [[noise, *(f"{smallest['smallest_cluster', noise, e]:,.0f}" for e in targets)] for noise in noises]
    random = (f"{smallest['mean_of_random_sizes', noises[0], e]:,.0f}" for e in targets)
    lines.append([f"{noises[0]}, mean size if sizes are random", *random])
    yield table(("smallest cluster for", f"ε = {targets[0]:g}", *(f"{e:g}" for e in targets[1:])), lines)
    yield f"(but for a chance of {UNEVEN:.0%})"


def coalitions() -> Iterator[str]:
    """What colluders find out."""
    whole = published("internet-scale").set_index(["setting", "quantity", "at"])
    found = whole[whole["part"] == "coalition"]["value"]
    epsilon = whole.query("setting == 'asked the target'")["value"].item()
    delta = f"{found['one member', 'delta', 2.0]:.1e}".replace("e-0", "e-")
    asked = f"Whoever was asked by a colluder has ε₀ = {epsilon:.3f} at this δ"
    yield f"{asked}: one passive colluder in a cluster of 1,000, pooled with the learner, has δ ≥ {delta} at ε = 2"
    shares = [name for name in found.index.unique("setting") if name.endswith("of all users")]

    asked, median, most, unasked = (
        [found[share, name, SMALLEST] for share in shares]
        for name in ("users_asked", "members_worst_cluster", "members_no_cluster_has_more", "epsilon_unasked")
    )
    numbers = [f"{n:.0f}" for n in most]
    rows = [
        ["users whom they asked, of 10⁹: ε₀", *(f"{n / 1e6:.1f} million" for n in asked)],
        [
            "most colluders in one of 10⁶ clusters: median; but for a chance of 1e-12",
            *(f"{n:.0f}; {m}" for n, m in zip(median, numbers, strict=True)),
        ],
        [
            f"ε at δ = 1e-12 among so many ({', '.join(numbers)}), for whom none of them asked",
            *(f"{epsilon:.3f}" for epsilon in unasked),
        ],
    ]
    header = "share of all users who collude (clusters of 1,000, θ = 1)"
    yield table((header, *(share.removesuffix(" of all users") for share in shares)), rows)
    alone = whole["value"]["θ = 1", "epsilon", 100]
    with_most = found[shares[-1], "epsilon_unasked", 100]
    yield f"clusters (100 users, 10%: {with_most:.2f} instead of {alone:.2f})"


def beyond() -> Iterator[str]:
    """The run with 10⁸ users."""
    last = published("internet-scale", "beyond.csv").set_index(["setting", "quantity"])["value"].xs("last_s", level=1)
    yield f"| **10⁸, one run** | {' | '.join(f'**{last[name]:.1f}**' for name in NAMES)} |"
    costs = published("internet-scale", "beyond-timings.csv").set_index("setting").loc[list(NAMES)]
    spent = " and ".join(f"{seconds:.0f} s" for seconds in costs["cpu_s"])
    yield f"10⁸ users {spent}, with at most {costs['peak_mib'].max():.0f} MiB"


def simulator() -> Iterator[str]:
    """Processor time and memory."""
    costs = published("internet-scale", "costs.csv").set_index(["setting", "quantity", "at", "basis"]).sort_index()
    measured = _both(costs, "cpu_s", LARGEST, "measured")
    spent = " and ".join(f"{seconds:.2f} s" for seconds in measured)
    early, late = (
        [costs.loc[(name, "cpu_s", at, basis), ["value", "low", "high"]] for name in NAMES]
        for at, basis in ((LARGEST, EARLY), (USERS, LATE))
    )
    predicted = " and ".join(
        f"{low:.2f} to {high:.2f}{'' if low <= seconds <= high else ', missed,'}"
        for seconds, (_, low, high) in zip(measured, early, strict=True)
    )
    yield f"10⁶ users {spent} (predicted from 10⁵: {predicted})"
    far = " and ".join(f"{seconds:.0f} s ({low:,.0f} to {high:,.0f})" for seconds, low, high in late)
    yield f"10⁹ users, from 10⁵ and 10⁶, {far}"
    size = max(_both(costs, "peak_bytes_per_user", LARGEST, "in one piece"))
    yield f"takes {size:.0f} bytes a user, {size * USERS / 1e9:.0f} GB for 10⁹"


STUDY = ("python -m docs.published.internet_scale", "test_internet_scale.py::test_the_study")
BEYOND = (
    "python -m docs.published.internet_scale_beyond",
    "test_internet_scale.py::test_a_run_in_shares_is_the_same_run",
)
PAGE = Page(
    "docs/internet-scale.md",
    (
        *(
            Source(*STUDY, part)
            for part in (settings, bytes_and_links, last_arrival, averages, clusters, coalitions, simulator)
        ),
        Source(*BEYOND, beyond),
    ),
)
