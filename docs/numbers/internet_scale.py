"""docs/internet-scale.md: bytes, time and privacy for 10⁹ users, and what the simulator needs."""

from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.privacy.setting import EXHAUSTIVE
from docs.numbers.page import Page, Source, published, table
from studies.internet_scale import BEYOND, BIG_HEADER
from studies.internet_scale_beyond import USERS as ONCE
from studies.internet_scale_network import LATENCY, NETWORKS, REQUEST
from studies.internet_scale_privacy import DELTA, FLIP_PROB, UNEVEN, USERS

LARGEST, SEEN = 1_000_000, 100_000
"""Users of the largest runs, and of the largest that a fit which is put to the test has seen."""
EARLY, LATE = (f"fit up to {n:,}" for n in (SEEN, LARGEST))
NAMES = ("plain", "retries")


def _found() -> pd.DataFrame:
    return published("internet-scale").set_index(["setting", "quantity", "at", "basis"]).sort_index()


def _both(found: pd.DataFrame, quantity: str, at: float = USERS, basis: str = "law") -> Sequence[float]:
    """Of the plain network, and of that with retries."""
    return [found.loc[(name, quantity, at, basis), "value"] for name in NAMES]


def _ends(line: pd.Series, digits: int) -> str:
    """From the low end to the high one."""
    return f"{line['low']:.{digits}f} to {line['high']:.{digits}f}"


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
    sent, learner = (_both(found, name) for name in ("sent_gb", "learner_gb"))
    rows = [
        [
            "a user sends, on average; all users",
            *(f"{u:.4g} bytes; {v:.3g} GB" for u, v in zip(_both(found, "bytes_per_user"), sent, strict=True)),
        ],
        ["the learner gets", *(f"{v:.3g} GB" for v in learner)],
    ]
    slow, middle, fast = (_both(found, f"served_{rate}_s") for rate in (1, 10, 100))
    served = (f"{u:.0f} s; {v:.1f} s" for u, v in zip(slow, middle, strict=True))
    rows.append(["last label served, link of 1 Gbit/s; 10 Gbit/s", *served])
    spans = [_ends(found.loc[(name, "served_100_s", USERS, "law")], 1) for name in NAMES]
    rows.append(["100 Gbit/s", f"{fast[0]:.1f} s (95%: {spans[0]})", f"{fast[1]:.1f} s ({spans[1]})"])
    big = (f"{v / 3600:.1f} h" for v in _both(found, "served_1_big_header_s"))
    rows.append([f"1 Gbit/s, if a submission has {BIG_HEADER:,} bytes besides the label", *big])
    yield table(("10⁹ users", *NAMES), rows)
    yield f"a connection of its own ({BIG_HEADER:,} bytes are assumed)"
    line = found.loc[("retries", "served_1_s", LARGEST, "measured")]
    law = found.loc[("retries", "served_1_s", LARGEST, "law"), "value"]
    mean = f"{line['value']:.2f} s (95%: {_ends(line, 2)}) on average of {line['replicates']:.0f}"
    yield f"with retries, 10⁶ users and 1 Mbit/s that is {law:.2f} s by the law, and {mean} runs"
    yield "At 100 Gbit/s the link waits for stragglers"


def _last(found: pd.DataFrame, name: str, at: float, basis: str = "law") -> str:
    line = found.loc[(name, "last_s", at, basis)]
    return f"{line['value']:.1f} ({_ends(line, 1)})"


def _missed(found: pd.DataFrame, name: str) -> str:
    """What a fit predicts of the run with 10⁸ users, the upper end in bold if the run ended later."""
    predicted, high = _last(found, name, ONCE, EARLY), found.loc[(name, "last_s", ONCE, EARLY), "high"]
    later = found.loc[(name, "last_s", ONCE, BEYOND), "value"] > high
    return predicted.replace(f" to {high:.1f})", f" to **{high:.1f}**)") if later else predicted


