"""The summary that `p2p-sim run` prints: three groups of values with sentences, or one JSON object."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from p2p_sim import Scenario
from p2p_sim.base import MECHANISMS, count, offer_of
from p2p_sim.cli.printing.network_summary import message_lines
from p2p_sim.cli.printing.numbers import (
    ODDITIES,
    Line,
    at_least,
    at_most,
    more_on_disk,
    print_conditions,
    print_object,
    say,
    show,
    span,
    two_columns,
    warn_of_oddities,
    worst_row,
)
from p2p_sim.cli.printing.utility_summary import measured, useful
from p2p_sim.measures import (
    DOMINATED,
    PAID,
    SHARES_KNOWN,
    adds_little,
    adds_nothing,
    means,
    sentences,
    summarise,
    warnings_of,
    worst_epsilons,
)
from p2p_sim.mechanisms import LabelExchangeConfig, ProtocolConfig
from p2p_sim.privacy import DECLARED, Terms, statement_of
from p2p_sim.results import MANIFEST, ROWS, TABLE
from p2p_sim.sweeps import FIGURE, SweepResult

PRINTED = (
    ("epsilon_paper", "  as the paper prints it"),
    ("epsilon_paper_lemma9", "  the paper's Lemma 9"),
    ("epsilon_paper_theorem3", "  the paper's Theorem 3"),
)
BOTH_ENDS = 'The smallest ε that holds lies between the value of "no smaller ε holds than" and the certified ε.'
XI = (
    "In the paper's lemma, s is the number of users of the smallest cluster. δ determines ξ: about the number "
    "of standard deviations by which the count of noisy labels 1 may deviate from its mean."
)
"""Sentences that explain the lower end of ε, and the letters s and ξ in the clustering paper's Lemma 9."""
PROTECTED = {"label": "any one user's label", "example": "any one row (features and label)"}
"""Words for the protected data, by the column `adjacency`: a label, or a whole example."""
LARGEST_EXPONENT = 700.0
"""The largest ε for which e^ε is computed. A float of 64 bits cannot hold the exponential of 710."""
TRUSTED = {
    "nobody": "Nobody must be trusted for that.",
    "shuffler": "The shuffler, who sees each noisy label with its owner, must be trusted for that.",
    "curator": "The curator, who holds all true labels, must be trusted for that.",
    "organisation": "The organisation that holds a row must be trusted with it.",
}
"""A sentence on who must be trusted for the learner's ε, by the value of the column `trust`."""
FLIPPED = "flips her label with probability α, once: that is her noisy label."
RANDOMIZED = "makes a noisy message of her label, once: that is her noisy label."
FETCHED = (
    "She requests the noisy label of a random peer in her cluster. With probability θ she passes this label on to the "
    "learner: that is a submission. The learner knows who sent the submission, but not whose label it is."
)
"""The sentences on what users do in a label exchange."""
SEVERAL = (
    "She requests the noisy labels of {} random peers in her cluster. With probability θ she passes the most frequent "
    "label on to the learner: that is a submission. The learner knows who sent the submission, but not whose labels "
    "she requested."
)
"""The sentences on what users do in a label exchange in which they ask several peers."""


def print_summary(
    scenario: Scenario,
    finished: SweepResult,
    written: list[tuple[Path, int]],
    *,
    quiet: bool,
    verbose: bool,
    rival: Callable[[], str],
) -> None:
    """Print three groups of values: what ran, how private the run is, and how useful. The paths of all written files
    follow.

    Args:
        scenario: what ran. finished: its results. written: exported files with their numbers of lines. quiet: print the
        paths alone. verbose: print all values. rival: returns a command that runs randomised response on the same users
        and compares the results; an empty text if there is no such comparison.
    """
    if not quiet:
        _print_groups(scenario, finished, verbose)
        _print_advice(finished.rows, rival)
        if not verbose:
            say("--verbose shows more: how ε was computed, the papers' bounds, and what happened on the network.")
    print(*(finished.directory / name for name in (ROWS, TABLE, MANIFEST, FIGURE)), sep="\n")
    for path, lines in written:
        print(path if quiet else f"{path} ({count(lines, 'line')})")


def _print_groups(scenario: Scenario, finished: SweepResult, verbose: bool) -> None:
    """Print the three groups, each with the sentences that explain it, in aligned columns."""
    rows, replicates = finished.rows, count(len(finished.rows), "replicate")
    say(f"{scenario.name}: {replicates}, each with fresh random draws{more_on_disk(finished.more)}")
    ran = [*_setting(scenario, rows, verbose), *message_lines(rows, verbose)]
    private = [*privacy_lines(rows, verbose), *_organisations(rows)]
    if verbose:
        private += _computed(rows, finished.terms)
    gained = useful(rows)
    width = max(len(label) for label, _ in (*ran, *private, *gained))
    _print_group("What ran", ran, width, _described(scenario, rows, verbose))
    _print_private(scenario, finished, private, width, verbose=verbose)
    _print_group("How useful, against what", gained, width, measured(rows))
    print()


