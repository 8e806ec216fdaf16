"""The output of `p2p-sim tune`."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from rich.table import Table

from p2p_sim.base import bound_text, count
from p2p_sim.cli.printing.numbers import Line, Output, Verbatim, span, two_columns
from p2p_sim.measures import Mean, mean_interval
from p2p_sim.mechanisms import Column
from p2p_sim.replicate import Row
from p2p_sim.tuning import COSTS, Tuned, Tuning

UNPAID = "; the search looked at true labels, which this ε does not count"


def tuned_output(tuning: Tuning, tuned: Tuned, quiet: bool) -> Output:
    """The output of `p2p-sim tune`: a table of the best settings with their ε and score, then the paths of all files.

    Args:
        tuning: the task of the search: base scenario, goal, and the data that the search looked at. tuned: the finished
        search, with the trials, the best trial and the files. quiet: whether to print only the paths.
    """
    # the mean score in fresh replicates, which the search did not look at
    fresh = mean_interval([tuning.truth.measured(row).score for row in tuned.best.fresh])
    following = Verbatim(f"next: p2p-sim run {tuned.files[-1]}   p2p-sim plot {tuned.directory}")
    before, after = ([], []) if quiet else ([_table(tuning, tuned, fresh)], [following])
    return Output(_record(tuning, tuned, fresh), [*before, *tuned.files, *after])


def _table(tuning: Tuning, tuned: Tuned, fresh: Mean) -> Table:
    best, counts = tuned.best, Counter(trial.state for trial in tuned.trials)
    row, column = best.row, tuning.goal.column
    interval = "" if math.isnan(fresh.low) else f" [{fresh.low:.4f}, {fresh.high:.4f}]"
    runs = (
        ("goal", str(tuning.goal)),
        ("look", f"{tuning.look}: {COSTS[tuning.look]}"),
        ("trials", ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))),
    )
    settings = [(key, str(value)) for key, value in best.trial.settings.items()]
    settings += _parameters(best.fresh, tuning.base.mechanism.columns)
    # the goal does not limit the ε against the learner together with a coalition
    epsilons, with_coalition = [row["epsilon_coalition_upper"] for row in best.fresh], []
    if None not in epsilons:
        most = f"{bound_text(max(map(float, epsilons)), up=True)} in fresh replicates; the goal does not limit it"
        with_coalition = [("  with the coalition", most)]
    # the name of the score that the search looked at
    scores = {"curator": "accuracy by a private score", "released": f"{column} by released labels"}
    judged = scores.get(tuning.look, column)
    protected = f"one user's {row['adjacency']}{UNPAID * (tuning.look == 'oracle')}"
    if math.isinf(best.epsilon):
        protected = f"nothing: no finite ε is known for one user's {row['adjacency']}"
    figures = (
        (f"{judged} in the search", f"{best.score:.4f}, optimistic: it is the best of many"),
        (f"{column} in fresh replicates", f"{fresh.value:.4f}{interval}, {count(fresh.replicates, 'replicate')}"),
        (
            "ε",
            f"{bound_text(best.epsilon, up=True)} at δ = {row['delta']:g}, against the {row['observer']}, "
            "worst replicate",
        ),
        *with_coalition,
        ("ε protects", protected),
    )
    title = f"{tuning.base.name}: {len(tuned.trials)} trials, best: trial {best.trial.number}"
    return two_columns(title, runs, settings, figures)


def _parameters(fresh: Sequence[Row], columns: Iterable[Column]) -> list[Line]:
    """Lines with the mechanism's parameters, such as α and θ, in fresh replicates. These are random repetitions of the
    best settings that the search did not look at. If a parameter depends on each replicate's clusters, the line gives a
    range.

    Args:
        fresh: the results of these replicates, one row each. columns: the parameters; a parameter without a value in
        some replicate is left out.
    """
    lines = []
    for column in columns:
        values = pd.Series([row[column.name] for row in fresh])
        if values.notna().all():
            varies = ", by the clusters of each replicate" * (values.nunique() > 1)
            lines.append((str(column), span(values.astype(float)) + varies))
    return lines


def _record(tuning: Tuning, tuned: Tuned, fresh: Mean) -> dict[str, Any]:
    best = tuned.best
    # score_in_search is optimistic, as the best of many scores; `score` comes from fresh replicates
    return {
        "name": tuning.base.name,
        "directory": str(tuned.directory),
        **tuning.described,
        "choice_counted": tuning.look != "oracle",
        "trials": len(tuned.trials),
        "trial": best.trial.number,
        "settings": best.trial.settings,
        "score_in_search": best.score,
        "score": fresh.value,
        "score_low": None if math.isnan(fresh.low) else fresh.low,
        "score_high": None if math.isnan(fresh.high) else fresh.high,
        **{name: best.row[name] for name in ("observer", "adjacency", "basis", "delta")},
        "epsilon_upper": best.epsilon,
        "files": [str(path) for path in tuned.files],
    }
