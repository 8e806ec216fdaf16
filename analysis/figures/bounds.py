"""The figure of the learner's ε against the cluster size: printed, exact, in the limit, and with a shuffler."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context

from analysis.figures.style import COLOURS, GREY, MARKERS, RC, new_figure
from analysis.privacy.claims.comparison import BoundsRow


def plot_bounds(table: Sequence[BoundsRow], path: Path) -> None:
    """Draw every ε of the table against the cluster size n, both on logarithmic scales, one colour a sampling rate.

    Args:
        table: rows of one flip probability, as `bounds_table` gives them.
        path: where the figure goes; its ending decides the format.
    """
    with rc_context(RC):
        figure = new_figure(7.2, 5.4)
        axes = figure.add_subplot()
        for index, rate in enumerate(sorted({row.sampling_rate for row in table}, reverse=True)):
            rows = [row for row in table if row.sampling_rate == rate]
            sizes, colour, mark = [row.cluster_size for row in rows], COLOURS[index], MARKERS[index]
            paper = [(row.cluster_size, row.epsilon_paper) for row in rows if row.epsilon_paper is not None]
            if paper:
                axes.plot(
                    [n for n, _ in paper], [value for _, value in paper], color=colour, linestyle=":", marker=mark,
                    markerfacecolor="white", label=f"θ = {rate:g}: the paper's Lemma 9, where it applies",
                )  # fmt: skip
            axes.plot(
                sizes, [row.epsilon_upper for row in rows], color=colour, marker=mark,
                label=f"θ = {rate:g}: exact (certified from above)",
            )  # fmt: skip
            axes.plot(
                sizes, [row.epsilon_closed_form for row in rows], color=colour, linestyle="-.", linewidth=1.0,
                marker=mark, markersize=4, markerfacecolor="white", label=f"θ = {rate:g}: closed form (theorem)",
            )  # fmt: skip
            axes.plot(
                sizes, [row.epsilon_gaussian for row in rows], color=colour, linestyle="--", linewidth=0.9,
                label=f"θ = {rate:g}: Gaussian limit",
            )  # fmt: skip
        shuffled = {row.cluster_size: row.epsilon_shuffled_lower for row in table}
        axes.plot(
            sorted(shuffled), [shuffled[n] for n in sorted(shuffled)], color=GREY, marker="x", linewidth=0.9,
            label="a shuffler of the same noisy labels (attained)",
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("users in the cluster, n (log scale)")
        axes.set_ylabel("ε of the learner at δ = 1/n² (log scale)")
        axes.set_title(f"One user's label, α = {table[0].flip_prob:g}", loc="left", fontsize=11)
        figure.legend(loc="outside lower left", fontsize=8, ncols=2)
        figure.savefig(path)