def _print_private(scenario: Scenario, finished: SweepResult, lines: list[Line], width: int, *, verbose: bool) -> None:
    """Print the group about privacy: values, conditions, and what the values do not cover."""
    bound = statement_of(worst_row(finished.rows), finished.terms, "epsilon_upper")
    # a bound with an infinite ε says itself that nothing is promised
    finite = bound is None or math.isfinite(bound.epsilon_upper)
    _print_group("How private, against whom", lines, width, [meaning(finished.rows)] if finite else [])
    if bound is not None:
        print_conditions(bound)
    else:
        say("The conditions of these values of ε are not on disk: a run into another directory keeps the conditions.")
    if (claimed_by := offer_of(MECHANISMS, scenario.mechanism.kind)) is not None:
        if not isinstance(scenario.mechanism, ProtocolConfig):
            say(f"Every ε here is what the plug-in {claimed_by} claims; p2p-sim has not checked it.")
        elif bound is not None and DECLARED in bound.conditions:
            say(f"The learner's ε rests on what the plug-in {claimed_by} declares; `p2p-sim audit` tests it.")
    if verbose:
        say(BOTH_ENDS, *([XI] if any("ξ" in text for _, text in lines) else ()))
    say(*reservations(finished.rows, verbose))


def _print_group(heading: str, lines: list[Line], width: int, explained: list[str]) -> None:
    """Print a heading, lines of values, and sentences that explain the values. The values' labels fill at least `width`
    characters.
    """
    print()
    say(heading)
    show(two_columns(None, lines, label_width=width))
    say(*explained)


def _print_advice(rows: Any, rival: Callable[[], str]) -> None:
    """Warn of unusual data or overlays (graphs of who may ask whom). For a label exchange, also say if the exchange
    protects labels hardly better than the noise alone. If there is no gain at all, say why randomised response, in
    which users send their noisy labels to the learner themselves, is better. Print the command that compares the two.

    Args:
        rows: a data frame with the run's results, a row for each replicate. rival: returns a command that runs
        randomised response and compares the results; an empty text if there is no such comparison.
    """
    for warning in warnings_of(rows):
        warnings.warn(warning, stacklevel=2)
    warn_of_oddities({column: span(rows[column]) for column in ODDITIES if rows[column].max() > 0})
    if rows["mechanism_kind"].iloc[0] != "label_exchange":
        return
    learner, alone = float(rows["epsilon_upper"].max()), float(rows["epsilon_local"].max())
    say(*filter(None, [adds_little(learner, alone, worst_row(rows)["basis"])]))
    if rows["flip_prob"].notna().all() and adds_nothing(learner, alone):
        say(DOMINATED)
        if command := rival():
            say("This compares the two on your scenario:")
            print(command)  # in one line, to paste
            say(PAID)


def _setting(scenario: Scenario, rows: Any, verbose: bool) -> list[Line]:
    """Lines on users, clusters, mechanism and learner."""
    first, smallest = rows.iloc[0], int(rows["min_cluster_size"].min())
    lines = [
        ("users", span(rows["num_users"])),
        ("clusters of users", f"{span(rows['num_clusters'])}; the smallest has {count(smallest, 'user')}"),
    ]
    if shortfall := scenario.clusters.shortfall(int(rows["num_clusters"].min())):
        lines.append(("  why fewer than requested", shortfall))
    if verbose:
        phi = means(rows)["heterogeneity"].value
        lines.append(("  heterogeneity φ", f"{phi:.4g} ({first['heterogeneity_basis']})"))
    lines.append(("mechanism", str(first["mechanism_kind"])))
    columns = [column for column in scenario.mechanism.columns if rows[column.name].notna().all()]
    lines += [(f"  {column}", span(rows[column.name])) for column in columns]
    return [*lines, *([("learner", str(first["learner"]))] if rows["learner"].notna().all() else ())]


def _described(scenario: Scenario, rows: Any, verbose: bool) -> list[str]:
    """Sentences that explain what ran: what users do in a label exchange and, if `verbose`, what heterogeneity is."""
    lines, first = [], rows.iloc[0]
    if isinstance(scenario.mechanism, LabelExchangeConfig):
        noisy, asking = FLIPPED if rows["flip_prob"].notna().all() else RANDOMIZED, scenario.mechanism.asking
        fetched = SEVERAL.format(" or ".join(str(k) for k, _ in asking.shares)) if asking.several else FETCHED
        lines.append(f"Each {'honest ' * bool(scenario.adversaries.active)}user {noisy} {fetched}")
    if verbose:
        lines.append(
            "Heterogeneity φ: the average distance (L1) between the label probabilities of a user and of her cluster. "
            "φ is 0 if the users of each cluster are alike, and always below 2."
        )
    if verbose and str(first["heterogeneity_basis"]).startswith("estimate"):
        lines.append("Labels alone do not determine φ, so an upper bound of φ was estimated.")
    return lines


