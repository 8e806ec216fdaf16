"""Messages, arrival times and privacy of the exchange among up to 10⁹ users: `python -m analysis.internet_scale`.

The study takes 3 CPU minutes. Runs with up to 10⁶ users are measured, and fits extrapolate the measured values. Exact
laws (distributions) of messages and arrival times need no fit, and are computed for 10³ to 10⁹ users. If the output
folder has the counts of `analysis.internet_scale.beyond` among 10⁸ users, the study compares these, too.
"""

import math
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.internet_scale.growth import (
    CLUSTER,
    DELTA,
    LABEL,
    LINK_BPS,
    NETWORKS,
    REQUEST,
    SEED,
    SHARES,
    USERS,
    GrowthFigure,
    Laws,
    arrivals,
    figures,
    law,
    run,
)
from analysis.study import Frame, command
from p2p_sim.base import Streams
from p2p_sim.figures import COLOURS, MARKERS, Curve, Panel, drawing, plain_log_ticks, plot_panels, powers_of_ten
from p2p_sim.measures import Estimate, GridLaw, mean_interval, normal_score, predict
from p2p_sim.mechanisms import LabelExchangeMechanism, RandomizedResponse
from p2p_sim.population import Population
from p2p_sim.privacy import Floats

NAME, SIZES, REPLICATES = "internet-scale", (1_000, 10_000, 100_000, 1_000_000), 30
STUDIES = 2000
"""Number of simulated studies, with last arrivals drawn from the exact law. The studies show how often a fit's interval
contains the last arrival among more users.
"""
BIG_HEADER = 4096
"""Bytes of a submission besides its label, under an assumption: every submission opens a new connection."""
DECADES = tuple(10**power for power in range(3, 10))
LEVELS = (0.025, 0.975)
BEYOND = "10⁸ users run"
CONSTANT = ("bytes_per_user", "learner_bytes_per_user", "arrived", *(f"p{100 * share:g}_s" for share in SHARES))
"""Measured quantities whose expected value does not depend on the number of users."""


def main(
    frame: Frame, sizes: Sequence[int] = SIZES, replicates: int = REPLICATES, studies: int = STUDIES
) -> list[Path]:
    """Runs the exchange for several numbers n of users on each simulated network. Fits extrapolate measured values to
    10⁹ users, and are compared with exact laws. Returns the files written.

    Args:
        frame: where the study runs and writes. sizes: values of n, ascending, multiples of 1,000. replicates: number of
        replicates of each n. studies: number of studies drawn from the exact law. Each study repeats the fit, and
        checks whether the fit's 95% interval contains a last arrival for a larger n.
    """
    run((next(iter(NETWORKS)), CLUSTER, 0))  # this first run pays for imports and caches; its time is not measured
    tasks = [
        # each n has its own replicate numbers; otherwise its first clusters would equal the clusters of a smaller n
        (network, users, 1000 * (index + 1) + replicate)
        for network in NETWORKS
        for index, users in enumerate(sizes)
        for replicate in range(replicates)
    ]
    rows = pd.DataFrame(frame.each(run, tasks, alone=True))
    laws = {network: Laws(law(network, False), law(network, True)) for network in NETWORKS}
    growth = list[GrowthFigure]()
    for network, part in rows.groupby("network", sort=False):
        growth += _network(str(network), part, laws[str(network)], studies)
    if (frame.out / "beyond.csv").is_file():
        growth += _beyond(pd.read_csv(frame.out / "beyond.csv"), laws)
    [private] = frame.each(figures, [DELTA], alone=True)
    table = pd.DataFrame([asdict(figure) for figure in [*growth, *private]])
    frame.rows(
        rows.drop(columns="cpu_s"), name=NAME, seed=SEED, sizes=list(sizes), replicates=replicates, users=USERS,
        delta=DELTA, networks={name: config.model_dump(mode="json") for name, config in NETWORKS.items()},
    )  # fmt: skip
    return [
        frame.figure(plot_network, table, "network.png", rows),
        frame.figure(plot_clusters, table, "clusters.png"),
        frame.table("table.csv", table),
        frame.table("costs.csv", map(asdict, _costs(rows))),
    ]


