"""Figures of a network: when messages arrived, when users got and submitted labels, and how the load was shared.

In each function, `path` is the figure's file; the ending decides the format. `note` is a text that names the run.
"""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from p2p_sim.figures.style import COLOURS, GREY, MARKERS, drawing, powers_of_ten
from p2p_sim.measures import expected_misses
from p2p_sim.privacy.audit_statistics import clopper_pearson

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
LINES = ("-", "--", ":")
TAIL = 0.025
"""Largest probability that an interval lies below the value that it should cover. The largest probability to lie above
is the same."""
MOST_LINES = 40
"""Largest number of clusters that get lines of their own."""
MOST_INTERVALS = 200
"""Largest number of clusters whose intervals are drawn."""
MOST_POINTS = 2000
"""Largest number of points of a line. Of a line with more points, only this many are drawn."""
QUANTILES = (0.5, 0.9, 0.99, 1.0)


def plot_timeline(times: Mapping[str, Floats], late_s: Floats, deadline_s: float | None, path: Path, note: str) -> None:
    """Draw how many messages of each kind were delivered, over time.

    Args:
        times: for each kind of message, the delivery times in seconds, in any order. late_s: delivery times of the
        replies that came after their request had expired. deadline_s: when the learner stops taking submissions, in
        seconds, or None. path: of the figure; it ends in .png, .pdf or .svg. note: the caption, which names the run.
    """
    with drawing(path, 7.6, 4.4, note=note) as (_, [axes]):
        # all kinds are counted in the same bins; late replies are marks on the axis
        everything = np.concatenate([*times.values(), np.zeros(0)])
        if everything.size == 0:
            axes.text(0.5, 0.5, "no message was delivered", transform=axes.transAxes, ha="center", color=GREY)
            everything = np.ones(1)
        edges, weight = _bins(axes, everything)
        for index, (kind, at) in enumerate(times.items()):
            label = f"{kind} ({at.size:,})"
            counts = np.histogram(at, edges)[0] * weight
            axes.stairs(counts, edges, color=COLOURS[index], linestyle=LINES[index % 3], linewidth=1.5, label=label)
        if late_s.size:
            axes.plot(
                late_s, np.full(late_s.size, 0.015), transform=axes.get_xaxis_transform(), linestyle="none",
                marker=MARKERS[2], markersize=5, color=COLOURS[3], alpha=max(0.1, min(0.8, 40 / late_s.size)),
                label=f"late reply, dropped ({late_s.size:,})", clip_on=False,
            )  # fmt: skip
        _deadline(axes, deadline_s)
        axes.set(ylim=(0.0, None), title="Messages delivered", xlim=(edges[0], edges[-1]))
        _legend(axes)


def plot_coverage(
    answered_s: Floats, submitted_s: Floats, cluster_offsets: Counts, sampling_rate: float | None,
    *, deadline_s: float | None, path: Path, note: str,
) -> None:  # fmt: skip
    """Draw two shares of users against time. One is the share who got the label that they had asked a peer for. The
    other is the share whose submission the learner took. Each of 2 to 40 clusters has a line, too. θ is a dotted line.

    Args:
        answered_s, submitted_s: (n,) seconds at which each of n users was answered, and at which her submission was
        taken; infinity: never. cluster_offsets: (C+1,) first user of each of C clusters; cluster c holds users
        offsets[c]..offsets[c+1]-1. sampling_rate: θ, the probability that a user submits; None: no dotted line.
        deadline_s: when the learner stops taking submissions, in seconds, or None. path: of the figure; it ends in
        .png, .pdf or .svg. note: the caption, which names the run.
    """
    with drawing(path, 7.6, 4.8, note=note) as (_, [axes]):
        # all shares are of all users; users who are never served keep the end of a line below 1
        both = np.concatenate([answered_s, submitted_s])
        came, users = np.sort(submitted_s[np.isfinite(submitted_s)]), submitted_s.size
        end = float(both[np.isfinite(both)].max(initial=0.0)) * 1.03 or 1.0
        if 1 < cluster_offsets.size - 1 <= MOST_LINES:
            for number, (first, last) in enumerate(pairwise(cluster_offsets.tolist())):
                label = None if number else "submission taken: each cluster"
                _stairs(axes, submitted_s[first:last], end, label, color="#B5B5B5", linewidth=0.6)
        _stairs(axes, answered_s, end, "answered: all users", color=COLOURS[0], linestyle="--", linewidth=1.5)
        _stairs(axes, submitted_s, end, "submission taken: all users", color=COLOURS[1], linewidth=1.8)
        if sampling_rate is not None:
            axes.axhline(
                sampling_rate, color=GREY, linestyle=":", linewidth=1.0, label=f"sampling rate θ = {sampling_rate:g}"
            )
        for share, marker in zip(QUANTILES if came.size else (), MARKERS, strict=False):
            by = float(np.quantile(came, share))
            axes.plot(
                [by], [share * came.size / users], marker=marker, color=COLOURS[1], markeredgecolor="white",
                markersize=8, linestyle="none", zorder=4, label=f"{share:.0%} of submissions taken by {by:.3g} s",
            )  # fmt: skip
        _deadline(axes, deadline_s)
        _time_axis(axes, both[np.isfinite(both)])
        served = f"{np.isfinite(answered_s).mean():.1%} answered, {came.size / users:.1%} submitted"
        axes.set(
            ylim=(0.0, 1.02), ylabel="share of users", title=f"Who has been served by when: of {users:,} users {served}"
        )
        _legend(axes)