def privacy_lines(rows: Any, verbose: bool = True) -> list[Line]:
    """Lines with the ε against each observer, and with what the observer sees.

    rows: a run's results, a row for each replicate. verbose: also list less important values of ε, such as the largest
    ε of a sample of users.
    """
    first, worst = rows.iloc[0], worst_epsilons(rows)
    at = f"at δ = {first['delta']:g}"
    lines = [("what is protected", PROTECTED[first["adjacency"]])]
    if first["mechanism_kind"] != "label_exchange":
        lines.append(("ε, whoever learns from the release", f"{at_most(_finite(worst['epsilon_upper']))} {at}"))
        return [*lines, *_alone(rows, "ε₀, whoever sees one user's message")]
    lines.append(("ε, learner: sees all submissions", f"{at_most(_finite(worst['epsilon_upper']))} {at}"))
    lines += _observers(rows, worst, at, verbose)
    return [*lines, *_alone(rows, "ε₀, peer: sees one noisy label")]


def _alone(rows: Any, who: str) -> list[Line]:
    """A list with one line on ε₀, the largest over all replicates. ε₀ is the ε of a single user's noisy message,
    against an observer who sees the message and knows whose it is. If users send no messages, the list is empty.

    Args:
        rows: the run's results, a row for each replicate, with the column "epsilon_local". who: the text before the
        value, which names ε₀ and the observer, such as "ε₀, peer: sees one noisy label".
    """
    if rows["epsilon_local"].isna().any():
        return []
    local = float(rows["epsilon_local"].max())
    return [(who, at_most(local) if math.isfinite(local) else "∞: a message can give the label away for certain")]


def _finite(value: float | None) -> float:
    """The value, or infinity if it is None."""
    return math.inf if value is None else value


def _observers(rows: Any, worst: dict[str, float | None], at: str, verbose: bool) -> list[Line]:
    """Lines with further values of ε of a label exchange over a simulated network. First comes the largest ε of a
    sample of users. Then comes the ε of users who did not fall back; a user falls back if she gets no reply and submits
    her own label. The last values are against a learner who sees arrival times, and a learner with a coalition of
    users. An unknown ε is left out. Without `verbose`, the sample is left out, and arrival times unless they raise ε.
    Without a simulated network, the list is empty.

    Args:
        rows: the run's results, a row for each replicate. worst: the largest ε over all replicates, by column; None for
        a column without values. at: words that name δ. verbose: whether to add less important lines.
    """
    if worst["epsilon_others_upper"] is None:
        return []
    lines, learner = [], _finite(worst["epsilon_upper"])
    # only for some users: a sample, and the users who did not fall back
    if verbose and "epsilon_sample_upper" in rows and rows["epsilon_sample_upper"].notna().any():
        lines.append(("  largest of a sample of users", at_most(float(rows["epsilon_sample_upper"].max()))))
    if rows["own_labels"].sum() > 0:
        others, fell_back = at_most(worst["epsilon_others_upper"]), span(rows["own_labels"])
        lines.append(("  of users who did not fall back", f"{others} ({fell_back} fell back on their own label)"))
    # without --verbose, list a learner who sees times only if times raise ε
    times = worst["epsilon_times_upper"]
    if times is not None and (verbose or times > learner):
        lines.append(("ε, learner who also sees their times", f"{at_most(times)} {at}"))
    return [*lines, *_coalition(rows, worst, at, verbose)]


def _coalition(rows: Any, worst: dict[str, float | None], at: str, verbose: bool) -> list[Line]:
    """Lines with the ε against the learner together with passive users, if the scenario has such a coalition."""
    lines = []
    if worst["epsilon_coalition_upper"] is not None:
        members = f"{span(rows['coalition_members'])} members"
        if rows["coalition_members"].nunique() == 1:
            members = count(int(rows["coalition_members"].iloc[0]), "member")
        lines.append(("ε, learner with the coalition", f"{at_most(worst['epsilon_coalition_upper'])} {at}, {members}"))
    if worst["epsilon_unmet_upper"] is not None and verbose:
        chance = f"(probability of a fetch: at most {at_most(worst['coalition_meets'])})"
        lines.append(("  users whose label no member fetched", f"{at_most(worst['epsilon_unmet_upper'])}  {chance}"))
    return lines


