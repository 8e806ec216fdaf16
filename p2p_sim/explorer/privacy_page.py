"""The page "How private?": questions from a browser's fields, answered by the code of `p2p-sim privacy`."""

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from p2p_sim.base import InputError, shortened
from p2p_sim.privacy import (
    ADDS_NOTHING,
    Bracket,
    LossLaw,
    Question,
    answer,
    answer_lines,
    answering,
    calibrated,
    calibration_lines,
    check_given,
    cross,
    exposed,
    gain,
    observer_of,
    promises,
    protects,
    whole,
)
from p2p_sim.privacy.questions import advantage
from p2p_sim.report import toml

Fields = Mapping[str, str]
Options = list[tuple[str, Any]]
"""Options of a command with their values; an option with value None is left out."""
NumberT = TypeVar("NumberT", int, float)
CURVE_POINTS = 81
FEW, FEWER, MANY = 6, 13, 33
"""Number of values of ε for a trade-off curve. `FEW`: a coalition, two classes. `FEWER`: more than two classes, or
another observer over several rounds. `MANY`: all other questions. With fresh noise in several rounds, a curve has
two values instead."""
LEAST_DELTA = 1e-4
"""A trade-off curve uses values of ε up to the ε for this δ. A larger δ in the question replaces this δ."""
LARGEST_SCENARIO, LARGEST_WITH_COALITION = 10_000_000, 100_000
"""Largest number of users of an offered scenario, without and with a coalition. A coalition needs the event engine."""
COLUMNS = {"learner": "epsilon_upper", "coalition": "epsilon_coalition_upper", "eavesdropper": "epsilon_local"}
"""For an observer, the results column with the observer's ε after an exchange without faults."""


def privacy_answer(fields: Fields) -> dict[str, Any]:
    """The page's answer to a question about a label exchange: an observer's ε at a given δ, or δ at a given ε. The
    answer has all that `p2p-sim privacy` prints, except the observer's gain in guessing a label.

    Args:
        fields: texts from the browser, by name. An empty field gets the command's default. The fields are cluster_size,
        flip_prob (α), sampling_rate (θ), num_classes, observer, and delta or epsilon. Further fields are members
        (number of users of a coalition), rounds (number of exchanges) and fresh ("1": new noise in every round).

    Returns:
        lines: the printed table. figures: bounds of ε and δ as numbers, None where unknown. beware: a warning if the
        observer is a peer or a coalition and δ is large; else empty. protects: what is protected from whom, if the
        conditions hold. conditions: these conditions, as sentences. command: the command line `p2p-sim privacy` for
        this question. scenario: a scenario file with such a cluster as TOML text; empty if there is none. column: the
        column with this observer's ε in the results of that scenario; empty if there is none.

    Raises:
        InputError: a field is no number, out of its range, or missing.
    """
    question, delta, epsilon = _question(fields), _number(fields, "delta", float), _number(fields, "epsilon", float)
    figures = answer(question, delta, epsilon)
    bound = figures.bound
    # a question that states ε and asks for δ has no δ of its own; the scenario then gets δ = 1e-5
    return {
        "lines": answer_lines(question, figures),
        "figures": {
            **whole(bound),
            "delta_lower": figures.delta_lower,
            "delta_upper": figures.delta_upper,
            "epsilon_local": figures.local,
            "epsilon_paper_lemma9": figures.lemma9.epsilon,
        },
        "beware": exposed(question.observer, question.cluster_size, delta, (question.members or 1) * question.rounds),
        "protects": protects(bound),
        "conditions": [str(condition) for condition in bound.conditions if promises(bound)],
        "command": command(question, delta, epsilon),
        "scenario": scenario(question, delta or 1e-5),
        "column": COLUMNS.get(question.observer, ""),
    }


