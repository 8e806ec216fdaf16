"""Protocols of plug-ins as mechanisms: what a scenario may say of them, what their rows state, what is refused."""

import hashlib
import importlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import p2p_sim
from p2p_sim.film import film_of
from p2p_sim.film.film_record import COUNTS, counts_at
from p2p_sim.privacy.randomized_response import local_epsilon
from p2p_sim.replicate.observed_network import observe
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange
from tests.commands import command
from tests.plug_ins import EXAMPLE, install

MODULE = """
from typing import Literal
from p2p_sim import extend

class Behaviour(extend.Protocol):
    def user(self, me):
        {body}
        yield me.wait(0.1)

class Config(extend.ProtocolConfig):
    kind: Literal["mine"] = "mine"

    def protocol(self):
        return Behaviour()
"""
TREE = {"population": {"kind": "synthetic", "users": 200}, "engine": "processes", "clusters": {"kind": "given"}}


def mine(folder, body: str, **keys) -> p2p_sim.Scenario:
    module = f"mine_{hashlib.sha256(body.encode()).hexdigest()[:8]}"  # each is another module, imported anew
    install(folder, module, "1.0", {"p2p_sim.protocols": {"mine": f"{module}:Config"}}, MODULE.format(body=body))
    importlib.invalidate_caches()
    return p2p_sim.Scenario.from_tree({**TREE, "mechanism": {"kind": "mine", "flip_prob": 0.2, **keys}})


def test_the_example_runs_and_its_row_states_the_noise_alone_for_everybody(installed):
    result = p2p_sim.run(p2p_sim.load_scenario(EXAMPLE / "second_opinion.toml"), record=True)
    row, local = result.row, local_epsilon(0.2)
    stated = {name: row[name] for name in row if name.startswith("epsilon") and row[name] is not None}
    everybody = [
        "epsilon_upper",
        "epsilon_best_cluster",
        "epsilon_local",
        "epsilon_times_upper",
        "epsilon_coalition_upper",
    ]
    assert stated == dict.fromkeys(everybody, local) | {"epsilon_lower": 0.0}
    said = result.terms["epsilon_upper"]["conditions"]
    assert any("enters the protocol only through her noisy label" in str(condition) for condition in said)
    assert 50 < row["submissions"] < 350
    assert row["fetches"] > 700
    assert len(result.transcript.messages) == row["messages_delivered"]


def test_a_process_that_may_wait_for_ever_is_warned_of(installed, tmp_path):
    file = tmp_path / "x.toml"
    file.write_text((EXAMPLE / "second_opinion.toml").read_text(encoding="utf-8").partition("[network]")[0])
    for sets, warned in (
        ([], False),
        (["network.loss=0.2"], True),
        (["adversaries.free_riders.share=0.1"], True),
        (["network.loss=0.2", "network.request_timeout_s=1"], False),
    ):
        overrides = [word for each in sets for word in ("--set", each)]
        for words in (("validate",), ("run", "--out", tmp_path / "-".join(["out", *sets]))):
            status, _, err = command(words[0], file, *words[1:], *overrides)
            assert status == 0, err
            assert ("a process at `yield me.ask()` waits for ever" in err) == warned, (sets, words)


