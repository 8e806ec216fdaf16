"""The last group of a run's summary: how useful the learned model is."""

from typing import Any

from p2p_sim.cli.printing.numbers import Line
from p2p_sim.measures import ERROR, LOSS, Mean, excess_error, group_means, groups_of, mean_interval, means


def useful(rows: Any) -> list[Line]:
    """Lines on how useful the learned model is: its accuracy or risk, next to the same learner without privacy and a
    constant prediction. Other lines say how much adversaries raise the error, and how much accuracy each group of users
    loses to privacy.

    rows: a data frame with a run's results, a row for each replicate.
    """
    # what adversaries add to the learner's loss
    damage = _measured_lines(
        means(rows),
        ("damage_error_rate", "damage by adversaries, error rate"),
        ("damage_excess_risk", "  excess risk, nats"),
    )
    return [*_utility(rows), *damage, *_groups(rows)]


def _utility(rows: Any) -> list[Line]:
    values, paired = means(rows), excess_error(rows)
    exact = "excess_risk" in values  # the distribution of labels is known, and the values are expectations
    if "squared_error" in values:
        return _squared(values, exact)
    if "cells" in values and rows["error_rate"].isna().all():
        return _density(values)
    lines = [("accuracy, exact" if exact else "accuracy on rows held out", _accuracy(rows["error_rate"]))]
    if paired is not None:
        lines += [
            ("  the same learner without privacy", _accuracy(rows["nonprivate_error_rate"])),
            ("  accuracy lost to privacy", str(paired)),
        ]
    if "majority_error_rate" in values:
        lines.append(("  always the majority's label", _accuracy(rows["majority_error_rate"])))
    if "auc" in values and (rows["adjacency"] == "example").all():  # only where whole examples are protected
        lines.append(("area under the ROC curve, AUC", str(values["auc"])))
    risk = "excess risk, 0-1 loss" if (rows["excess_risk_loss"] == "zero_one").all() else "excess risk, nats"
    return [*lines, *_excess_risk(values, risk)]


def _excess_risk(values: dict[str, Mean], heading: str) -> list[Line]:
    """Lines with the mean excess risk of the learner, of the same learner without privacy, and of the best constant
    prediction. Excess risk is a model's expected loss minus the expected loss of the best model of the learner's class.
    A line without a mean in `values` is left out.

    Args:
        values: means over replicates, by column of the results. heading: the text of the first line.
    """
    return _measured_lines(
        values,
        ("excess_risk", heading),
        ("nonprivate_excess_risk", "  the same learner without privacy"),
        ("constant_excess_risk", "  best constant"),
    )


def _measured_lines(values: dict[str, Mean], *texts: tuple[str, str]) -> list[Line]:
    """Lines (text, mean), one for each pair (column, text) whose column has a mean in `values`."""
    return [(text, str(values[column])) for column, text in texts if column in values]


def _squared(values: dict[str, Mean], exact: bool) -> list[Line]:
    """Lines with squared error and excess risk, for labels that are numbers.

    values: means over replicates, by column of the results. exact: whether the distribution of labels is known, and the
    squared error exact. If not, the error was measured on rows held out.
    """
    lines = _measured_lines(
        values,
        ("squared_error", "squared error, exact" if exact else "squared error on rows held out"),
        ("nonprivate_squared_error", "  the same learner without privacy"),
        ("constant_squared_error", "  of a constant"),
    )
    return [*lines, *_excess_risk(values, "excess risk, squared loss")]


def _density(values: dict[str, Mean]) -> list[Line]:
    """Lines for mechanisms that release noisy counts of users in cells instead of a predictor. The counts estimate the
    density of users. The lines have the distance of this density from the true density, the numbers of cells, and the
    largest error of a count. values: means over replicates, by column of the results.
    """
    return _measured_lines(
        values,
        ("half_l1", "half-L1 distance (exact)"),
        ("nonprivate_half_l1", "  without noise"),
        ("cells", "cells released"),
        ("nonprivate_cells", "  cells with users"),
        ("count_error", "largest error of a count"),
    )


def _accuracy(errors: Any) -> str:
    """The mean accuracy with its 95% interval, as text. errors: the error rate in each replicate."""
    mean = mean_interval(1.0 - errors.astype(float))
    return str(mean if mean.replicates < 2 else mean.within(0.0, 1.0))


def _groups(rows: Any) -> list[Line]:
    """Lines with each group's loss of accuracy to privacy, or with the group's accuracy if the loss is unknown."""
    values, lines = group_means(rows), list[Line]()
    for group in groups_of(rows):
        loss, error = (values.get(group.column(name)) for name in (LOSS, ERROR))
        if loss is not None:
            lines.append((f"loss of accuracy, {group}", str(loss)))
        elif error is not None:
            lines.append((f"accuracy, {group}", _accuracy(rows[group.column(ERROR)])))
    return lines


def measured(rows: Any) -> list[str]:
    """Sentences that say how the values of the summary's last group were measured, and over how many replicates.

    rows: a run's results, a row for each replicate.
    """
    values, replicates = means(rows), len(rows)
    sentences = []
    if rows["error_rate"].notna().all() and "squared_error" not in values:
        where = "under the known distribution of labels" if "excess_risk" in values else "among rows that no user holds"
        sentences.append(f"Accuracy is the share of right predictions {where}.")
    if "nonprivate_error_rate" in values:
        sentences.append("Without privacy, the learner has the true label of every user.")
    if "excess_risk" in values:
        sentences.append("Excess risk: the expected loss minus the expected loss of the best model of the same class.")
    uniform = float(rows["guess_uniform"].astype(float).iloc[0]) if "guess_uniform" in rows else 0.0
    # `uniform`: 1/K for K classes, the accuracy of a random guess; 1e-9 allows for rounding
    if "majority_error_rate" in values and 1.0 - values["majority_error_rate"].value < uniform - 1e-9:
        sentences.append(
            f"The majority's label is the commonest label among the users. Here it is the label of fewer than "
            f"1 in {1.0 / uniform:.0f} rows held out."
        )
    if replicates > 1:
        sentences.append(
            f"Each of these values is a mean over {replicates} replicates, with the 95% interval of this mean."
        )
    return sentences