# -- the network -------------------------------------------------------------------------------------------------------


def _network(network: str, rows: pd.DataFrame, laws: Laws, studies: int) -> Iterator[GrowthFigure]:
    """Yields all values for one network: measured means, exact values, totals for 10⁹ users, and predictions by fits.
    Also yields how often values of the largest runs lie within the intervals predicted from smaller runs.

    Args:
        network: "plain" or "retries" (some messages are lost, and users repeat requests). rows: a row for each
        replicate on this network. laws: the exact law of one user (bytes sent and time of arrival), with times rounded
        down and with times rounded up. studies: number of studies drawn from the law to check the fits.
    """
    sizes = sorted(rows["users"].unique().tolist())
    yield from _measured(network, rows, laws)
    for size in (*(s for s in sizes if s not in DECADES), *DECADES):
        yield from _exact(network, laws, size)
    yield from _totals(network, laws)
    # some fits leave out the largest size, and are tested on it; other fits use all sizes
    for past in (sizes[:-1], sizes):
        every = (*sizes, *(size for size in DECADES if size > sizes[-1]))
        yield from _fits(network, rows[rows["users"].isin(past)], every, laws.late.arrival, studies)
    largest = rows[rows["users"] == sizes[-1]]
    for quantity in (name for name in (*CONSTANT, "last_s") if largest[name].nunique() > 1):
        expected = _expected(rows[rows["users"] < sizes[-1]], quantity, sizes[-1])
        share = float(np.mean([value in expected for value in largest[quantity]]))
        yield GrowthFigure(
            "network", network, f"{quantity}_inside", at=sizes[-1], basis=_fit(sizes[-2]), value=share,
            replicates=len(largest),
        )  # fmt: skip


def _beyond(counted: pd.DataFrame, laws: dict[str, Laws]) -> Iterator[GrowthFigure]:
    """Yields what was counted among 10⁸ users. Also yields, by exact laws, the probability that the last arrival comes
    no later than the counted last arrival.

    Args:
        counted: a row for each network and quantity. laws: the exact law of one user on each network.
    """
    for network, users, quantity, value in counted.itertuples(index=False, name=None):
        figure = partial(GrowthFigure, "network", network)
        yield figure(quantity, users, BEYOND, value, replicates=1)
        if quantity == "last_s":
            late, early = (each.arrival.last_level(users, value) for each in laws[network])
            middle = (early + late) / 2
            yield figure("last_level", users, BEYOND, middle, low=early, high=late, replicates=1)


def _measured(network: str, rows: pd.DataFrame, laws: Laws) -> Iterator[GrowthFigure]:
    """Yields, for each number of users, the means over its replicates, with intervals. Also yields the share of
    replicates in which the last submission arrived within its exact 95% interval. `laws`, with times rounded down and
    up, give the interval.
    """
    figure = partial(GrowthFigure, "network", network)
    for size in sorted(rows["users"].unique().tolist()):
        part = rows[rows["users"] == size]
        for quantity in (*CONSTANT, "last_s", *(f"served_{rate:g}_s" for rate in LINK_BPS)):
            mean = mean_interval(part[quantity])
            yield figure(
                quantity, size, "measured", mean.value, low=mean.low, high=mean.high, replicates=mean.replicates
            )
        low, high = (each.arrival.last(size, level) for each, level in zip(laws, LEVELS, strict=True))
        share = float(np.mean([low <= last <= high for last in part["last_s"].tolist()]))
        yield figure("last_s_inside", size, "law", share, replicates=len(part))


