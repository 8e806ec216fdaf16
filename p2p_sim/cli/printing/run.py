"""What `p2p-sim run` shows: the summary table, JSON."""

import math
import warnings
from pathlib import Path
from typing import Any

from p2p_sim import Scenario
from p2p_sim.analysis.privacy.statement.in_words import promise
from p2p_sim.analysis.privacy.statement.record import Terms, statement_of
from p2p_sim.analysis.utility.baseline import warnings_of
from p2p_sim.analysis.utility.groups import ERROR, LOSS, groups_of
from p2p_sim.analysis.utility.guessing import sentences
from p2p_sim.analysis.utility.intervals import Mean
from p2p_sim.analysis.utility.little import adds_little
from p2p_sim.analysis.utility.summary import excess_error, group_means, means, summarise, worst_epsilons
from p2p_sim.base.plugins import MECHANISMS, offer_of
from p2p_sim.cli.printing.values import (
    ODDITIES,
    Line,
    at_least,
    at_most,
    print_conditions,
    print_object,
    print_table,
    say,
    warn_of_oddities,
    worst_row,
)
from p2p_sim.storage.rows import MANIFEST, ROWS, TABLE
from p2p_sim.sweeps.point import FIGURE, Finished

PARAMETER_TEXTS = {
    "flip_prob": "flip probability α",
    "sampling_rate": "sampling rate θ",
    "resampling_prob": "resampling probability λ",
    "noise_scale": "noise scale σ",
    "threshold": "threshold τ",
    "bias_correction": "bias correction β",
    "noise_multiplier": "noise multiplier",
    "bit_flip_prob": "flip probability of a bit",
    "stages": "stages",
}
PRINTED = (
    ("epsilon_paper", "  as the paper prints it"),
    ("epsilon_paper_lemma9", "  the paper's Lemma 9"),
    ("epsilon_paper_theorem3", "  the paper's Theorem 3"),
    ("epsilon_local", "  noisy label alone, ε₀"),
)
TRUSTED = {
    "nobody": "",
    "shuffler": "The shuffler, who sees each noisy label with its owner, must be trusted. ",
    "curator": "The curator, who holds all true labels, must be trusted. ",
    "organisation": "The organisation that holds a row must be trusted with it. ",
}
"""What the learner's figure takes for granted, by whom a mechanism trusts."""


def print_summary(scenario: Scenario, finished: Finished, written: list[tuple[Path, int]], quiet: bool) -> None:
    """A table of what was found, then the paths of everything that was written; the paths alone if `quiet`."""
    if not quiet:
        _print_found(scenario, finished)
    for name in (ROWS, TABLE, MANIFEST, FIGURE):
        print(finished.directory / name)
    for path, lines in written:
        print(path if quiet else f"{path} ({lines} lines)")


def _print_found(scenario: Scenario, finished: Finished) -> None:
    """A table of what was found, and what it means."""
    rows = finished.rows
    found = [
        *_setting(scenario, rows),
        *_privacy(rows, finished.terms),
        *_organisations(rows),
        *_utility(rows),
        *_groups(rows),
        *_network(rows),
    ]
    more = f" ({finished.more:,} more on disk)" if finished.more else ""
    print_table(f"{scenario.name}: {len(rows)} replicate{'s' * (len(rows) != 1)}{more}", found)
    for warning in warnings_of(rows):
        warnings.warn(warning, stacklevel=2)
    warn_of_oddities({column: _range(rows[column]) for column in ODDITIES if rows[column].max() > 0})
    say(*_statement(rows).split("\n"), *sentences(rows))
    if rows["mechanism_kind"].iloc[0] == "label_exchange":
        said = adds_little(float(rows["epsilon_upper"].max()), float(rows["epsilon_local"].max()))
        if said:
            say(said)
    if (bound := statement_of(worst_row(rows), finished.terms, "epsilon_upper")) is not None:
        print_conditions(bound)
    else:
        say("The conditions of these figures were not kept: run again into another directory to keep them.")
    if (claimed_by := offer_of(MECHANISMS, scenario.mechanism.kind)) is not None:
        say(f"Every ε here is what the plug-in {claimed_by} claims; p2p-sim has not checked it.")