def _computed(rows: Any, terms: Terms) -> list[Line]:
    """Lines on how the learner's ε was computed, and on a lower bound, below which no ε holds for this mechanism. Then
    come the values of ε that papers state. A curator's algorithm has the ε of its own paper. A label exchange has the ε
    of Lemma 9 and of Theorem 3 of the clustering paper. If a paper's condition fails, the line says so instead.

    Args:
        rows: the run's results, a row for each replicate. terms: the texts for each column with an ε, such as the
        bound's conditions. For a paper's ε, a text may state the condition that fails.
    """
    worst = worst_epsilons(rows)
    lines = [
        ("how ε was computed", str(rows.loc[rows["epsilon_upper"].astype(float).idxmax(), "basis"])),
        ("  no smaller ε holds than", at_least(worst["epsilon_lower"])),
    ]
    for name, text in PRINTED:
        if (fails := terms.get(name, {}).get("not_applicable")) is not None:
            lines.append((text, f"not applicable: {fails['text']}"))
        elif worst[name] is not None:
            lines.append((text, at_most(worst[name])))
    return lines


def meaning(rows: Any) -> str:
    """A sentence that explains the learner's ε by probabilities. If ε is infinite or unknown, the sentence says that
    nothing is protected. rows: a run's results, a row for each replicate.
    """
    first, learner = rows.iloc[0], _finite(worst_epsilons(rows)["epsilon_upper"])
    protected, exchange = PROTECTED[first["adjacency"]], first["mechanism_kind"] == "label_exchange"
    if math.isinf(learner):
        return f"Nothing here protects {protected} from the learner, because no finite ε is known."
    output = "whatever the learner may see" if exchange else "whatever may be released"
    factor = at_most(math.exp(learner)) if learner < LARGEST_EXPONENT else "above 1e+300"
    return (
        f"If {protected} were another, {output} would be at most e^ε = {factor} times as probable, "
        f"plus δ. ε is the largest of all {'clusters and ' * exchange}replicates; a smaller ε is more private."
    )


def reservations(rows: Any, verbose: bool = True) -> list[str]:
    """Sentences on guesses, on observers and on the limits of ε. First comes how many of 100 labels somebody guesses
    right, with and without seeing what users send. Then comes who else sees noisy labels or must be trusted. Last comes
    what ε leaves out.

    Args:
        rows: a data frame with a run's results, a row for each replicate. verbose: also state guesses of somebody who
        knows beforehand how frequent each label is in each cluster. Without it, all labels are equally likely
        beforehand.
    """
    first = rows.iloc[0]
    # who else sees something, or must be trusted
    if first["mechanism_kind"] == "label_exchange":
        sees = "noisy labels with their owners. There only the noise on each label protects, with the ε called ε₀."
        if not math.isfinite(float(rows["epsilon_local"].max())):
            sees = "labels with their owners. These are the true labels, and nothing protects them."
        others = [f"A peer, or an eavesdropper, sees {sees}"]
    else:
        others = [TRUSTED[first["trust"]]]
    if rows["epsilon_coalition_upper"].notna().all():
        others.append("With a coalition, ε protects the labels of users outside it; members know their own labels.")
    if rows["oracle"].any():
        others.append("The mechanism was told φ by an oracle, which ε does not account for.")
    # how often somebody guesses a label right, with what is released and without
    guesses = sentences(rows, verbose)
    if verbose and guesses and SHARES_KNOWN in guesses[-1]:
        guesses.append("In the last of these, somebody knows beforehand how frequent each label is in each cluster.")
    if guesses:
        guesses.append("This holds for every user, even if somebody knows all other labels.")
    return [*guesses, *others, "The noise is simulated; it protects nobody's real data."]


def _organisations(rows: Any) -> list[Line]:
    """Lines for organisations that train models on their own rows and exchange these models. The lines have the ε of
    each organisation's rows in the first replicate, who saw the models, and how many models arrived in time. With one
    or no organisation, the list is empty.
    """
    if "epsilon_by_organisation" not in rows or rows["epsilon_by_organisation"].isna().any():
        return []
    first, arrived = rows.iloc[0], rows["models_arrived"].astype(int)
    if first["num_clusters"] == 1:  # a single organisation exchanges no models
        return []
    return [
        ("  by organisation, replicate 0", first["epsilon_by_organisation"]),
        ("  shown to", first["shown_by_organisation"]),
        ("models in time, by organisation", first["arrived_by_organisation"]),
        ("  all organisations", span(arrived)),
    ]


def print_json(scenario: Scenario, finished: SweepResult) -> None:
    """Print one JSON object of a run's results. An infinite ε is the string "inf"."""
    print_object({
        "name": scenario.name,
        "directory": str(finished.directory),
        **summarise(finished.rows, [column.name for column in scenario.mechanism.columns]),
        "more_on_disk": finished.more,
        "statements": finished.terms,
    })  # fmt: skip