def plot_load(handled: Counts, answers: Counts, path: Path, note: str) -> None:
    """Draw two shares of users for each number k: who handled at least k messages, and who gave at least k answers.

    Args:
        handled: (n,) messages that each of n users sent or received. answers: (n,) replies that each user gave. path:
        of the figure; it ends in .png, .pdf or .svg. note: the caption, which names the run.
    """
    with drawing(path, note=note) as (_, [axes]):
        # a heavy tail: the busiest user handled at least ten times as many messages as the median user
        heavy = bool(handled.max() >= 10 * max(1.0, float(np.median(handled))))
        for index, (values, text) in enumerate(((handled, "messages sent or received"), (answers, "answers given"))):
            counts, users = np.unique(values, return_counts=True)
            share = users[::-1].cumsum()[::-1] / values.size
            label = f"{text}: mean {values.mean():.3g}, most {values.max():,}"
            keep = counts > 0 if heavy else np.ones(counts.size, dtype=np.bool_)
            axes.plot(
                counts[keep], share[keep], color=COLOURS[index], linestyle=LINES[index], marker=MARKERS[index],
                markersize=4, linewidth=1.3, label=label,
            )  # fmt: skip
            axes.axvline(values.mean(), color=COLOURS[index], linestyle=":", linewidth=1.0)
            axes.plot([counts[-1]], [share[-1]], marker="*", markersize=12, color=COLOURS[index], linestyle="none")
        axes.set(
            xlabel="number of messages, k" + " (log scale)" * heavy,
            yscale="log", ylim=(None, 1.5), ylabel="share of users with at least k (log scale)",
            title="Load of the users (dotted: mean; star: the busiest)",
        )  # fmt: skip
        powers_of_ten(axes.yaxis)
        _whole_numbers(axes, heavy)
        _legend(axes)


def plot_sampling(sizes: Counts, submissions: Counts, sampling_rate: float, path: Path, note: str) -> None:
    """Draw the share of each cluster's users whose submission the learner took, against the cluster's size. Horizontal
    lines show θ and the share among all users. If there are at most 200 clusters, each has an exact 95%
    (Clopper-Pearson) interval of the probability that a user's submission arrives.

    The title says how many clusters' intervals miss θ. The title also says how many would miss θ on average in two
    cases. In the first case, a user's submission arrives with probability θ; in the second, with the share among all
    users.

    Args:
        sizes: (C,) number of users of each of C clusters. submissions: (C,) number of submissions that the learner took
        from each cluster. sampling_rate: θ, the probability that a user submits. path: of the figure. note: the
        caption, which names the run.
    """
    # missed: how many clusters' exact intervals miss θ; missed_whole: how many miss the rate of all users
    bounds = [clopper_pearson(int(hits), int(n), TAIL) for hits, n in zip(submissions, sizes, strict=True)]
    low, high = np.array([b.lower for b in bounds]), np.array([b.upper for b in bounds])
    rate, whole = submissions / sizes, float(submissions.sum() / sizes.sum())
    missed, missed_whole = (int(np.count_nonzero((low > r) | (high < r))) for r in (sampling_rate, whole))
    # expected numbers of intervals that miss the tested rate if submissions arrive at the true rate
    expected, at_whole, of_whole = (
        f"{expected_misses(sizes, tested, true, TAIL):.2g}"
        for tested, true in ((sampling_rate, sampling_rate), (sampling_rate, whole), (whole, whole))
    )
    with drawing(path, note=note) as (_, [axes]):
        if sizes.size <= MOST_INTERVALS:
            axes.errorbar(
                _spread(sizes), rate, yerr=[rate - low, high - rate], fmt=MARKERS[0], color=COLOURS[0], markersize=5,
                elinewidth=1.0, capsize=2 if sizes.size <= MOST_LINES else 0,
                label="one cluster, exact 95% interval (Clopper-Pearson)",
            )  # fmt: skip
        else:
            axes.plot(
                _spread(sizes), rate, MARKERS[0], color=COLOURS[0], markersize=2.5, markeredgewidth=0,
                alpha=max(0.15, (MOST_INTERVALS / sizes.size) ** 0.5),
                label="one cluster (too many to draw their exact 95% intervals)",
            )  # fmt: skip
        axes.axhline(sampling_rate, color=GREY, linestyle="--", label=f"sampling rate θ = {sampling_rate:g}")
        misses = f"{missed_whole} intervals miss this rate; {of_whole} expected if all clusters have it"
        text = f"effective rate of all users, {whole:.4g}: {misses}"
        axes.axhline(whole, color=COLOURS[1], linestyle="-.", label=text)
        axes.margins(y=0.15)
        _whole_numbers(axes, bool(sizes.max() > 20 * sizes.min()))
        title = (
            f"Effective sampling rate: {missed:,} of {sizes.size:,} intervals miss θ\n"
            f"expected: {expected} if all submissions arrived, {at_whole} at the effective rate of all users"
        )
        axes.set(xlabel="users in the cluster", ylabel="submissions taken per user", title=title)
        _legend(axes, columns=1)


