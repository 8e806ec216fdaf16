"""docs/internet-scale.md: bytes, time and privacy for 10⁹ users."""

from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.privacy.setting import EXHAUSTIVE
from docs.numbers.page import Page, Source, published, table
from docs.published.internet_scale import BIG_HEADER
from docs.published.internet_scale_network import LATENCY, NETWORKS, REQUEST
from docs.published.internet_scale_privacy import DELTA, UNEVEN, USERS

LARGEST, SEEN = 1_000_000, 100_000
"""Users of the largest runs, and of the largest that a fit which is put to the test has seen."""
EARLY, LATE = (f"fit up to {n:,}" for n in (SEEN, LARGEST))
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
    sent, learner = (_both(found, name) for name in ("sent_gb", "learner_gb"))
    rows = [
        ["bytes that a user sends, on average", *(f"{v:.4g}" for v in _both(found, "bytes_per_user"))],
        ["all messages", *(f"{v:.3g} GB" for v in sent)],
        ["to the learner", *(f"{v:.3g} GB" for v in learner)],
    ]
    never = _both(found, "never_arrive")
    rows.append(["labels that never arrive", *(f"{v / 1e6:.1f} million" if v >= 1.0 else "0" for v in never)])
    slow, middle, fast = (_both(found, f"served_{rate}_s") for rate in (1, 10, 100))
    rows.append(["last label served, link of 1 Gbit/s", *(f"{v:.0f} s" for v in slow)])
    rows.append(["10 Gbit/s", *(f"{v:.1f} s" for v in middle)])
    ends = [found.loc[(name, "served_100_s", USERS, "law"), ["low", "high"]] for name in NAMES]
    spans = [f"{low:.1f} to {high:.1f}" for low, high in ends]
    rows.append(["100 Gbit/s", f"{fast[0]:.1f} s (95%: {spans[0]})", f"{fast[1]:.1f} s ({spans[1]})"])
    big = (f"{v / 3600:.1f} h" for v in _both(found, "served_1_big_header_s"))
    rows.append([f"1 Gbit/s, if a submission has {BIG_HEADER:,} bytes besides the label", *big])
    yield table(("10⁹ users", *NAMES), rows)
    most = max(_both(found, "bytes_per_user"))
    yield f"A user pays less than {100 * (int(most) // 100 + 1)} bytes; the learner must take {max(learner):.0f} GB"
    yield f"a connection of its own ({BIG_HEADER:,} bytes are assumed here)"
    line = found.loc[("retries", "served_1_s", LARGEST, "measured")]
    slower = f"measured at 10⁶ users with a link {USERS // LARGEST:,} times slower: {line['value']:.2f} s"
    interval = f"(95% interval of the mean {line['low']:.2f} to {line['high']:.2f})"
    law = found.loc[("retries", "served_1_s", LARGEST, "law"), "value"]
    yield f"{slower} {interval} where the law says {law:.2f} s"
    yield "At 100 Gbit/s the link waits for stragglers"


def _last(found: pd.DataFrame, name: str, at: float, basis: str = "law") -> str:
    line = found.loc[(name, "last_s", at, basis)]
    return f"{line['value']:.1f} ({line['low']:.1f} to {line['high']:.1f})"


def _shares(found: pd.DataFrame, name: str, basis: str, *sizes: float) -> str:
    """How often the interval of a fit holds, in bold if less than half the time."""
    shares = [found.loc[(name, "last_s_coverage", at, basis), "value"] for at in sizes]
    return ", ".join(f"{share:.0%}" if share >= 0.5 else f"**{share:.0%}**" for share in shares)


def last_arrival() -> Iterator[str]:
    """The table of the last arrival, and what the text says of fits and of the law."""
    found = _found()
    held = published("internet-scale").query("quantity == 'last_s_inside' and basis == 'law'")
    inside = (held["value"] * held["replicates"]).sum()
    yield f"Of {held['replicates'].sum()} measured last arrivals at four sizes, {inside:.0f} lie in the law's 95%"
    predicted = found.xs(("last_s_inside", LARGEST, EARLY), level=(1, 2, 3)).loc[list(NAMES)]
    of = f"of {predicted['replicates'].unique().item()} measured at 10⁶, inside that prediction"
    rows = [
        ["10⁶ users, exact law: median (95%)", *(_last(found, name, LARGEST) for name in NAMES)],
        ["10⁶, predicted by the fit to 10³ to 10⁵", *(_last(found, name, LARGEST, EARLY) for name in NAMES)],
        [of, *(f"{n:.0f}" for n in predicted["value"] * predicted["replicates"])],
        ["**10⁹, exact law**", *(f"**{_last(found, name, USERS)}**" for name in NAMES)],
        ["10⁹, fit to 10³ to 10⁵", *(_last(found, name, USERS, EARLY) for name in NAMES)],
        ["10⁹, fit to 10³ to 10⁶", *(_last(found, name, USERS, LATE) for name in NAMES)],
        [
            "how often a fit to 10⁵ holds at 10⁶, and at 10⁹",
            *(_shares(found, name, EARLY, LARGEST, USERS) for name in NAMES),
        ],
        ["how often a fit to 10⁶ holds at 10⁹", *(_shares(found, name, LATE, USERS) for name in NAMES)],
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
    yield f"the 99.9th percentile of *plain*, fitted to 10⁵, should be at most {high:.3f} s, and it is {true[0]:.3f} s,"
    yield "since among 1,000 users it rests on a single one"
    half = _both(found, "p50_s")
    yield f"there after {half[0]:.2f} s (plain) and {half[1]:.2f} s (retries)"
    yield f"99.9% of those that come after {true[0]:.1f} s and {true[1]:.1f} s"
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
    asked = f"Whoever was asked by a colluder has ε₀ = {epsilon:.3f} and nothing better"
    yield f"{asked}: one passive colluder in a cluster of 1,000, pooled with the learner, has δ ≥ {delta} at ε = 2"
    shares = [name for name in found.index.unique("setting") if name.endswith("of all users")]

    def row(label: str, quantity: str, form: str, unit: float = 1.0) -> list[str]:
        return [label, *(form.format(found[share, quantity, 1000] / unit) for share in shares)]

    yield table(
        (
            "share of all users who collude (clusters of 1,000, θ = 1)",
            *(share.removesuffix(" of all users") for share in shares),
        ),
        [
            row("users whom they asked, of 10⁹: ε₀", "users_asked", "{:.1f} million", 1e6),
            row("colluders in the worst of 10⁶ clusters, median", "members_worst_cluster", "{:.0f}"),
            row("no cluster has more, but for a chance of 1e-12", "members_no_cluster_has_more", "{:.0f}"),
            row("ε at δ = 1e-12 in such a cluster, for whom none of them asked", "epsilon_unasked", "{:.3f}"),
        ],
    )
    alone = whole["value"]["θ = 1", "epsilon", 100]
    with_most = found[shares[-1], "epsilon_unasked", 100]
    yield f"clusters (100 users, 10%: {with_most:.2f} instead of {alone:.2f})"


STUDY = ("python -m docs.published.internet_scale", "test_internet_scale.py::test_the_study")
PAGE = Page(
    "docs/internet-scale.md",
    tuple(
        Source(*STUDY, part) for part in (settings, bytes_and_links, last_arrival, averages, clusters, coalitions)
    ),
)