def _exact(network: str, laws: Laws, users: int) -> Iterator[GrowthFigure]:
    """Yields exact values for n users: bytes that a user sends, bytes that the learner receives for each user, and the
    share of submissions that arrive. Further values are quantiles of arrival times, the last arrival, and the time when
    the last submission leaves the learner's link, for three rates of the link. Each value is the middle between a lower
    and an upper bound. For the last arrival and the link's time, low and high enclose 95% of replicates.

    Args:
        laws: the exact law of one user, with times rounded down and with times rounded up. The truth lies between both.
    """
    early, late = laws.early.arrival, laws.late.arrival
    (low, high), figure = LEVELS, partial(GrowthFigure, "network", network)
    ends_of = {
        "bytes_per_user": [each.bytes_per_user for each in laws],
        "arrived": [early.total, late.total],
        "learner_bytes_per_user": [LABEL * early.total, LABEL * late.total],
        **{f"p{100 * share:g}_s": [early.quantile(share), late.quantile(share)] for share in SHARES},
    }
    for quantity, ends in ends_of.items():
        yield figure(quantity, users, "law", sum(ends) / 2, low=min(ends), high=max(ends))
    middle = (early.last(users) + late.last(users)) / 2
    yield figure("last_s", users, "law", middle, low=early.last(users, low), high=late.last(users, high))
    # when the last submission leaves the learner's link, which has `rate` bits a second for each user
    for rate in LINK_BPS:
        load = 8.0 * LABEL / rate
        first, last = early.served(users, load, low), late.served(users, load, high)
        middle = (early.served(users, load) + late.served(users, load)) / 2
        yield figure(f"served_{rate:g}_s", users, "law", middle, low=first, high=last)


def _totals(network: str, laws: Laws) -> Iterator[GrowthFigure]:
    """Yields totals for 10⁹ users: gigabytes that all users send, gigabytes that the learner receives, and submissions
    that never arrive. Also yields how many submissions arrive later than the 99.9% quantile of arrivals. The last
    values are times in seconds until the learner's link has passed on all submissions, if each carries 4,096 bytes
    besides its label. Only the law with times rounded up is used.
    """
    sent, late = laws.late.bytes_per_user, laws.late.arrival
    totals = {
        "sent_gb": sent * USERS / 1e9,
        "learner_gb": LABEL * late.total * USERS / 1e9,
        "never_arrive": (1.0 - late.total) * USERS,
        "later_than_p99.9": 0.001 * late.total * USERS,
    }
    for rate in LINK_BPS:
        totals[f"served_{rate:g}_big_header_s"] = late.served(USERS, 8.0 * (BIG_HEADER + LABEL - REQUEST) / rate)
    for quantity, value in totals.items():
        yield GrowthFigure("network", network, quantity, at=USERS, basis="law", value=value)


def _fits(
    network: str, past: pd.DataFrame, sizes: Sequence[int], arrival: GridLaw, studies: int
) -> Iterator[GrowthFigure]:
    """Yields predictions by fits to runs, for each number n of users. If n is larger than in these runs, also yields
    how often the interval of such a fit holds the last arrival.

    Args:
        past: rows of the runs to which fits are made. sizes: values of n. arrival: the exact law of a submission's
        arrival. studies: number of studies drawn from this law; each study repeats the fit.
    """
    largest = int(past["users"].max())
    for size in sizes:
        for quantity in (*CONSTANT, "last_s") if size > largest else ("last_s",):
            e = _expected(past, quantity, size)
            yield GrowthFigure(
                "network", network, quantity, at=size, basis=_fit(largest),
                value=e.value, low=e.low, high=e.high, replicates=len(past),
            )  # fmt: skip
        if size > largest:
            # the share of studies, drawn from the law, whose fitted interval holds the last arrival among n users
            rng, observed = Streams(SEED, 0).generator(f"coverage {size}"), past["users"].to_numpy()
            last = np.stack([arrival.draw_last(float(users), studies, rng) for users in observed], axis=1)
            truth = arrival.draw_last(size, studies, rng)
            share = float(np.mean([t in _last(observed, s, size) for t, s in zip(truth, last, strict=True)]))
            yield GrowthFigure(
                "network", network, "last_s_coverage", at=size, basis=_fit(largest), value=share, replicates=studies
            )


