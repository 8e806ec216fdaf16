"""docs/privacy.md: the derivations, and what the bounds come to."""

from collections.abc import Iterator

from analysis.privacy import local_epsilon
from analysis.privacy.resampled_counts import LARGEST_CLUSTER
from analysis.privacy.setting import EXHAUSTIVE, SUMMED_IN_FULL, Setting
from docs.numbers.page import Page, Source, published, short, table


def accountant() -> Iterator[str]:
    """What the accountant does, and how wide its brackets are."""
    yield f"up to {SUMMED_IN_FULL} users nothing is cut"
    yield f"Above {EXHAUSTIVE:,} users the sum over k"
    yield f"**Above {EXHAUSTIVE:,} users** not every m"
    yield f"over all m up to {EXHAUSTIVE:,} users"
    found = published("privacy", "brackets.csv")
    below, above = (found[found["n"].between(*ends)] for ends in ((EXHAUSTIVE + 1, 20_000), (20_001, 10**9)))
    looks = [f"{len(range(0, (n + 1) // 2, Setting(n, 0.1, n, 1.0).revealed + 1))}" for n in (20_000, 1_000_000)]
    yield f"this takes some {looks[0]} ({looks[1]}) evaluations at any n"
    widths = (f"{100 * part['width'].min():.1f} to {100 * part['width'].max():.1f}%" for part in (below, above))
    yield "leaves the two sides {} ({}) apart".format(*widths)


def examples() -> Iterator[str]:
    """The data set that is worse than all zeros, Theorem 3's least cluster, and the event that attains ε."""
    sets = published("privacy", "data-sets.csv")
    worst = sets.loc[sets["delta"].idxmax()]
    values = f"α = {short(worst['flip_prob'], 2)}, θ = 1, ε = {short(worst['epsilon'], 2)}: m = {worst['ones']:.0f}"
    yield f"(n = {worst['n']:.0f}, {values})"
    least = published("privacy", "paper.csv")["theorem3_from"].max()
    yield f"Theorem 3 needs clusters of about {round(least, -3):,} users or more"
    event = published("privacy", "released.csv").iloc[0]
    ends = f"{event['epsilon_lower']:.2f} to {event['epsilon_upper']:.2f}"
    yield f"it leaves {ends} for ε, where the paper has {event['epsilon_paper']:.2f}"


def overlays() -> Iterator[str]:
    """ε on random regular overlays."""
    found, everybody = published("privacy", "overlays.csv"), published("privacy", "complete.csv")
    users = found["n"].unique().item()
    yield f"random regular overlay of {users} users, α = .1, where ε₀ is {local_epsilon(0.1):.2f}"
    at = found.set_index(["sampling_rate", "neighbours", "delta"])["epsilon_upper"]
    exact = everybody[everybody["n"] == users].set_index("sampling_rate")
    degrees, rows = found["neighbours"].unique(), []
    for theta, name in ((0.1, "θ = .1"), (1.0, "θ = 1")):
        cells = [f"{short(at[theta, d, 1e-6], 2)} ({short(at[theta, d, 1e-4], 2)})" for d in degrees]
        rows.append([name, *cells, short(exact["epsilon_upper"][theta], 2)])
    yield table(("neighbours", *map(str, degrees), "all"), rows)
    low, high = (exact["epsilon_upper"] / exact["epsilon_exact"])[[0.1, 1.0]]
    yield f"The complete overlay costs {low:.1f} times the exact figure at θ = .1 and {high:.1f} times at θ = 1"


def audited() -> Iterator[str]:
    """What the attack on a curator proves."""
    [[trials, proved, printed, true]] = published("privacy", "audit.csv").to_numpy()
    yield f"{trials:,.0f} trials prove {proved:.2f}; printed is {printed:.2f}, true {true:.2f}"


def resampled() -> Iterator[str]:
    """The table of noisy labels alone."""
    found = published("privacy", "resampled.csv")
    rows = [
        [
            f"{row.n}, {row.noise_scale:g}, {short(row.threshold, 1)}, {f'{row.resampling_prob:g}'.lstrip('0')}",
            f"{row.delta:g}".replace("e-06", "e-6"),
            short(row.pure_epsilon, 2 if row.pure_epsilon >= 1.0 else 3),
            " to ".join(short(e, 2 if e >= 1.0 else 3) for e in (row.epsilon_lower, row.epsilon_upper)),
        ]
        for row in found.itertuples()
    ]
    yield table(("n, σ, τ, λ", "δ", "pure ε", "certified ε"), rows)
    widths = 100 * (found["epsilon_upper"] / found["epsilon_lower"] - 1.0)
    yield f"The bracket of ε is {widths.min():.0f} to {widths.max():.0f}% wide"
    yield f"Beyond {LARGEST_CLUSTER:,} users, or where the noise reaches too many"


STUDY = ("python -m studies.privacy", "test_published_privacy.py::test_the_privacy_study")
PAGE = Page(
    "docs/privacy.md",
    (
        Source(*STUDY, accountant),
        Source(*STUDY, examples),
        Source(*STUDY, overlays),
        Source(*STUDY, audited),
        Source(*STUDY, resampled),
    ),
    given=(r"b = n/100 \(n/50 above 20,000 users\)",),
)