def _whole_numbers(axes: Axes, logarithmic: bool) -> None:
    """Set the x axis for counts: a logarithmic scale, or ticks at whole numbers."""
    if logarithmic:
        axes.set_xscale("log")
        powers_of_ten(axes.xaxis)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _spread(sizes: Counts) -> Floats:
    """The clusters' sizes as places along x. Clusters of equal size are moved apart a little."""
    groups = pd.Series(sizes).groupby(sizes)
    rank = groups.cumcount().to_numpy() - 0.5 * (groups.transform("size").to_numpy() - 1)
    gap = 0.006 * max(float(sizes.max() - sizes.min()), 0.2 * float(sizes.max()))
    return np.asarray(sizes + gap * rank)


def _stairs(axes: Axes, times: Floats, end: float, label: str | None, **look: Any) -> None:
    """Draw steps: for each time from 0 to `end`, the share of `times` that are at most this time.

    Args:
        times: seconds; infinity: never. label: for the legend, or None. look: keywords of matplotlib's `step`.
    """
    came = np.sort(times[np.isfinite(times)])
    steps = np.unique(np.linspace(0, came.size - 1, min(came.size, MOST_POINTS)).astype(np.int64))
    shares = [0.0, *((steps + 1) / times.size), came.size / times.size]
    axes.step(np.array([0.0, *came[steps], end]), np.array(shares), where="post", label=label, **look)


def _decades(times: Floats) -> bool:
    """Whether the largest time is more than 100 times the 5% quantile of the times above 0."""
    times = times[times > 0]
    return bool(times.size and times.max() > 100 * np.quantile(times, 0.05))


def _time_axis(axes: Axes, times: Floats) -> None:
    """Set the x axis for times in seconds. The axis is logarithmic if the times spread over more than two decades."""
    if _decades(times):
        axes.set_xscale("log")
        powers_of_ten(axes.xaxis)
        axes.set(xlim=(float(times[times > 0].min()) / 1.5, None), xlabel="time (seconds, log scale)")
    else:
        axes.set(xlim=(0.0, None), xlabel="time (seconds)")


def _bins(axes: Axes, times: Floats) -> tuple[Floats, float]:
    """The edges of a histogram's bins, in seconds, and the height that one message adds to its bin. The axes get
    labels.

    If the times spread over more than two decades, a bin is a tenth of a decade and the height is 1. Otherwise the bins
    have equal widths, and the height is 1 divided by the width, in messages per second.

    Args:
        axes: to label. times: delivery times of the messages, seconds.
    """
    _time_axis(axes, times)
    if _decades(times):
        low, high = float(times[times > 0].min()), float(times.max())
        axes.set_ylabel("messages in a tenth of a decade of time")
        steps = int(np.ceil(10 * np.log10(high / low))) + 1
        return low * 10 ** (np.arange(steps + 1) / 10 - 0.02), 1.0
    number = int(np.clip(2.0 * np.cbrt(times.size), 12, 80))
    edges = np.linspace(0.0, float(times.max()) * 1.0001, number + 1)
    axes.set_ylabel("messages per second")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    return edges, 1.0 / float(edges[1] - edges[0])


def _deadline(axes: Axes, deadline_s: float | None) -> None:
    """Draw a vertical line at a deadline. None: there is no deadline, and nothing is drawn."""
    if deadline_s is not None:
        axes.axvline(deadline_s, color="black", linestyle="-.", linewidth=1.0, label=f"deadline, {deadline_s:g} s")


def _legend(axes: Axes, columns: int = 2) -> None:
    """Draw the legend below the axes, with opaque samples of its lines and marks."""
    legend = axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.14), fontsize=8, ncols=columns)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)