def _fit(largest: int) -> str:
    """The table's name for a fit to the runs with at most `largest` users, such as "fit up to 1,000,000"."""
    return f"fit up to {largest:,}"


def _expected(past: pd.DataFrame, quantity: str, users: int) -> Estimate:
    """The predicted value of a quantity in one further run among `users` users, with its 95% prediction interval.

    The expected value of an average or a quantile is assumed to be the same for all numbers n of users. Its variance is
    assumed to be proportional to 1/n. The logarithm of the last arrival is assumed to be linear in the median of the
    largest of n normal numbers. Log-normal arrival times would have this property.

    Args:
        past: a row for each run, with its number of users in the column `users` and a column of the quantity. quantity:
        name of the column: "last_s" for the last arrival in seconds, else an average or a quantile, such as
        "bytes_per_user". users: number of users of the further run.
    """
    n, values = past["users"].to_numpy(dtype=np.float64), past[quantity].to_numpy(dtype=np.float64)
    if quantity != "last_s":
        return predict(np.ones((len(n), 1)), values, [1.0], weights=n, weight=users)
    return _last(n, values, users)


def _last(n: Floats, values: Floats, users: int) -> Estimate:
    """The predicted last arrival among `users` users, with its 95% interval. n, values: users and last arrivals of past
    runs.
    """
    terms = {size: [1.0, normal_score(size)] for size in {*n.tolist(), float(users)}}
    log = predict([terms[size] for size in n.tolist()], np.log(values), terms[float(users)])
    return Estimate(*(math.exp(end) for end in (log.value, log.low, log.high)))


# -- the simulator itself ----------------------------------------------------------------------------------------------


def _costs(rows: pd.DataFrame) -> Iterator[GrowthFigure]:
    """Yields what the simulation costs on each network: CPU seconds for each number of users, and memory of the largest
    run. CPU seconds for more users are predicted from a constant time per user. Memory is measured shard by shard (a
    part of the clusters at a time) and in one piece.
    """
    sizes = sorted(rows["users"].unique().tolist())
    for network, part in rows.groupby("network", sort=False):
        figure = partial(GrowthFigure, "cost", str(network))
        for size in sizes:
            mean = mean_interval(part.loc[part["users"] == size, "cpu_s"])
            yield figure(
                "cpu_s", size, "measured", mean.value, low=mean.low, high=mean.high, replicates=mean.replicates
            )
        # runs of the second largest n predict the largest n; runs of both together predict 10⁹ users
        for fitted, target in ((sizes[-2:-1], sizes[-1]), (sizes[-2:], USERS)):
            past = part[part["users"].isin(fitted)]
            e = predict(np.ones((len(past), 1)), past["cpu_s"] / past["users"], [1.0])
            value, low, high = (target * end for end in (e.value, e.low, e.high))
            yield figure("cpu_s", target, _fit(fitted[-1]), value, low=low, high=high, replicates=len(past))
        for basis in ("shard by shard", "in one piece"):
            tracemalloc.start()
            if basis == "shard by shard":
                for _ in arrivals(str(network), sizes[-1], 0):
                    pass
            else:  # all that a sweep needs for a row of results is kept in memory
                offsets = np.arange(0, sizes[-1] + 1, CLUSTER)
                labels = np.zeros(sizes[-1], dtype=np.uint8)
                LabelExchangeMechanism(RandomizedResponse(0.1), 1.0, "events").run(
                    Population(np.zeros((sizes[-1], 0)), labels, offsets, 2), NETWORKS[str(network)], Streams(SEED, 0)
                )
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            yield figure("peak_mib", sizes[-1], basis, peak / 2**20)
            yield figure("peak_bytes_per_user", sizes[-1], basis, peak / sizes[-1])


TITLES = {"plain": "all at once, nothing lost", "retries": "1% loss, up to three requests"}


