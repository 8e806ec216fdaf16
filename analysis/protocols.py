"""A comparison of protocols without a server: upper and lower bounds of ε for each observer, and accuracy.

Run it as `python -m analysis.protocols --data-dir DIR`; it takes a few CPU minutes. docs/better-exchange.md shows the
tables.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

from analysis.comparison_second import CHANGES
from analysis.study import Frame, command, comparison_base, with_ends
from p2p_sim import Scenario, run
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
"""Protocols in which users ask peers, each with the number of peers that a user asks."""
DELTA, FLIP_PROB, MEMBERS = 1e-5, 0.2, 5
"""δ, α and the number of users in a coalition, for the table of views. A view is what an observer sees."""
SIZES, RATES = (20, 200, 2_000), (1.0, 0.1)
"""Cluster sizes of the table of views, and the sampling rates of both tables."""
TRIALS, ERROR = 1_000_000, 1e-9
"""`TRIALS`: number of runs of an attack for each label of its target. A quarter as many pilot runs come before.
`ERROR`: probability that the attack's bound is wrong."""
TARGET = 0.5
"""The certified ε at the learner, for every protocol in the comparison at equal ε."""
Bools = NDArray[np.bool_]
Draw = Callable[[np.random.Generator, int, int], NDArray[np.int64]]
"""A function of a generator, a number of runs, and the target's label. The function returns what an observer counts in
each run."""


