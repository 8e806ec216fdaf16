"""What `privacy` and `calibrate` show."""

from pathlib import Path

from p2p_sim.analysis.privacy.statement.in_words import SEES, equally_likely, guessed
from p2p_sim.analysis.privacy.statement.record import whole
from p2p_sim.cli.printing.values import at_least, at_most, print_conditions, print_object, print_table, say
from p2p_sim.cli.questions import RATED, Answer, Calibration, Question


def print_privacy(question: Question, found: Answer, as_json: bool) -> None:
    """One statement, with its conditions, beside the local figure and the paper's."""
    bound = found.bound
    if as_json:
        ends = {"delta_lower": found.delta_lower, "delta_upper": found.delta_upper}
        figures = whole(bound) | ({} if found.delta_upper is None else ends)
        print_object({**figures, "epsilon_local": found.local, "epsilon_paper_lemma9": found.lemma9.epsilon,
                      "advantage_uniform": found.advantage})  # fmt: skip
        return
    rate = f", θ = {question.sampling_rate:g}" if bound.observer in RATED else ""
    size = "any size" if question.cluster_size is None else f"{question.cluster_size:,} users"
    exchange = f"{size}, α = {question.flip_prob:g}{rate}"
    lines = [("cluster", exchange), ("observer", _who(bound.observer, question.members))]
    if found.delta_upper is not None:
        lines.append((f"δ at ε = {bound.epsilon_upper:g}, at most", at_most(found.delta_upper)))
        lines.append(("  no smaller δ holds than", at_least(found.delta_lower)))
    else:
        lines.append((f"ε at δ = {bound.delta:g}, at most", at_most(bound.epsilon_upper)))
        lines.append(("  no smaller ε holds than", at_least(bound.epsilon_lower)))
        lines += [("  the paper's Lemma 9", str(found.lemma9))] * (bound.observer == "learner")
    print_table(None, [*lines, ("noisy label alone, ε₀", at_most(found.local)), ("basis", bound.basis)])
    who = SEES[question.observer]
    if question.members is not None:
        who = f"a coalition of {question.members:,} with the learner"
    given = equally_likely(question.num_classes)
    say(guessed(who, 1.0 / question.num_classes, found.advantage, given))
    print_conditions(bound)


def print_calibration(found: Calibration, as_json: bool) -> None:
    """The flip probability for all clusters, and for each size on its own."""
    if as_json:
        figures = {"flip_prob": found.flip_prob, "sampling_rate": found.sampling_rate, "members": found.members}
        each = {str(size): alpha for size, alpha in found.each.items()}
        print_object({**figures, "flip_prob_by_size": each, **whole(found.bound), "epsilon_local": found.local})
        return
    bound, alone = found.bound, found.each if len(found.each) > 1 else {}
    lines = [
        ("flip probability α, all clusters", f"{found.flip_prob}"),
        *((f"  clusters of {size:,} alone", f"{alpha}") for size, alpha in alone.items()),
        ("sampling rate θ", "any" if found.sampling_rate is None else f"{found.sampling_rate:g}"),
        (f"certified ε at δ = {bound.delta:g}", f"{at_most(bound.epsilon_upper)} (target {found.epsilon:g})"),
        ("  noisy label alone, ε₀", at_most(found.local)),
        ("observer", _who(bound.observer, found.members)),
        ("basis", bound.basis),
    ]
    print_table(None, lines)
    if found.noise_alone:
        say(
            "No smaller α of three digits is certified: at this precision the exchange adds nothing to the noise on a "
            "label alone."
        )
    print_conditions(bound)


def print_certified(path: Path, verifier: Path, quiet: bool) -> None:
    """Where a certificate is, and how to prove it again."""
    print(path)
    if not quiet:
        say(f"It is proved. Without p2p-sim: python {verifier} {path}")


def _who(observer: str, members: int | None) -> str:
    """An observer, a coalition with its size."""
    return observer if members is None else f"{observer} of {members:,} with the learner"