def curve(fields: Fields) -> dict[str, Any]:
    """The trade-off curve of an observer who tests one value of a user's label against another. The result also has the
    observer's gain in guessing the label.

    Args:
        fields: texts by name, as in `privacy_answer`.

    Returns:
        type_one, type_two: lists of equal length. At each type I error, type_two has a lower bound of the type II error
        of every such test. advantage_uniform: an upper bound of what the observer gains in the probability of a right
        guess. All labels are equally likely before. gain: this upper bound as a sentence about 100 labels.

    Raises:
        InputError: a field is no number, out of its range, or missing.
    """
    question, delta, epsilon = _question(fields), _number(fields, "delta", float), _number(fields, "epsilon", float)
    type_one = np.linspace(0.0, 1.0, CURVE_POINTS)
    with answering():
        # upper bounds of δ at some values of ε give the curve; the true curve lies on it or above
        profile = _profile(question, delta, epsilon)
        grid = np.linspace(0.0, min(max(profile.largest, 1e-3), 30.0), profile.points).tolist()
        type_two = LossLaw.of(grid, [bracket.upper for bracket in profile.delta(grid)]).tradeoff(type_one)
    more_often = advantage(question, delta, epsilon)
    return {
        "advantage_uniform": more_often,
        "gain": gain(question, more_often),
        "type_one": type_one.tolist(),
        "type_two": type_two.tolist(),
    }


class Profile(NamedTuple):
    """δ as a function of ε. delta: gives lower and upper bounds of δ at some values of ε. largest: the largest ε at
    which a curve needs δ. points: how many values of ε a curve needs.
    """

    delta: Callable[[Sequence[float]], Sequence[Bracket]]
    largest: float
    points: int


def _profile(question: Question, delta: float | None, epsilon: float | None) -> Profile:
    """The observer's δ as a function of ε, for a trade-off curve. The values of ε end at the ε for δ = 1e-4, or for the
    question's δ if it is larger. With fresh noise in several rounds, δ is known only at the ε that answers the
    question. This ε is then the largest; at smaller ε, δ counts as 1.

    Args:
        question: the exchange and the observer. delta, epsilon: what the question asks about; one of the two is None.
    """
    if question.fresh and question.rounds > 1:
        # for rounds with fresh noise, δ is known at one ε only; at smaller ε, δ counts as 1
        bound = answer(question, delta, epsilon).bound
        top = bound.epsilon_upper
        return Profile(lambda grid: [Bracket(0.0, bound.delta if e >= top else 1.0) for e in grid], top, 2)
    check_given(question, delta, epsilon)
    observer = observer_of(question)
    delta = max(delta or 0.0, LEAST_DELTA)
    if question.num_classes > 2:  # lower bounds take long, and a curve needs none
        _, largest = cross(lambda e: not observer.satisfies(e, delta), question.flip_prob, 0.02, question.num_classes)
        return Profile(lambda grid: [Bracket(0.0, observer.certified_delta(e)) for e in grid], largest, FEWER)
    largest = observer.epsilon(delta).epsilon_upper
    points = FEW if question.observer == "coalition" else FEWER if question.rounds > 1 else MANY
    return Profile(observer.profile, largest if math.isfinite(largest) else 0.0, points)


def needed(fields: Fields) -> dict[str, Any]:
    """The smallest flip probability that certifies a target, as `p2p-sim calibrate` computes it.

    Args:
        fields: texts by name: cluster_size, sampling_rate (θ), num_classes, epsilon, delta, observer and members (of a
        coalition).

    Returns:
        asked: the question in words. flip_prob: α. lines: the table that the command prints. note: warnings. command: a
        command line.

    Raises:
        InputError: a field is no number, out of its range, or missing.
    """
    number, stated = _number(fields, "cluster_size", int), _number(fields, "num_classes", int)
    theta, target, at = (_number(fields, name, float) for name in ("sampling_rate", "epsilon", "delta"))
    observer, members = fields.get("observer") or "learner", _number(fields, "members", int)
    classes = 2 if stated is None else stated
    # from here on, an empty required field raises an error
    size, epsilon, delta = _present(number, "cluster-size"), _present(target, "epsilon"), _present(at, "delta")
    members = members if observer == "coalition" else None
    calibration = calibrated([size], classes, theta, epsilon=epsilon, delta=delta, observer=observer, members=members)
    options: Options = [
        ("cluster-size", size),
        ("epsilon", epsilon),
        ("delta", delta),
        ("sampling-rate", theta),
        ("observer", None if observer == "learner" else observer),
        ("members", members),
        ("num-classes", None if classes == 2 else classes),
    ]
    beware = exposed(observer, size, delta, members or 1)
    question = f"n = {size:,}, {observer}" + (f" of {members} members" if members is not None else "")
    rate = calibration.sampling_rate
    return {
        "asked": f"For {question}, {'any θ' if rate is None else f'θ = {rate:g}'}, K = {classes}, δ = {delta:g}.",
        "flip_prob": calibration.flip_prob,
        "lines": calibration_lines(calibration),
        "note": " ".join(filter(None, [ADDS_NOTHING * calibration.noise_alone, beware])),
        "command": _command("calibrate", options),
    }