def learner_counts(way: str, size: int, rate: float, others: int) -> Draw:
    """A function draw(rng, trials, label): how many ones a protocol's learner receives from a cluster in each run,
    (trials,). The target holds `label`. Users flip labels with probability 0.2.

    Args:
        way: the protocol's name. `PUSH`: each user sends her noisy label to another user, and all arrive. A key of
        `ASKED`: users ask 1, 3 or 5 peers and submit the majority. size: users of the cluster. rate: the sampling rate
        θ, for keys of `ASKED`. others: how many users besides the target hold label 1.
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
    """A function draw(rng, trials, label): what an observer sees of the target in each run, (trials,). This is 1 plus
    the target's noisy label, or 0 if the observer did not get this label. The label is flipped with probability 0.2.

    Args:
        reached: the probability that the observer gets the noisy label.
    """

    def draw(rng: np.random.Generator, trials: int, label: int) -> NDArray[np.int64]:
        noisy = rng.random(trials) < (1.0 - FLIP_PROB if label else FLIP_PROB)
        return np.where(rng.random(trials) < reached, 1 + noisy, 0)

    return draw


def attacked(draws: list[Draw], trials: int, seed: int) -> float:
    """The largest lower bound of ε at δ = 1e-5 that an attack proves on one of several data sets; 0 if it proves none.
    The attack chooses a cut on separate pilot runs. Then it compares how often a count is at least (or at most) this
    cut under the target's two labels. Both probabilities have Clopper-Pearson bounds. The result is too large with
    probability at most 1e-9, for all data sets and both kinds of event together.

    Args:
        draws: for each data set a function draw(rng, trials, label) that returns counts (trials,). trials: number of
        runs for each label of the target; a quarter as many are pilot runs. seed: seed of the random numbers.
    """
    rng, best = np.random.default_rng(seed), 0.0
    level = ERROR / (4.0 * len(draws))
    for draw in draws:
        for label in (0, 1):  # the target's label under which the event is likelier
            pilot, opposite = draw(rng, trials // 4, label), draw(rng, trials // 4, 1 - label)
            cuts = np.unique(np.concatenate([pilot[:10_000], opposite[:10_000]]))
            proofs = [_proof(_event(pilot, cut, label), _event(opposite, cut, label), level) for cut in cuts]
            cut = cuts[int(np.argmax(proofs))]
            likelier, rarer = (_event(draw(rng, trials, held), cut, label) for held in (label, 1 - label))
            best = max(best, _proof(likelier, rarer, level))
    return best


def _event(counts: NDArray[np.int64], cut: int, label: int) -> Bools:
    """In which runs the event of an attack occurs, (trials,). For `label` = 1 the event is a count of at least the cut.
    For `label` = 0 the event is a count of at most the cut. The event is likelier if the target holds `label`. In these
    runs she may hold the other label.
    """
    return counts >= cut if label else counts <= cut


def _proof(likelier: Bools, rarer: Bools, level: float) -> float:
    """The lower bound of ε that an event proves from its probabilities under the target's two labels.

    The bound is ln((p - δ)/q). p is a lower bound of the larger probability, and q an upper bound of the smaller
    probability. likelier, rarer: whether the event occurred in each run, under the label with the larger probability
    and under the other label. level: error probability of each bound.
    """
    hits, trials = int(likelier.sum()), likelier.size
    low = beta.ppf(level, hits, trials - hits + 1) if hits else 0.0
    rare = int(rarer.sum())
    high = beta.ppf(1.0 - level, rare + 1, rarer.size - rare) if rare < rarer.size else 1.0
    return max(0.0, math.log((low - DELTA) / high)) if low > DELTA else 0.0


def views(task: tuple[str, int, float, int]) -> dict[str, Any]:
    """A row of the table of views: an upper and a lower bound of ε at δ = 1e-5, for each observer of a protocol.

    The columns are protocol, cluster_size, sampling_rate (1 if users do not ask peers), and two for each observer, such
    as peer_certified and peer_attack. The first of the two has the certified ε. The second has the ε that an attack
    proves, 0 without an attack. The observers are the learner, one peer, a coalition (the learner and 5 users) and an
    eavesdropper of all messages.

    task: the protocol's name (a key of `ASKED`, `PUSH` or `GOSSIP`), the cluster size, the sampling rate, and the
    number of runs of an attack for each label of its target.
    """
    way, size, rate, trials = task
    requests, alone = ASKED.get(way, 1), local_epsilon(FLIP_PROB)
    # a peer who gets the target's label knows its owner
    missed = 1.0 - 1.0 / size
    reached = {"peer": 1.0 - missed**requests, "coalition": 1.0 - missed ** (requests * MEMBERS), "eavesdropper": 1.0}
    exchange = way == EXCHANGE
    certified: dict[str, Accountant | None] = {
        "learner": _learner(way, size, rate),
        "peer": Peer(size, FLIP_PROB) if exchange else None,
        "coalition": Coalition(LabelExchange(size, FLIP_PROB, rate), MEMBERS) if exchange else None,
        "eavesdropper": Eavesdropper(FLIP_PROB),
    }
    line: dict[str, Any] = {"protocol": way, "cluster_size": size, "sampling_rate": rate if way in ASKED else 1.0}
    for seed, (observer, model) in enumerate(certified.items()):
        line[f"{observer}_certified"] = alone if model is None else model.epsilon(DELTA).epsilon_upper
        if observer == "learner":
            draws = [] if way == GOSSIP else [learner_counts(way, size, rate, m) for m in (0, size // 2)]
        else:
            draws = [known_label(reached[observer])]
        line[f"{observer}_attack"] = attacked(draws, trials, seed) if draws else 0.0
    return line


def _learner(way: str, size: int, rate: float) -> Accountant | None:
    """The accountant (computes ε) of a protocol's learner; None if only a single noisy label's ε is known (gossip).

    way: the protocol's name. size: users of the cluster. rate: the sampling rate.
    """
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
    """A row for each protocol and sampling rate in one replicate, with accuracy, ε and traffic. Every protocol runs
    twice: with the flip probability 0.2, and with the noise for a certified ε = 0.5 at the learner.

    Args:
        task: the name of the data set, its scenario as a nested mapping, the replicate, and the folder of data files.
    """
    panel, tree, replicate, data_dir = task
    base, rows = Scenario.from_tree(tree), list[dict[str, Any]]()
    shuffled = 0.0
    for equal, usual in ((SAME_NOISE, {"flip_prob": FLIP_PROB}), (SAME_EPSILON, {"target_epsilon": TARGET})):
        for way, mechanism in MECHANISMS.items():
            for rate in RATES if way in ASKED else (1.0,):
                # pushed labels get the α of the shuffler, which ran just before and is equally private
                noise = {"flip_prob": shuffled} if way == PUSH else usual
                rated = {"sampling_rate": rate} if way in ASKED else {}
                engine = "processes" if way == PUSH else "events"
                scenario = base.replace(mechanism={**mechanism, **noise, **rated}, engine=engine)
                row = run(scenario, replicate, data_dir).row
                shuffled = row["flip_prob"] if way == SHUFFLER else shuffled
                values = {name: row.get(name) for name in COLUMNS}
                rows.append({
                    "panel": panel, "equal": equal, "protocol": way, "sampling_rate": rate, "replicate": replicate,
                    "accuracy": 1.0 - row["error_rate"], **values,
                    "nonprivate_accuracy": 1.0 - row["nonprivate_error_rate"],
                })  # fmt: skip
    return rows


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each data set, choice of noise, protocol and sampling rate. A row has the mean accuracy, and the mean
    gain over the label exchange with one peer and θ = 1.

    Gains compare results of the same replicate. rows: the results, with the columns panel (data set), equal (choice of
    noise), protocol, sampling_rate and replicate.
    """
    first = rows[(rows["protocol"] == EXCHANGE) & (rows["sampling_rate"] == 1.0)]
    paired = first.set_index(["panel", "equal", "replicate"])["accuracy"]
    keys, lines = ["panel", "equal", "protocol", "sampling_rate"], list[dict[str, Any]]()
    for point, part in rows.groupby(keys, sort=False):
        at = part.set_index(["panel", "equal", "replicate"])
        lines.append(dict(zip(keys, point, strict=True)) | {
            "replicates": len(part), **with_ends("accuracy", mean_interval(part["accuracy"])),
            **with_ends("gain", mean_interval(at["accuracy"] - paired.loc[at.index])),
            "lost": (part["nonprivate_accuracy"] - part["accuracy"]).mean(),
            "epsilon_upper": part["epsilon_upper"].max(), "epsilon_local": part["epsilon_local"].max(),
            "messages_a_user": (part["messages_sent"] / part["num_users"]).mean(),
            "seconds": part["completion_time_s"].mean(),
        })  # fmt: skip
    return pd.DataFrame(lines)