def test_the_network_of_a_protocol_is_shown_and_its_film_has_the_counts(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = EXAMPLE / "second_opinion.toml"
    status, out, _ = command("network", file, "--out", "net", "--json")
    record = json.loads(out)
    assert status == 0
    assert record["sampling_rate"] is None
    assert "users_answered" not in record
    assert record["epsilon_upper"] == record["epsilon_median_user"] == local_epsilon(0.2)
    assert {path.name for path in (tmp_path / "net").iterdir()} == {
        "coverage.png", "epsilon.png", "load.png", "timeline.png",
    }  # fmt: skip
    assert command("network", file, "--out", "net", "--film", "film.html")[0] == 0
    page = (tmp_path / "film.html").read_text(encoding="utf-8")
    counts = {name: record[column] for name, column in COUNTS.items()}
    counts["submitted"] = round(record["effective_sampling_rate"] * record["num_users"])
    counts["unanswered"] = record["fetches"] - record["retries"] - record["answered"]
    for name, number in counts.items():
        assert f'<td id="run-{name}">{number:,}</td>' in page
    assert "questions that got no label" in page
    assert "400 users in 20 clusters follow a protocol, an exchange in which two peers must agree, for" in page


RETRIES = {
    "network.loss": 0.2,
    "network.request_timeout_s": 1.0,
    "network.on_timeout": {"retry": "redraw", "attempts": 3},
}


def test_the_film_of_the_example_counts_its_questions_and_catches_a_miscount(installed):
    run = observe(p2p_sim.load_scenario(EXAMPLE / "second_opinion.toml").replace(**RETRIES))
    film, requests = film_of(run), run.trace.requests
    assert counts_at(film, film.end_s) == film.run
    assert film.run["unanswered"] == 2 * run.num_users - run.counts["answered"] > 0
    assert film.run["retries"] == run.counts["retries"] > 0
    for column, wrong in (("attempt", 1), ("answered_s", math.inf)):
        values = getattr(requests, column).copy()
        values[np.flatnonzero(np.isfinite(requests.answered_s) & (requests.attempt == 0))[0]] = wrong
        changed = replace(run.trace, requests=replace(requests, **{column: values}))
        with pytest.raises(RuntimeError, match="the film counts"):
            film_of(replace(run, trace=changed))


@pytest.mark.parametrize(
    "body", ["me.submit(me.noisy_label); me.submit(me.noisy_label)", "me.send(me.random_peer(), 1)"]
)
def test_the_film_of_users_without_a_question_balances(folder, body):
    run = observe(mine(folder, body))
    film = film_of(run)
    assert counts_at(film, film.end_s) == film.run
    assert film.run["unanswered"] == film.run["retries"] == 0
    assert film.run["submitted"] == (200 if "submit" in body else 0)
    assert film.run["delivered"] == run.counts["messages_delivered"] == (400 if "submit" in body else 200)


def test_what_a_protocol_notes_of_users_is_of_one_run(folder):
    body = "self.users = getattr(self, 'users', 0) + 1; self.users <= 5 and me.submit(me.noisy_label)"
    case = Replicate(mine(folder, body))
    done = exchange(case)
    again = done.mechanism.run(done.population, case.scenario.network, case.streams)
    assert len(done.outcome.labels) == len(again.labels) == 5


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_target_is_that_of_the_noise(folder, epsilon):
    row = p2p_sim.run(mine(folder, "me.submit(me.noisy_label)", flip_prob=None, target_epsilon=epsilon)).row
    assert math.isclose(row["epsilon_upper"], epsilon, rel_tol=1e-9)
    assert row["epsilon_upper"] <= epsilon * (1.0 + 1e-12)
    assert row["submissions"] == 200


@pytest.mark.parametrize(
    "surroundings",
    [{"network": {"overlay": {"kind": "regular", "degree": 4}}}, {"adversaries": {"free_riders": {"share": 0.2}}}],
)
def test_the_target_of_a_protocol_is_met_where_something_fails(surroundings):
    mechanism = {"kind": "pushed_labels", "target_epsilon": 1.0}
    row = p2p_sim.run(p2p_sim.Scenario.from_tree({**TREE, **surroundings, "mechanism": mechanism})).row
    assert 0.0 < row["epsilon_upper"] <= row["epsilon_local"] <= 1.0
    with pytest.raises(p2p_sim.InputError, match="can be met only if"):  # the learner's ε is another matter
        p2p_sim.Scenario.from_tree({**TREE, **surroundings, "mechanism": {"target_epsilon": 1.0}})


def test_a_protocol_without_submissions_has_a_row_without_a_learner(folder):
    row = p2p_sim.run(mine(folder, "me.send(me.random_peer(), me.noisy_label)")).row
    assert row["submissions"] == 0
    assert row["messages_delivered"] == 200
    assert row["error_rate"] is None


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("me._exchange._streams.generator('flip')", "the random stream 'flip' is not for protocols"),
        ("me._exchange.population.labels", "has no attribute 'population'"),
        ("me.submit(7)", "me.submit: must be a label, 0 to 1, not 7"),
        ("me.send(10_000, 1)", "me.send: peer must be 0 to 199, not 10000"),
    ],
)
def test_what_a_protocol_does_wrong_is_one_line(folder, tmp_path, monkeypatch, body, line):
    mine(folder, body)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'engine = "processes"\n[population]\nkind = "synthetic"\nusers = 200\n[clusters]\nkind = "given"\n'
        '[mechanism]\nkind = "mine"\nflip_prob = 0.2\n'
    )
    status, _, err = command("run", "mine.toml", "--out", "out", "--workers", "1", "--set", "replicates=1")
    assert status != 0
    assert line in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.parametrize("engine", ["events", "vectorised"])
def test_another_engine_is_refused(folder, engine):
    scenario = mine(folder, "pass")
    with pytest.raises(p2p_sim.InputError, match=f"engine = '{engine}': mechanism.kind = 'mine' is a protocol"):
        scenario.replace(engine=engine)