def _shares(found: pd.DataFrame, name: str) -> str:
    """How often the interval of a fit holds, in bold if less than half the time."""
    fits = ((LARGEST, EARLY), (USERS, EARLY), (USERS, LATE))
    shares = [found.loc[(name, "last_s_coverage", at, basis), "value"] for at, basis in fits]
    return "; ".join(f"{share:.0%}" if share >= 0.5 else f"**{share:.0%}**" for share in shares)


def last_arrival() -> Iterator[str]:
    """The table of the last arrival, and what the text says of fits and of the law."""
    found = _found()
    held = published("internet-scale").query("quantity == 'last_s_inside' and basis == 'law'")
    inside = (held["value"] * held["replicates"]).sum()
    yield f"Of {held['replicates'].sum()} measured last arrivals, {inside:.0f} lie in the law's 95%"
    predicted = found.xs(("last_s_inside", LARGEST, EARLY), level=(1, 2, 3)).loc[list(NAMES)]
    of = f"of {predicted['replicates'].unique().item()} measured at 10⁶, inside that prediction"
    rows = [
        ["10⁶ users, exact law: median (95%)", *(_last(found, name, LARGEST) for name in NAMES)],
        ["10⁶, predicted by the fit to 10³ to 10⁵", *(_last(found, name, LARGEST, EARLY) for name in NAMES)],
        [of, *(f"{n:.0f}" for n in predicted["value"] * predicted["replicates"])],
        ["10⁸, exact law", *(_last(found, name, ONCE) for name in NAMES)],
        ["10⁸, predicted by the fit to 10³ to 10⁵", *(_missed(found, name) for name in NAMES)],
        ["**10⁸, one run**", *(f"**{v:.1f}**" for v in _both(found, "last_s", ONCE, BEYOND))],
        ["**10⁹, exact law**", *(f"**{_last(found, name, USERS)}**" for name in NAMES)],
        ["10⁹, fit to 10³ to 10⁵", *(_last(found, name, USERS, EARLY) for name in NAMES)],
        ["10⁹, fit to 10³ to 10⁶", *(_last(found, name, USERS, LATE) for name in NAMES)],
        [
            "how often a fit to 10⁵ holds at 10⁶; at 10⁹; one to 10⁶ at 10⁹",
            *(_shares(found, name) for name in NAMES),
        ],
    ]
    yield table(("last label arrives, s", *NAMES), rows)
    studies = found.loc[("plain", "last_s_coverage", USERS, EARLY), "replicates"]
    yield f"counted in {studies:,} studies drawn from the exact law"
    yield f"looks fair ten times further out and is wrong {USERS // SEEN:,} times further out"


def averages() -> Iterator[str]:
    """What does not depend on n, and the deadline."""
    found = _found()
    quantities = (("bytes_per_user", 2), ("p99_s", 3))
    fits, laws = (
        [_ends(found.loc[("retries", name, ONCE, basis)], digits) for name, digits in quantities]
        for basis in (EARLY, "law")
    )
    sent, late = (found.loc[("retries", name, ONCE, BEYOND), "value"] for name, _ in quantities)
    yield f"the fits say {fits[0]} bytes a user and {fits[1]} s for the 99th percentile with retries"
    yield f"the run with 10⁸ users had {sent:.2f} bytes and {late:.4f} s, and the law says {laws[0]} and {laws[1]} s"
    high, ran = (
        found.loc[("plain", "p99.9_s", ONCE, EARLY), "high"],
        found.loc[("plain", "p99.9_s", ONCE, BEYOND), "value"],
    )
    yield f"the 99.9th percentile of *plain*, at most {high:.3f} s by the fit, was {ran:.4f} s in that run"
    yield f"(among {found.xs('measured', level='basis').index.unique('at').min():,.0f} users it rests on one)"
    half = _both(found, "p50_s")
    yield f"there after {half[0]:.2f} s (plain) and {half[1]:.2f} s (retries)"
    true = _both(found, "p99.9_s")
    yield f"99.9% of them after {true[0]:.1f} s and {true[1]:.1f} s"
    times = sorted(last / share for last, share in zip(_both(found, "last_s"), true, strict=True))
    yield "the last one takes {:.0f} to {:.0f} times as long".format(*times)
    lost = max(_both(found, "later_than_p99.9"))
    yield f"A deadline at the 99.9th percentile loses {lost / 1e6:.1f} million labels of 10⁹, one in a thousand"
    yield f"the {_both(found, 'never_arrive')[1] / 1e6:.0f} million that retries could not save"