def _statement(rows: Any) -> str:
    """What the learner's figure means, and whom else one must think of: each with the figure of what she sees."""
    first, worst, delta = rows.iloc[0], worst_epsilons(rows), float(rows["delta"].iloc[0])
    protected = {"label": "any one user's label", "example": "any one row, features and label,"}[first["adjacency"]]
    learner = float("inf") if worst["epsilon_upper"] is None else worst["epsilon_upper"]
    simulated = "The noise is simulated; it protects nobody's real data."
    if rows["oracle"].any():
        simulated = f"The mechanism was told φ by an oracle, which ε does not account for. {simulated}"
    if first["mechanism_kind"] != "label_exchange":
        says = promise("Whoever learns from the release", protected, learner, delta)
        return f"{says}\n{TRUSTED[first['trust']]}{simulated}"
    said = [promise("Whoever sees the set of submissions", protected, learner, delta)]
    times, coalition = worst["epsilon_times_upper"], worst["epsilon_coalition_upper"]
    if times is not None and times > learner:
        said.append(promise("Whoever also sees when each of them came", protected, times, delta))
    if coalition is not None:
        members = _range(rows["coalition_members"])
        another = protected.replace("any one", "any other")
        said.append(promise(f"The learner together with the coalition ({members} members)", another, coalition, delta))
    local = float(rows["epsilon_local"].max())
    alone = f"ε = {at_most(local)}" if math.isfinite(local) else "they are the true ones, and nothing protects them"
    return "\n".join([*said, f"Peers and eavesdroppers see single noisy labels: {alone}. {simulated}"])


def _setting(scenario: Scenario, rows: Any) -> list[Line]:
    first, phi = rows.iloc[0], means(rows)["heterogeneity"]
    shortfall = scenario.clusters.shortfall(int(rows["num_clusters"].min()))
    return [
        ("users, clusters", f"{_range(rows['num_users'])} users in {_range(rows['num_clusters'])} clusters"),
        *([("  clusters", shortfall)] if shortfall else ()),
        ("smallest cluster s", _range(rows["min_cluster_size"])),
        ("heterogeneity φ", f"{phi.value:.4g} ({first['heterogeneity_basis']})"),
        *[(text, _range(rows[name])) for name, text in PARAMETER_TEXTS.items() if rows[name].notna().all()],
    ]


def _privacy(rows: Any, terms: Terms) -> list[Line]:
    first, worst = rows.iloc[0], worst_epsilons(rows)
    lower, upper = worst["epsilon_lower"], worst["epsilon_upper"]
    assert lower is not None
    basis = rows.loc[rows["epsilon_upper"].astype(float).idxmax(), "basis"]
    return [
        (f"ε, learner, at δ = {first['delta']:g}", f"{at_most(upper)}  (worst cluster; {basis})"),
        *_observers(rows, worst),
        ("  no smaller ε holds than", at_least(lower)),
        *_printed(worst, terms),
    ]


def _printed(worst: dict[str, float | None], terms: Terms) -> list[Line]:
    """What the papers print for a mechanism, or why it does not apply, and what the noise on a label is worth."""
    lines = []
    for name, text in PRINTED:
        fails = terms.get(name, {}).get("not_applicable")
        if fails is not None:
            lines.append((text, f"not applicable: {fails['text']}"))
        elif worst[name] is not None:
            lines.append((text, at_most(worst[name])))
    return lines


def _observers(rows: Any, worst: dict[str, float | None]) -> list[Line]:
    """What others than a learner who sees a set of submissions can tell, where a network was simulated."""
    if worst["epsilon_others_upper"] is None:
        return []
    lines = []
    if "epsilon_sample_upper" in rows and rows["epsilon_sample_upper"].notna().any():
        lines.append(("  largest of a sample of users", at_most(float(rows["epsilon_sample_upper"].max()))))
    if rows["own_labels"].sum() > 0:
        others, fell_back = at_most(worst["epsilon_others_upper"]), _range(rows["own_labels"])
        lines.append(("  users who did not fall back", f"{others}  ({fell_back} fell back)"))
    lines.append(("  learner sees arrival times", at_most(worst["epsilon_times_upper"])))
    if worst["epsilon_coalition_upper"] is not None:
        members = _range(rows["coalition_members"])
        lines.append(("  with a coalition", f"{at_most(worst['epsilon_coalition_upper'])}  ({members} members)"))
    if worst["epsilon_unmet_upper"] is not None:
        chance = f"(all but a share {at_most(worst['coalition_meets'])})"
        lines.append(("    who fetched no such label", f"{at_most(worst['epsilon_unmet_upper'])}  {chance}"))
    return lines


def _organisations(rows: Any) -> list[Line]:
    """The ledger of the first replicate, where organisations exchange models."""
    if "epsilon_by_organisation" not in rows or rows["epsilon_by_organisation"].isna().any():
        return []
    first, arrived = rows.iloc[0], rows["models_arrived"].astype(int)
    if first["num_clusters"] == 1:  # nobody to exchange models with
        return []
    return [
        ("  by organisation, replicate 0", first["epsilon_by_organisation"]),
        ("  shown to", first["shown_by_organisation"]),
        ("models in time, by organisation", first["arrived_by_organisation"]),
        ("  all organisations", _range(arrived)),
    ]