def plot_network(table: pd.DataFrame, path: Path, rows: pd.DataFrame) -> None:
    """Draws the last arrival on each network, and the bytes sent, against the number of users. Bands hold 95% of
    replicates.

    Args:
        table: all values of the study. path: the file of the picture. rows: a row for each replicate of the study.
    """
    network = table[table["part"] == "network"]
    with drawing(path, 12.4, 4.6, panels=3) as (_, axes):
        for panel, (name, title) in zip(axes[:2], TITLES.items(), strict=True):
            _last_arrivals(panel, network[network["setting"] == name], rows[rows["network"] == name], title)
        _bytes(axes[2], network[network["setting"] == "retries"])
        for panel in axes:
            panel.set_xlabel("users")
            panel.legend(fontsize=8, loc="upper left")


def _last_arrivals(axes: Axes, table: pd.DataFrame, rows: pd.DataFrame, title: str) -> None:
    part = table[table["quantity"] == "last_s"]
    fits = [basis for basis in part["basis"].unique() if basis.startswith("fit")]
    for index, basis in enumerate(["law", *fits]):
        line = part[part["basis"] == basis].sort_values("at")
        label = "exact law, median and 95%" if basis == "law" else f"{basis} users, 95%"
        axes.fill_between(line["at"], line["low"], line["high"], color=COLOURS[index], alpha=0.18, linewidth=0)
        axes.plot(line["at"], line["value"], color=COLOURS[index], linestyle=("-", "--", ":")[index], label=label)
    axes.plot(rows["users"], rows["last_s"], ".", color=COLOURS[-1], alpha=0.5, label="measured, each replicate")
    beyond = part[part["basis"] == BEYOND]
    if len(beyond):
        axes.plot(beyond["at"], beyond["value"], "*", color=COLOURS[-1], markersize=12, label="10⁸ users, one run")
    _log(axes, "last submission arrives, seconds", title, 1.0, 100.0)


def _bytes(axes: Axes, rows: pd.DataFrame) -> None:
    for index, (quantity, label) in enumerate(
        (("bytes_per_user", "all messages"), ("learner_bytes_per_user", "to the learner"))
    ):
        part = rows[rows["quantity"] == quantity]
        line = part[part["basis"] == "law"].sort_values("at")
        axes.plot(line["at"], line["value"] * line["at"] / 1e9, color=COLOURS[index], label=f"{label}, exact mean")
        for basis, marker in (("measured", MARKERS[index]), (BEYOND, "*")):
            dots = part[part["basis"] == basis]
            axes.plot(
                dots["at"], dots["value"] * dots["at"] / 1e9, marker, color=COLOURS[index], markersize=6,
                label=f"{label}, {basis}" if basis == "measured" else None,
            )  # fmt: skip
    _log(axes, "gigabytes", "bytes, 1% loss", 1e-5, 1000.0)


def _log(axes: Axes, y_label: str, title: str, low: float, high: float) -> None:
    axes.set(xscale="log", yscale="log", ylim=(low, high), ylabel=y_label, title=title)
    powers_of_ten(axes.xaxis)
    plain_log_ticks(axes.yaxis, low, high)


def plot_clusters(table: pd.DataFrame, path: Path) -> None:
    """Draws ε at δ = 1e-12 against the size of a cluster, for the learner alone and with coalitions of users."""
    lines = []
    for part, quantity, label in (
        ("learner", "epsilon", "learner alone, {}"),
        ("coalition", "epsilon_unasked", "with {}, not asked by any of them"),
    ):
        chosen = table[(table["part"] == part) & (table["quantity"] == quantity)]
        for setting, points in chosen.groupby("setting", sort=False):
            lines.append(Curve.of(label.format(setting), points, "at", "value"))
    sizes = lines[0].x
    [local] = table.loc[table["setting"] == "asked the target", "value"]
    lines.append(Curve("asked by a colluder: ε₀", [min(sizes), max(sizes)], [local] * 2, dashed=True, marked=False))
    note = "α = 0.1, δ = 1e-12; colluders: θ = 1, in the cluster that has most of them"
    plot_panels([Panel("users of a cluster", "ε, upper bound", lines)], path, note)


if __name__ == "__main__":
    command(NAME, main)
