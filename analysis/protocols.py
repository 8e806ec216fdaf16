"""Protocols without a server side by side: what each observer learns at most and at least, and what is learned.

Run as `python -m analysis.protocols --data-dir DIR`; some CPU minutes. docs/better-exchange.md shows its tables.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

from analysis.comparison_second import CHANGES
from analysis.study import ROOT, Frame, command
from p2p_sim import Scenario, load_scenario, run
from p2p_sim.figures import Marks, plot_groups
from p2p_sim.measures import mean_interval
from p2p_sim.privacy import (
    Accountant,
    Coalition,
    Eavesdropper,
    LabelExchange,
    MajorityExchange,
    Peer,
    ShuffledResponse,
    local_epsilon,
)

NAME = "protocols"
EXCHANGE, THREE, FIVE, PUSH, GOSSIP = "label exchange (ask 1)", "ask 3", "ask 5", "pushed labels", "gossip averaging"
SHUFFLER, RESPONSE = "trusted shuffler", "randomised response"
ASKED = {EXCHANGE: 1, THREE: 3, FIVE: 5}
DELTA, FLIP_PROB, MEMBERS = 1e-5, 0.2, 5
"""δ and α of the views; users of a coalition."""
SIZES, RATES = (20, 200, 2_000), (1.0, 0.1)
"""Cluster sizes and sampling rates of the views."""
TRIALS, ERROR = 1_000_000, 1e-9
"""Runs of each world, and of its pilot a quarter; probability that a lower end is wrong."""
TARGET = 0.5
"""ε at the learner in the second panel."""
Bools = NDArray[np.bool_]
Draw = Callable[[np.random.Generator, int, int], NDArray[np.int64]]
"""What an observer counts, in so many runs in which the target's label is 0 or 1."""


def learner_counts(way: str, size: int, rate: float, others: int) -> Draw:
    """A function that draws how many ones a protocol's learner gets from a cluster in which `others` of the other users
    hold label 1.
    """

    def draw(rng: np.random.Generator, trials: int, label: int) -> NDArray[np.int64]:
        ones, zeros = others + label, size - others - label
        noisy = rng.binomial(ones, 1.0 - FLIP_PROB, trials) + rng.binomial(zeros, FLIP_PROB, trials)
        if way == PUSH:
            return noisy
        p = noisy / size
        chance = {1: p, 3: 3 * p**2 - 2 * p**3, 5: 10 * p**3 - 15 * p**4 + 6 * p**5}[ASKED[way]]
        return rng.binomial(rng.binomial(size, rate, trials), chance)

    return draw


def known_label(reached: float) -> Draw:
    """A function that draws what an observer sees who gets the target's noisy label with this probability: 1 plus the
    label, else 0.
    """

    def draw(rng: np.random.Generator, trials: int, label: int) -> NDArray[np.int64]:
        noisy = rng.random(trials) < (1.0 - FLIP_PROB if label else FLIP_PROB)
        return np.where(rng.random(trials) < reached, 1 + noisy, 0)

    return draw