def main(frame: Frame, replicates: int = 10) -> list[Path]:
    """Compares protocols without a server at equal noise and at equal ε. Returns the files of two tables and a figure.

    Args:
        frame: runs the study and writes its files. replicates: number of replicates of each protocol on each data set.
    """
    trials, sizes, panels, count = TRIALS, list(SIZES), list(PANELS), replicates
    if frame.small:
        trials, sizes, panels, count = 40_000, sizes[:1], panels[:1], 2
    ways = (*ASKED, PUSH, GOSSIP)
    tasks = [(way, n, rate, trials) for way in ways for n in sizes for rate in (RATES if way in ASKED else (1.0,))]
    table = frame.each(views, tasks)
    learning = {"learner": {"kind": "logistic_regression"}, "privacy": {"delta": DELTA}}
    bases = {panel: comparison_base(NAME, panel, learning | PANELS[panel]) for panel in panels}
    trees = {panel: base.model_dump(mode="json") for panel, base in bases.items()}
    runs = [(panel, tree, number, frame.data_dir) for panel, tree in trees.items() for number in range(count)]
    rows = pd.DataFrame([row for part in frame.each(learned, runs) for row in part])
    frame.rows(rows, study=NAME, replicates=count, target=TARGET, flip_prob=FLIP_PROB, delta=DELTA)
    lines = gains(rows)
    return [frame.table("views.csv", table), frame.table("table.csv", lines), _drawn(lines, frame)]


def _drawn(lines: pd.DataFrame, frame: Frame) -> Path:
    """Draws how much accuracy each protocol loses on each data set, compared with the label exchange with one peer. One
    panel is at equal noise, the other panel at equal ε. Returns the figure's file. lines: rows of `gains`.
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
    return frame.figure(
        plot_groups, panels, "protocols.png", "Accuracy lost against the label exchange that asks one peer", note
    )


if __name__ == "__main__":
    command(NAME, main)