def clusters() -> Iterator[str]:
    """ε by cluster, and the smallest clusters for an ε."""
    found = published("internet-scale")
    yield f"1e-6 fails for {1e-6 * USERS:,.0f} of them, and **{DELTA:g}** for {DELTA * USERS:g}, on average"
    learner = found[found["part"] == "learner"]
    above = 100 * (learner["high"] / learner["low"] - 1.0).max()
    yield f"α = {FLIP_PROB:g} (above {EXHAUSTIVE:,} users certified, at most {above:.1f}% above the lower end)"
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

    most = ", ".join(f"{found[share, 'members_no_cluster_has_more', 1000]:.0f}" for share in shares)

    def row(label: str, form: str, *quantities: str, unit: float = 1.0) -> list[str]:
        return [label, *(form.format(*(found[share, q, 1000] / unit for q in quantities)) for share in shares)]

    yield table(
        (
            "share of all users who collude (clusters of 1,000, θ = 1)",
            *(share.removesuffix(" of all users") for share in shares),
        ),
        [
            row("users whom they asked, of 10⁹: ε₀", "{:.1f} million", "users_asked", unit=1e6),
            row(
                "most colluders in one of 10⁶ clusters: median; but for a chance of 1e-12", "{:.0f}; {:.0f}",
                "members_worst_cluster", "members_no_cluster_has_more",
            ),
            row(f"ε at δ = 1e-12 among so many ({most}), for whom none of them asked", "{:.3f}", "epsilon_unasked"),
        ],
    )  # fmt: skip
    alone = whole["value"]["θ = 1", "epsilon", 100]
    with_most = found[shares[-1], "epsilon_unasked", 100]
    yield f"clusters (100 users, 10%: {with_most:.2f} instead of {alone:.2f})"


def costs() -> Iterator[str]:
    """Processor's time and memory up to 10⁶ users, and what a fit says of more."""
    found = published("internet-scale", "costs.csv").set_index(["setting", "quantity", "at", "basis"]).sort_index()
    measured = _both(found, "cpu_s", LARGEST, "measured")
    fits = [found.loc[(name, "cpu_s", LARGEST, EARLY)] for name in NAMES]
    predicted = (
        _ends(fit, 2) + ("" if fit["low"] <= value <= fit["high"] else ", missed,")
        for fit, value in zip(fits, measured, strict=True)
    )
    yield f"10⁶ users {measured[0]:.2f} s and {measured[1]:.2f} s (predicted from 10⁵: {' and '.join(predicted)})"
    far = [found.loc[(name, "cpu_s", USERS, LATE)] for name in NAMES]
    spans = (f"{fit['value']:,.0f} s ({fit['low']:,.0f} to {fit['high']:,.0f})" for fit in far)
    yield f"10⁹ users, from 10⁵ and 10⁶, {' and '.join(spans)}"
    kept = max(_both(found, "peak_bytes_per_user", LARGEST, "in one piece"))
    yield f"takes {kept:.0f} bytes a user, {kept * USERS / 1e9:.0f} GB for 10⁹"


def costs_beyond() -> Iterator[str]:
    """Processor's time and memory of the run with 10⁸ users."""
    found = published("internet-scale", "beyond-timings.csv").set_index("setting")
    plain, retries = found["cpu_s"].loc[list(NAMES)]
    yield f"10⁸ users {plain:.0f} s and {retries:.0f} s, with at most {found['peak_mib'].max():.0f} MiB"


STUDY = ("python -m studies.internet_scale", "test_internet_scale.py::test_the_study")
RUN = ("python -m studies.internet_scale_beyond", "test_internet_scale.py::test_a_run_in_shares_is_the_same_run")
PAGE = Page(
    "docs/internet-scale.md",
    (
        *(Source(*STUDY, p) for p in (settings, bytes_and_links, last_arrival, averages, clusters, coalitions, costs)),
        Source(*RUN, costs_beyond),
    ),
)