def attacked(draws: list[Draw], trials: int, seed: int) -> float:
    """A lower bound of ε at δ: the largest that an event "at least so many", or its complement, proves on some data
    sets.

    The event is fixed on a pilot run. Clopper-Pearson bounds hold for its two probabilities; their error is shared by
    the data sets and directions.
    """
    rng, best = np.random.default_rng(seed), 0.0
    level = ERROR / (4.0 * len(draws))
    for draw in draws:
        for label in (0, 1):  # the world in which the event is likelier
            pilot, opposite = draw(rng, trials // 4, label), draw(rng, trials // 4, 1 - label)
            cuts = np.unique(np.concatenate([pilot[:10_000], opposite[:10_000]]))
            proofs = [_proof(_event(pilot, cut, label), _event(opposite, cut, label), level) for cut in cuts]
            cut = cuts[int(np.argmax(proofs))]
            likelier, other = (_event(draw(rng, trials, world), cut, label) for world in (label, 1 - label))
            best = max(best, _proof(likelier, other, level))
    return best


def _event(counts: NDArray[np.int64], cut: int, label: int) -> Bools:
    return counts >= cut if label else counts <= cut


def _proof(likelier: Bools, other: Bools, level: float) -> float:
    """The lower bound of ε that one event proves: ln((p - δ)/q), p a lower and q an upper confidence bound of its
    probabilities.

    likelier, other: whether the event occurred, in each run of either world. level: error of each bound.
    """
    hits, trials = int(likelier.sum()), likelier.size
    low = beta.ppf(level, hits, trials - hits + 1) if hits else 0.0
    misses = int(other.sum())
    high = beta.ppf(1.0 - level, misses + 1, other.size - misses) if misses < other.size else 1.0
    return max(0.0, math.log((low - DELTA) / high)) if low > DELTA else 0.0


def views(task: tuple[str, int, float, int]) -> dict[str, Any]:
    """A row of the table of views: for each observer of a protocol [attack, certified] ε, at a cluster size and a
    sampling rate.
    """
    way, size, rate, trials = task
    k, alone = ASKED.get(way, 1), local_epsilon(FLIP_PROB)
    fetched = way in ASKED
    # whoever asked the target, or was sent her label, has it with its owner
    of_one = 1.0 - (1.0 - 1.0 / size) ** k
    of_some = 1.0 - (1.0 - 1.0 / size) ** (k * MEMBERS)
    reached = {"peer": of_one, "coalition": of_some, "eavesdropper": 1.0}
    exchange = way == EXCHANGE
    certified: dict[str, Accountant | None] = {
        "learner": _learner(way, size, rate),
        "peer": Peer(size, FLIP_PROB) if exchange else None,
        "coalition": Coalition(LabelExchange(size, FLIP_PROB, rate), MEMBERS) if exchange else None,
        "eavesdropper": Eavesdropper(FLIP_PROB),
    }
    line: dict[str, Any] = {"protocol": way, "cluster_size": size, "sampling_rate": rate if fetched else 1.0}
    for number, (observer, model) in enumerate(certified.items()):
        line[f"{observer}_certified"] = alone if model is None else model.epsilon(DELTA).epsilon_upper
        if observer == "learner":
            draws = [] if way == GOSSIP else [learner_counts(way, size, rate, m) for m in (0, size // 2)]
        else:
            draws = [known_label(reached[observer])]
        line[f"{observer}_attack"] = attacked(draws, trials, number) if draws else 0.0
    return line


def _learner(way: str, size: int, rate: float) -> Accountant | None:
    if way == PUSH:
        return ShuffledResponse(size, FLIP_PROB)
    return MajorityExchange(size, FLIP_PROB, rate, ASKED[way]) if way in ASKED else None


MECHANISMS: dict[str, dict[str, Any]] = {
    EXCHANGE: {"kind": "label_exchange"},
    THREE: {"kind": "label_exchange", "peers": 3},
    FIVE: {"kind": "label_exchange", "peers": 5},
    SHUFFLER: {"kind": "shuffled_response"},
    PUSH: {"kind": "pushed_labels"},
    RESPONSE: {"kind": "randomized_response"},
}
PANELS: dict[str, dict[str, Any]] = {
    "digits": {"population": {"kind": "digits", "task": "even-odd"}},
    "breast cancer": {
        "population": {"kind": "breast-cancer"},
        "clusters": {"kind": "kmeans", "count": 4, "min_size": 40},
    },
    "adult": CHANGES["adult"],
    "mnist": CHANGES["even-odd"],
    "synthetic": CHANGES["synthetic"] | {
        "population": {"kind": "synthetic", "users": 4_000, "num_clusters": 20, "heterogeneity": 0.2},
    },
}  # fmt: skip
SAME_NOISE, SAME_EPSILON = "the same ε₀", "the same certified ε at the learner"
COLUMNS = ("num_users", "min_cluster_size", "excess_risk_loss", "epsilon_upper", "epsilon_local", "flip_prob",
           "messages_sent", "completion_time_s")  # fmt: skip


def learned(task: tuple[str, dict[str, Any], int, Path | None]) -> list[dict[str, Any]]:
    """Accuracies of all protocols in one replicate, at both sampling rates, with the same noise and with the same
    certified ε.
    """
    panel, tree, replicate, data_dir = task
    base, rows = Scenario.from_tree(tree), list[dict[str, Any]]()
    shuffled = 0.0
    for equal in (SAME_NOISE, SAME_EPSILON):
        for way, mechanism in MECHANISMS.items():
            for rate in RATES if way in ASKED else (1.0,):
                noise = {"flip_prob": FLIP_PROB} if equal == SAME_NOISE else {"target_epsilon": TARGET}
                if way == PUSH and equal == SAME_EPSILON:
                    noise = {"flip_prob": shuffled}  # the α that makes the shuffled labels as private
                rated = {"sampling_rate": rate} if way in ASKED else {}
                engine = "processes" if way == PUSH else "events"
                row = run(
                    base.replace(mechanism={**mechanism, **noise, **rated}, engine=engine), replicate, data_dir
                ).row
                shuffled = row["flip_prob"] if way == SHUFFLER else shuffled
                values = {name: row.get(name) for name in COLUMNS}
                rows.append({
                    "panel": panel, "equal": equal, "protocol": way, "sampling_rate": rate, "replicate": replicate,
                    "accuracy": 1.0 - row["error_rate"], **values,
                    "nonprivate_accuracy": 1.0 - row["nonprivate_error_rate"],
                })  # fmt: skip
    return rows


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    """For each point the mean accuracy, and what it gains over the exchange at θ = 1, replicate by replicate."""
    first = rows[(rows["protocol"] == EXCHANGE) & (rows["sampling_rate"] == 1.0)]
    paired = first.set_index(["panel", "equal", "replicate"])["accuracy"]
    keys, lines = ["panel", "equal", "protocol", "sampling_rate"], list[dict[str, Any]]()
    for point, part in rows.groupby(keys, sort=False):
        at = part.set_index(["panel", "equal", "replicate"])
        gain, mean = mean_interval((at["accuracy"] - paired.loc[at.index]).tolist()), mean_interval(part["accuracy"])
        lines.append(dict(zip(keys, point, strict=True)) | {
            "replicates": len(part), "accuracy": mean.value, "accuracy_low": mean.low, "accuracy_high": mean.high,
            "gain": gain.value, "gain_low": gain.low, "gain_high": gain.high,
            "lost": (part["nonprivate_accuracy"] - part["accuracy"]).mean(),
            "epsilon_upper": part["epsilon_upper"].max(), "epsilon_local": part["epsilon_local"].max(),
            "messages_a_user": (part["messages_sent"] / part["num_users"]).mean(),
            "seconds": part["completion_time_s"].mean(),
        })  # fmt: skip
    return pd.DataFrame(lines)


def main(frame: Frame, replicates: int = 10) -> list[Path]:
    """Compares protocols without a server at equal noise and at equal ε; writes two tables and a figure, returns the
    files.

    Args:
        frame: where the study runs and writes. replicates: of each point.
    """
    ways = (*ASKED, PUSH, GOSSIP)
    # what views show, by way and size; then what is learned, by data set
    trials = 40_000 if frame.small else TRIALS
    sizes = SIZES[:1] if frame.small else SIZES
    tasks = [(way, n, rate, trials) for way in ways for n in sizes for rate in (RATES if way in ASKED else (1.0,))]
    table = frame.each(views, tasks)
    base = load_scenario(ROOT / "scenarios" / "comparison.toml")
    panels = dict(list(PANELS.items())[:1]) if frame.small else PANELS
    trees: Mapping[str, dict[str, Any]] = {
        name: base.replace(
            name=f"{NAME}-{name}".replace(" ", "-"),
            learner={"kind": "logistic_regression"},
            privacy={"delta": DELTA},
            **changes,
        ).model_dump(mode="json")
        for name, changes in panels.items()
    }
    count = 2 if frame.small else replicates
    runs = [(name, tree, number, frame.data_dir) for name, tree in trees.items() for number in range(count)]
    rows = pd.DataFrame([row for part in frame.each(learned, runs) for row in part])
    frame.rows(rows, study=NAME, replicates=count, target=TARGET, flip_prob=FLIP_PROB, delta=DELTA)
    lines = gains(rows)
    return [
        frame.table("views.csv", table),
        frame.table("table.csv", lines),
        _drawn(lines, frame.out / "protocols.png"),
    ]


def _drawn(lines: pd.DataFrame, path: Path) -> Path:
    """The figure of the accuracy that each protocol loses against the exchange, by data set; a panel for each way to be
    equal.
    """
    rivals = lines[(lines["sampling_rate"] == 1.0) & (lines["protocol"] != EXCHANGE)]
    losses = rivals.assign(loss=-rivals["gain"], loss_low=-rivals["gain_high"], loss_high=-rivals["gain_low"])
    panels = [
        Marks(str(equal), part, row="panel", group="protocol", value="loss")
        for equal, part in losses.groupby("equal", sort=False)
    ]
    note = (
        f"95% intervals over {lines['replicates'].min()} replicates, on the same splits and clusters; θ = 1; negative: "
        "better than the exchange."
    )
    plot_groups(panels, path, "Accuracy lost against the label exchange that asks one peer", note)
    return path


if __name__ == "__main__":
    command(NAME, main)
