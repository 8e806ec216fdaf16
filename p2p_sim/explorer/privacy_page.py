"""The page "How private?": questions from a browser's fields, answered by the code of `p2p-sim privacy`."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from p2p_sim.base.errors import InputError, shortened
from p2p_sim.privacy.bound import Bracket
from p2p_sim.privacy.conversions import certified_delta
from p2p_sim.privacy.dominating_law import LossLaw
from p2p_sim.privacy.questions import Question, advantage, answer, answering, check_given, observer_of
from p2p_sim.privacy.randomized_response import cross
from p2p_sim.privacy.statement_record import whole
from p2p_sim.privacy.target_questions import calibrated
from p2p_sim.privacy.wording import ADDS_NOTHING, answer_lines, calibration_lines, exposed, gain, promises, protects
from p2p_sim.report.scenario_listing import toml

Fields = Mapping[str, str]
CURVE_POINTS = 81
FEW, FEWER, MANY = 6, 13, 33
"""Values of ε behind a trade-off curve: of a coalition, of several classes or rounds, and of the other observers."""
LEAST_DELTA = 1e-4
"""The largest ε behind a trade-off curve is that of this δ, or of the one that is asked about if that is larger."""
LARGEST_SCENARIO, LARGEST_WITH_COALITION = 10_000_000, 100_000
"""Users of a scenario that is offered, without and with a coalition, which needs the event engine."""
COLUMNS = {"learner": "epsilon_upper", "coalition": "epsilon_coalition_upper", "eavesdropper": "epsilon_local"}
"""Where a row has the ε of an observer, of those whose ε is in a row of the exchange without faults."""


def told(fields: Fields) -> dict[str, Any]:
    """ε at δ, or δ at ε, with all that the command prints but the gain, which is told with the curve.

    Args:
        fields: cluster_size, flip_prob, sampling_rate, observer, members, rounds, fresh, num_classes, and delta or
            epsilon; as text.

    Raises:
        InputError: a field that is no number, or out of its range.
    """
    question, delta, epsilon = _question(fields)
    found = answer(question, delta, epsilon)
    bound = found.bound
    return {
        "lines": answer_lines(question, found),
        "figures": {
            **whole(bound),
            "delta_lower": found.delta_lower,
            "delta_upper": found.delta_upper,
            "epsilon_local": found.local,
            "epsilon_paper_lemma9": found.lemma9.epsilon,
        },
        "beware": exposed(question.observer, question.cluster_size, delta, (question.members or 1) * question.rounds),
        "protects": protects(bound),
        "conditions": [str(condition) for condition in bound.conditions if promises(bound)],
        "command": command(question, delta, epsilon),
        "scenario": scenario(question, delta or 1e-5),
        "column": COLUMNS.get(question.observer, ""),
    }


def curve(fields: Fields) -> dict[str, Any]:
    """The observer's gain in a sentence, and the trade-off curve.

    The curve has, at each type I error, the least type II error of any test of one label against another.

    Raises:
        InputError: as `told`.
    """
    question, delta, epsilon = _question(fields)
    type_one = np.linspace(0.0, 1.0, CURVE_POINTS)
    with answering():
        profile, largest, points = _profile(question, delta, epsilon)
        grid = np.linspace(0.0, min(max(largest, 1e-3), 30.0), points).tolist()
        type_two = LossLaw.of(grid, [bracket.upper for bracket in profile(grid)]).tradeoff(type_one)
    more_often = advantage(question, delta, epsilon)
    return {
        "advantage_uniform": more_often,
        "gain": gain(question, more_often),
        "type_one": type_one.tolist(),
        "type_two": type_two.tolist(),
    }


def _profile(
    question: Question, delta: float | None, epsilon: float | None
) -> tuple[Callable[[Sequence[float]], Sequence[Bracket]], float, int]:
    """δ(ε), the largest ε that is worth asking for, and at how many ε to ask."""
    if question.fresh and question.rounds > 1:  # the composition is known at this δ alone
        bound = answer(question, delta, epsilon).bound
        top = bound.epsilon_upper
        return lambda grid: [Bracket(0.0, bound.delta if e >= top else 1.0) for e in grid], top, 2
    check_given(question, delta, epsilon)
    observer = observer_of(question)
    delta = max(delta or 0.0, LEAST_DELTA)
    if question.num_classes > 2:  # lower ends take long, and a curve needs none
        missed = lambda e: not observer.satisfies(e, delta)  # noqa: E731
        _, largest = cross(missed, question.flip_prob, 0.02, question.num_classes)
        profile, few = lambda grid: [Bracket(0.0, certified_delta(observer, e)) for e in grid], FEWER
    else:
        largest, profile = observer.epsilon(delta).epsilon_upper, observer.profile
        few = FEW if question.observer == "coalition" else FEWER if question.rounds > 1 else MANY
    return profile, largest if math.isfinite(largest) else 0.0, few


def needed(fields: Fields) -> dict[str, Any]:
    """The smallest flip probability that certifies a target, as `p2p-sim calibrate` finds it.

    Args:
        fields: as of `told`, with both epsilon and delta; flip_prob, rounds and fresh play no part.
    """
    size, classes = _whole(fields, "cluster_size"), _whole(fields, "num_classes") or 2
    theta, epsilon, delta = (_number(fields, name) for name in ("sampling_rate", "epsilon", "delta"))
    observer, members = fields.get("observer", "learner"), _whole(fields, "members")
    for name, value in (("--cluster-size", size), ("--epsilon", epsilon), ("--delta", delta)):
        if value is None:
            raise InputError(f"{name}: is missing")
    assert size is not None and epsilon is not None and delta is not None  # noqa: PT018
    members = members if observer == "coalition" else None
    found = calibrated([size], classes, theta, epsilon=epsilon, delta=delta, observer=observer, members=members)
    options: list[tuple[str, Any]] = [
        ("cluster-size", size),
        ("epsilon", epsilon),
        ("delta", delta),
        ("sampling-rate", theta),
    ]
    options += [("observer", observer)] * (observer != "learner") + [("members", members)] * (members is not None)
    options += [("num-classes", classes)] * (classes != 2)
    asked = f"n = {size:,}, {observer}" + (f" of {members} members" if members is not None else "")
    return {
        "asked": f"For {asked}, θ = {1.0 if theta is None else theta:g}, K = {classes}, δ = {delta:g}.",
        "flip_prob": found.flip_prob,
        "lines": calibration_lines(found),
        "note": " ".join([ADDS_NOTHING] * found.noise_alone + [exposed(observer, size, delta, members or 1)]).strip(),
        "command": _command("calibrate", options),
    }


def command(question: Question, delta: float | None, epsilon: float | None) -> str:
    """The command that prints the same."""
    q = question
    options: list[tuple[str, Any]] = [("cluster-size", q.cluster_size), ("flip-prob", q.flip_prob)]
    options += [("sampling-rate", q.sampling_rate), ("delta", delta), ("epsilon", epsilon)]
    options += [("observer", q.observer)] * (q.observer != "learner") + [("members", q.members)]
    options += [("rounds", q.rounds)] * (q.rounds != 1) + [("num-classes", q.num_classes)] * (q.num_classes != 2)
    return _command("privacy", options) + " --fresh" * q.fresh


def _command(name: str, options: Sequence[tuple[str, Any]]) -> str:
    given = [f"--{option} {shlex.quote(str(value))}" for option, value in options if value is not None]
    return " ".join(["p2p-sim", name, *given])


def scenario(question: Question, delta: float) -> str:
    """A scenario of one such cluster, whose rows have the observer's ε in `COLUMNS`; empty where none says the same.

    A coalition is as many users as were asked about, drawn at random. A row's ε of it is found on a grid of its own and
    may differ in the last digits.
    """
    q = question
    if q.cluster_size is None or q.num_classes != 2 or q.rounds != 1 or q.observer not in COLUMNS:
        return ""
    if q.cluster_size > (LARGEST_SCENARIO if q.members is None else LARGEST_WITH_COALITION):
        return ""
    tree: dict[str, Any] = {
        "name": "explored",
        "replicates": 10,
        "engine": "vectorised" if q.members is None else "events",
        "population": {"kind": "synthetic", "users": q.cluster_size, "num_clusters": 1},
        "mechanism": {"kind": "label_exchange", "flip_prob": q.flip_prob, "sampling_rate": q.sampling_rate},
        "privacy": {"delta": delta},
    }
    if q.members is not None:
        tree["adversaries"] = {"coalition": {"share": q.members / q.cluster_size}}
    return toml(tree)


def _question(fields: Fields) -> tuple[Question, float | None, float | None]:
    """A question with its δ or ε."""
    observer = fields.get("observer") or "learner"
    flip_prob, rate = _number(fields, "flip_prob"), _number(fields, "sampling_rate")
    if flip_prob is None:
        raise InputError("--flip-prob: is missing")
    rounds, classes = _whole(fields, "rounds"), _whole(fields, "num_classes")
    question = Question(
        _whole(fields, "cluster_size"),
        flip_prob,
        1.0 if rate is None else rate,
        observer,
        _whole(fields, "members") if observer == "coalition" else None,
        rounds=1 if rounds is None else rounds,
        fresh=fields.get("fresh") == "1",
        num_classes=2 if classes is None else classes,
    )
    return question, _number(fields, "delta"), _number(fields, "epsilon")


def _number(fields: Fields, name: str) -> float | None:
    """A number; None where nothing is given."""
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--{name.replace('_', '-')} {shortened(text)}: must be a number") from None


def _whole(fields: Fields, name: str) -> int | None:
    """A whole number; None where nothing is given."""
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--{name.replace('_', '-')} {shortened(text)}: must be a whole number") from None
