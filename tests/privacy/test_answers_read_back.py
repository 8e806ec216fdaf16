"""What the command `privacy`, its JSON and the explorer print is read back and held against the accountant."""

import json
import math
import re

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.explorer.privacy_page import privacy_answer
from p2p_sim.privacy.bound import OBSERVERS
from p2p_sim.privacy.questions import Question, observer_of
from p2p_sim.privacy.wording import SEES
from tests.commands import command, unwrapped


def random_questions(count, seed):
    """Questions with their δ or ε: (question, delta, epsilon)."""
    rng, made = np.random.default_rng(seed), 0
    while made < count:
        users = int(rng.integers(2, 60))
        observer = str(rng.choice(OBSERVERS))
        question = Question(
            users,
            float(rng.choice([0.0, 0.05, 0.2, 0.4, 0.5])),
            float(rng.choice([0.1, 0.5, 1.0])),
            observer,
            int(rng.integers(1, users)) if observer == "coalition" else None,
            int(rng.choice([1, 1, 1, 3])),
            False,
            int(rng.choice([2, 2, 2, 3])),
        )
        delta, epsilon = (
            (None, float(rng.uniform(0.0, 3.0))) if rng.random() < 0.3 else (float(rng.choice([1e-9, 1e-5, 0.1])), None)
        )
        try:
            observer_of(question)
        except (InputError, ValueError):  # a combination without a figure
            continue
        made += 1
        yield question, delta, epsilon


def arguments(question, delta, epsilon):
    given = {
        "cluster-size": question.cluster_size, "flip-prob": question.flip_prob, "sampling-rate": question.sampling_rate,
        "observer": question.observer, "members": question.members, "rounds": question.rounds,
        "num-classes": question.num_classes, "delta": delta, "epsilon": epsilon,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def number(text):
    return math.inf if text in ("∞", "inf") else float(text)


def check(text, record, question, truth):
    """Every figure is on the safe side of the accountant's, and every sentence is about its observer.

    truth: (ε, δ), each an upper bound; the one that was asked for is as given.
    """
    epsilon, delta = truth
    assert number(str(record["epsilon_upper"])) == epsilon
    assert record["observer"] == question.observer
    printed = number(re.search(r"(?:ε|δ) at [εδ] = [^,]+, at most +(\S+)", text)[1])
    asked_for_epsilon = record.get("delta_upper") is None
    exact = epsilon if asked_for_epsilon else delta
    assert exact <= printed
    assert math.isinf(printed) == math.isinf(exact)
    assert math.isinf(exact) or printed <= exact * 1.001 + 1e-300
    protects = math.isfinite(epsilon) and delta < 0.5
    count, text = len(re.findall(r"^- ", text, re.M)), unwrapped(text)
    assert (f"from the {question.observer}" in text) or question.observer == "learner-times"
    assert ("It protects one user's label" in text) == protects
    assert ("Nothing here protects" in text) != protects
    assert count == len(record["conditions"]) * protects
    assert all(f"- {condition}" in text for condition in record["conditions"]) or not protects
    who, right, without = re.search(r"Of 100 labels, (.*) guesses at most ([\d.]+) right .* ([\d.]+) \(", text).groups()
    assert who == (
        SEES[question.observer] if question.members is None else f"a coalition of {question.members:,} with the learner"
    )
    chance = 1.0 / question.num_classes
    assert float(right) >= 100.0 * min(1.0, chance + record["advantage_uniform"]) - 1e-6
    assert float(without) <= 100.0 * chance + 1e-6


@pytest.mark.parametrize(("count", "seed"), [(30, 5), pytest.param(500, 6, marks=pytest.mark.slow)])
def test_what_is_printed_of_a_question_is_what_the_accountant_states(count, seed):
    for question, delta, epsilon in random_questions(count, seed):
        given = arguments(question, delta, epsilon)
        options = [part for name, value in given.items() for part in (f"--{name}", value)]
        (status, text, _), (_, out, _) = command("privacy", *options), command("privacy", *options, "--json")
        assert status == 0
        record, accountant = json.loads(out), observer_of(question)
        if epsilon is None:
            truth = (accountant.epsilon(delta).epsilon_upper, delta)
        else:
            truth = (epsilon, accountant.delta(epsilon).upper)
        check(text, record, question, truth)
        page = privacy_answer({name.replace("-", "_"): str(value) for name, value in given.items()})
        assert all(str(value) in unwrapped(text) for _, value in page["lines"])
        assert page["protects"] in unwrapped(text)
        assert len(page["conditions"]) == len(re.findall(r"^- ", text, re.M))
        assert all(f"- {condition}" in unwrapped(text) for condition in page["conditions"])
        assert number(str(page["figures"]["epsilon_upper"])) == truth[0]


def test_a_figure_of_another_observer_is_seen():
    """The planted fault: the learner's answer under the name of a coalition, and a figure that is rounded down."""
    asked = ("privacy", "--cluster-size", 40, "--flip-prob", 0.1, "--delta", "1e-5")
    (_, text, _), (_, out, _) = command(*asked), command(*asked, "--json")
    question = Question(40, 0.1, 1.0)
    truth = (observer_of(question).epsilon(1e-5).epsilon_upper, 1e-5)
    check(text, json.loads(out), question, truth)
    with pytest.raises(AssertionError):
        check(text, json.loads(out), Question(40, 0.1, 1.0, "coalition", 3), truth)
    with pytest.raises(AssertionError):
        check(re.sub(r"at most +\S+", f"at most {truth[0] * 0.99:.4g}", text), json.loads(out), question, truth)
