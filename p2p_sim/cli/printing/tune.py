"""What `p2p-sim tune` shows."""

import math
from collections import Counter

from p2p_sim.analysis.figures.labels import at_most
from p2p_sim.analysis.utility.intervals import Mean, mean_interval
from p2p_sim.cli.printing.values import print_object, print_table
from p2p_sim.sweeps.tuning.drive import Tuned, Tuning
from p2p_sim.sweeps.tuning.look import COSTS


def print_tuned(tuning: Tuning, tuned: Tuned, quiet: bool) -> None:
    """What was found and what choosing cost, then every path; the paths alone if `quiet`."""
    if not quiet:
        found, counts = tuned.found, Counter(trial.state for trial in tuned.trials)
        row, fresh = found.row, _fresh(tuning, tuned)
        column = tuning.goal.column
        interval = "" if math.isnan(fresh.low) else f" [{fresh.low:.4f}, {fresh.high:.4f}]"
        runs = (
            ("goal", str(tuning.goal)),
            ("look", f"{tuning.look}: {COSTS[tuning.look]}"),
            ("trials", ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))),
        )
        settings = [(key, str(value)) for key, value in found.trial.settings.items()]
        figures = (
            (f"{_judge(tuning)} in the search", f"{found.score:.4f}, optimistic: it is the best of many"),
            (f"{column} in fresh replicates", f"{fresh.value:.4f}{interval}, {fresh.replicates} replicates"),
            ("ε", f"{at_most(found.epsilon)} at δ = {row['delta']:g}, against the {row['observer']}, worst replicate"),
            ("ε protects", f"one user's {row['adjacency']}{_unpaid(tuning)}"),
        )
        print_table(
            f"{tuning.base.name}: {len(tuned.trials)} trials, best: trial {found.trial.number}", runs, settings, figures
        )
    for path in tuned.files:
        print(path)
    if not quiet:
        print(f"next: p2p-sim run {tuned.files[-1]}   p2p-sim plot {tuned.directory}")


def _judge(tuning: Tuning) -> str:
    """Whose figure the search made large."""
    if tuning.look == "curator":
        return "accuracy by a private score"
    column = tuning.goal.column
    return f"{column} by released labels" if tuning.look == "released" else column


def _unpaid(tuning: Tuning) -> str:
    return "; the search looked at true labels, which this ε does not count" if tuning.look == "oracle" else ""


def _fresh(tuning: Tuning, tuned: Tuned) -> Mean:
    """The score in replicates that the search did not look at."""
    return mean_interval([tuning.truth.measured(row).score for row in tuned.found.fresh])


def print_tuned_json(tuning: Tuning, tuned: Tuned) -> None:
    """One JSON object."""
    found, fresh = tuned.found, _fresh(tuning, tuned)
    print_object(
        {
            "name": tuning.base.name,
            "directory": str(tuned.directory),
            **tuning.described,
            "choice_counted": tuning.look != "oracle",
            "trials": len(tuned.trials),
            "trial": found.trial.number,
            "settings": found.trial.settings,
            "score_in_search": found.score,
            "score": fresh.value,
            "score_low": None if math.isnan(fresh.low) else fresh.low,
            "score_high": None if math.isnan(fresh.high) else fresh.high,
            **{name: found.row[name] for name in ("observer", "adjacency", "basis", "delta")},
            "epsilon_upper": found.epsilon,
            "files": [str(path) for path in tuned.files],
        }
    )