def _network(rows: Any) -> list[Line]:
    """What happened to messages."""
    values = means(rows)
    if "completion_time_s" not in values:
        return []
    asked, answered = rows["fetches"].sum(), rows["answered"].sum()
    if asked == 0:  # nobody to ask, as where one organisation is alone
        return []
    lines = [("requests answered", f"{answered / max(asked, 1):.2%} of {asked:,d}, all replicates")]
    if asked > answered:
        why = ": request and reply can each be lost" if rows["messages_lost"].sum() > 0 else ""
        lines.append(("  not answered", f"{asked - answered:,d} ({(asked - answered) / asked:.1%}){why}"))
    if "effective_sampling_rate" in values:
        theta = rows["sampling_rate"].iloc[0]
        lines.insert(0, ("effective sampling rate", f"{values['effective_sampling_rate']}  (θ = {theta:g})"))
    if "arrival_p99_s" in values:
        half, most = values["arrival_p50_s"], values["arrival_p99_s"]
        what = "submissions" if "effective_sampling_rate" in values else "models"
        lines.append((f"half, 99% of {what} in after", f"{half.value:.3g} s, {most.value:.3g} s"))
    if "damage_error_rate" in values:
        lines.append(("damage by adversaries, error rate", str(values["damage_error_rate"])))
    if "damage_excess_risk" in values:
        lines.append(("  excess risk, nats", str(values["damage_excess_risk"])))
    return lines


def _utility(rows: Any) -> list[Line]:
    values, paired = means(rows), excess_error(rows)
    exact, zero_one = "excess_risk" in values, (rows["excess_risk_loss"] == "zero_one").all()
    if "squared_error" in values:
        return _squared(values, exact)
    if "cells" in values and rows["error_rate"].isna().all():
        return _density(values)
    lines = [("accuracy (exact)" if exact else "accuracy on holdout", _accuracy(rows["error_rate"]))]
    if paired is not None:
        lines.append(("  without privacy", _accuracy(rows["nonprivate_error_rate"])))
        lines.append(("  paired loss of accuracy", str(paired)))
    if "majority_error_rate" in values:
        lines.append(("  of the majority class", _accuracy(rows["majority_error_rate"])))
    if "auc" in values and (rows["adjacency"] == "example").all():  # the measure of those who release models
        lines.append(("area under the ROC curve, AUC", str(values["auc"])))
    if exact:
        lines.append(("excess risk, 0-1 loss" if zero_one else "excess risk, nats", str(values["excess_risk"])))
    if "nonprivate_excess_risk" in values:
        lines.append(("  without privacy", str(values["nonprivate_excess_risk"])))
    if "constant_excess_risk" in values:
        lines.append(("  best constant", str(values["constant_excess_risk"])))
    return lines


def _squared(values: dict[str, Mean], exact: bool) -> list[Line]:
    """Of labels that are numbers."""
    lines = [("squared error (exact)" if exact else "squared error on holdout", str(values["squared_error"]))]
    lines.append(("  without privacy", str(values["nonprivate_squared_error"])))
    lines.append(("  of a constant", str(values["constant_squared_error"])))
    if exact:
        lines.append(("excess risk, squared loss", str(values["excess_risk"])))
        lines.append(("  without privacy", str(values["nonprivate_excess_risk"])))
        lines.append(("  best constant", str(values["constant_excess_risk"])))
    return lines


def _density(values: dict[str, Mean]) -> list[Line]:
    """Of a density, which predicts nothing."""
    shown = (
        ("half_l1", "half-L1 distance (exact)"),
        ("nonprivate_half_l1", "  without noise"),
        ("cells", "cells released"),
        ("nonprivate_cells", "  that hold users"),
        ("count_error", "largest error of a count"),
    )
    return [(text, str(values[column])) for column, text in shown if column in values]


def _groups(rows: Any) -> list[Line]:
    """What each group loses to privacy, or its accuracy where nothing was learned without privacy."""
    values, lines = group_means(rows), list[Line]()
    for group in groups_of(rows):
        loss, error = (values.get(group.column(name)) for name in (LOSS, ERROR))
        if loss is not None:
            lines.append((f"loss of accuracy, {group}", str(loss)))
        elif error is not None:
            lines.append((f"accuracy, {group}", _accuracy(rows[group.column(ERROR)])))
    return lines


def _accuracy(errors: Any) -> str:
    from p2p_sim.analysis.utility.intervals import mean_interval

    found = mean_interval(1.0 - errors.astype(float))
    return str(found if found.replicates < 2 else found.within(0.0, 1.0))


def _range(values: Any) -> str:
    low, high = values.min(), values.max()
    form = ",d" if values.dtype.kind == "i" else ".4g"
    return f"{low:{form}}" if low == high else f"{low:{form}} to {high:{form}}"


def print_json(scenario: Scenario, finished: Finished) -> None:
    """One JSON object; an infinite ε is the string "inf"."""
    record = {"name": scenario.name, "directory": str(finished.directory), **summarise(finished.rows)}
    record["more_on_disk"] = finished.more
    record["statements"] = finished.terms
    print_object(record)