def command(question: Question, delta: float | None, epsilon: float | None) -> str:
    """The command line of `p2p-sim privacy` that answers a question. Except for θ, options with default values are
    left out. Either `delta` or `epsilon` is None.
    """
    options: Options = [
        ("cluster-size", question.cluster_size),
        ("flip-prob", question.flip_prob),
        ("sampling-rate", question.sampling_rate),
        ("delta", delta),
        ("epsilon", epsilon),
        ("observer", None if question.observer == "learner" else question.observer),
        ("members", question.members),
        ("rounds", None if question.rounds == 1 else question.rounds),
        ("num-classes", None if question.num_classes == 2 else question.num_classes),
    ]
    return _command("privacy", options) + " --fresh" * question.fresh


def _command(name: str, options: Options) -> str:
    """The command line `p2p-sim NAME` with the options that have a value."""
    words = (f"--{option} {shlex.quote(str(value))}" for option, value in options if value is not None)
    return " ".join(["p2p-sim", name, *words])


def scenario(question: Question, delta: float) -> str:
    """The text of a scenario file that runs the question's exchange in a single cluster, at a given δ. The results then
    contain the observer's ε. A coalition is drawn at random; its ε in the results may differ in the last digits.

    The text is empty for more than two classes, for several rounds, and if tables of results lack the observer's ε. An
    unknown or too large number of users also gives an empty text.
    """
    size, members = question.cluster_size, question.members
    largest = LARGEST_SCENARIO if members is None else LARGEST_WITH_COALITION
    if (
        size is None
        or size > largest
        or (question.num_classes, question.rounds) != (2, 1)
        or question.observer not in COLUMNS
    ):
        return ""
    # a coalition needs the event engine, which records what its members fetched
    tree: dict[str, Any] = {
        "name": "explored",
        "replicates": 10,
        "engine": "vectorised" if members is None else "events",
        "population": {"kind": "synthetic", "users": size, "num_clusters": 1},
        "mechanism": {
            "kind": "label_exchange",
            "flip_prob": question.flip_prob,
            "sampling_rate": question.sampling_rate,
        },
        "privacy": {"delta": delta},
    }
    if members is not None:
        tree["adversaries"] = {"coalition": {"share": members / size}}
    return toml(tree)


def _question(fields: Fields) -> Question:
    """The question that a browser's fields (texts) describe. An empty field gets the default of `p2p-sim privacy`."""
    observer = fields.get("observer") or "learner"
    flip_prob, rate = _number(fields, "flip_prob", float), _number(fields, "sampling_rate", float)
    flip_prob = _present(flip_prob, "flip-prob")
    rounds, classes = _number(fields, "rounds", int), _number(fields, "num_classes", int)
    return Question(
        _number(fields, "cluster_size", int),
        flip_prob,
        1.0 if rate is None else rate,
        observer,
        _number(fields, "members", int) if observer == "coalition" else None,
        rounds=1 if rounds is None else rounds,
        fresh=fields.get("fresh") == "1",
        num_classes=2 if classes is None else classes,
    )


def _present(number: NumberT | None, option: str) -> NumberT:
    """The number itself. None means that the field was empty; an InputError then names the missing option."""
    if number is None:
        raise InputError(f"--{option}: is missing")
    return number


def _number(fields: Fields, name: str, kind: type[NumberT]) -> NumberT | None:
    """The number in the field `name`, a whole number if `kind` is int; None if the field is empty."""
    text = fields.get(name, "").strip()
    try:
        return kind(text) if text else None
    except ValueError:
        allowed = "a whole number" if kind is int else "a number"
        raise InputError(f"--{name.replace('_', '-')} {shortened(text)}: must be {allowed}") from None
