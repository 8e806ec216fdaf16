"""What `p2p-sim tune` shows."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from rich.table import Table

from p2p_sim.base.notebook_view import count
from p2p_sim.cli.printing.numbers import Output, Verbatim, span, two_columns
from p2p_sim.figures.column_labels import at_most
from p2p_sim.measures.intervals import Mean, mean_interval
from p2p_sim.mechanisms.mechanism import Column
from p2p_sim.replicate.row import Row
from p2p_sim.tuning.goal import COSTS
from p2p_sim.tuning.run_search import Tuned
from p2p_sim.tuning.trial_runs import Tuning

UNPAID = "; the search looked at true labels, which this ε does not count"


def tuned_output(tuning: Tuning, tuned: Tuned, quiet: bool) -> Output:
    """What was found and what choosing cost, then every path; the paths alone if `quiet`."""
    # the score in replicates that the search did not look at
    fresh = mean_interval([tuning.truth.measured(row).score for row in tuned.best.fresh])
    following = Verbatim(f"next: p2p-sim run {tuned.files[-1]}   p2p-sim plot {tuned.directory}")
    before, after = ([], []) if quiet else ([_table(tuning, tuned, fresh)], [following])
    return Output(_record(tuning, tuned, fresh), [*before, *tuned.files, *after])


def _table(tuning: Tuning, tuned: Tuned, fresh: Mean) -> Table:
    found, counts = tuned.best, Counter(trial.state for trial in tuned.trials)
    row, column = found.row, tuning.goal.column
    interval = "" if math.isnan(fresh.low) else f" [{fresh.low:.4f}, {fresh.high:.4f}]"
    runs = (
        ("goal", str(tuning.goal)),
        ("look", f"{tuning.look}: {COSTS[tuning.look]}"),
        ("trials", ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))),
    )
    settings = [(key, str(value)) for key, value in found.trial.settings.items()]
    settings += _parameters(found.fresh, tuning.base.mechanism.columns)
    # ε of the learner together with a coalition, which the goal is not about
    epsilons, with_coalition = [row["epsilon_coalition_upper"] for row in found.fresh], []
    if None not in epsilons:
        most = f"{at_most(max(map(float, epsilons)))} in fresh replicates; the goal is not about it"
        with_coalition = [("  with the coalition", most)]
    protected = f"one user's {row['adjacency']}{UNPAID * (tuning.look == 'oracle')}"
    if math.isinf(found.epsilon):
        protected = f"nothing: no finite ε is known for one user's {row['adjacency']}"
    figures = (
        (f"{_judge(tuning)} in the search", f"{found.score:.4f}, optimistic: it is the best of many"),
        (f"{column} in fresh replicates", f"{fresh.value:.4f}{interval}, {count(fresh.replicates, 'replicate')}"),
        ("ε", f"{at_most(found.epsilon)} at δ = {row['delta']:g}, against the {row['observer']}, worst replicate"),
        *with_coalition,
        ("ε protects", protected),
    )
    title = f"{tuning.base.name}: {len(tuned.trials)} trials, best: trial {found.trial.number}"
    return two_columns(title, runs, settings, figures)


def _parameters(fresh: Sequence[Row], columns: Iterable[Column]) -> list[tuple[str, str]]:
    """α, θ and the like in the fresh replicates, each of which is calibrated anew where an ε is the target."""
    lines = []
    for column in columns:
        values = pd.Series([row[column.name] for row in fresh])
        if values.notna().all():
            varies = values.nunique() > 1
            lines.append((str(column), f"{span(values.astype(float))}{', by the clusters of each replicate' * varies}"))
    return lines


def _judge(tuning: Tuning) -> str:
    """Whose figure the search made large."""
    if tuning.look == "curator":
        return "accuracy by a private score"
    column = tuning.goal.column
    return f"{column} by released labels" if tuning.look == "released" else column


def _record(tuning: Tuning, tuned: Tuned, fresh: Mean) -> dict[str, Any]:
    found = tuned.best
    return {
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
