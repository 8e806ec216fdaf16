"""A privacy statement is one value and travels whole: from the accountant to row, disk, table and report."""

import json
import math
import pickle
from dataclasses import replace

import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.privacy import (
    Accountant,
    Coalition,
    DpSgd,
    Eavesdropper,
    FetchDistribution,
    KaryExchange,
    LabelExchange,
    Peer,
    TimedLearner,
)
from p2p_sim.privacy import conditions as catalogue
from p2p_sim.privacy.bound import EXACT, OBSERVERS, Bracket, PrivacyBound, identifier_of, worst_bound
from p2p_sim.privacy.conditions import CLAIMED, Condition
from p2p_sim.privacy.exchange.paper_bounds import lemma9_stated, theorem3_stated
from p2p_sim.privacy.questions import Question, answer
from p2p_sim.privacy.rivals.dp_sgd import ProjectedSteps
from p2p_sim.privacy.statement_record import identifier, merged, statement_of, terms, whole
from p2p_sim.privacy.where_bounds_hold import Situation, first_failure
from p2p_sim.report.results_report import write_report
from p2p_sim.results.rows import stored_rows
from p2p_sim.results.statements import STATEMENTS, read_terms
from p2p_sim.scenario import OWN_MECHANISMS
from p2p_sim.sweeps.local_workers import LocalProcesses
from p2p_sim.sweeps.plan import make_plan
from p2p_sim.sweeps.run_scenario import run_point
from p2p_sim.sweeps.run_sweep import run_sweep
from p2p_sim.sweeps.sweep_file import Axis
from tests.commands import command
from tests.written_sweeps import AXES, write_sweep

EXCHANGE = LabelExchange(40, 0.1, 0.5)
EVERYBODY = (EXCHANGE, TimedLearner(EXCHANGE), TimedLearner(EXCHANGE, True), Peer(40, 0.1), Coalition(EXCHANGE, 2),
             Eavesdropper(0.1), KaryExchange(40, 0.1, 0.5, 4))  # fmt: skip


def exchanged(**network):
    tree = {
        "name": "made",
        "replicates": 2,
        "population": {"kind": "synthetic", "users": 400, "num_clusters": 4},
        "mechanism": {"flip_prob": 0.1, "sampling_rate": 0.5},
        "network": network,
    }
    return p2p_sim.Scenario.from_tree(tree)


def test_a_condition_is_its_text_and_keeps_its_identifier():
    condition = Condition("some-name", "a text")
    assert condition == "a text"
    assert json.dumps([condition]) == '["a text"]'
    assert pickle.loads(pickle.dumps(condition)).identifier == "some-name"
    plain = PrivacyBound(0.0, 1.0, 0.0, observer="learner", adjacency="label", basis="pure", conditions=("plain",))
    assert plain.condition_ids == (CLAIMED,)


def test_identifiers_are_different_for_different_conditions():
    found = [value for value in vars(catalogue).values() if isinstance(value, Condition)]
    assert len({condition.identifier for condition in found}) == len(found) == len(set(found)) >= 15


@pytest.mark.parametrize("observer", EVERYBODY, ids=lambda x: type(x).__name__)
def test_every_observer_states_its_conditions_as_identifiers(observer):
    bound = observer.epsilon(1e-4)
    assert bound.observer in OBSERVERS
    assert bound.conditions == observer.conditions
    assert CLAIMED not in bound.condition_ids
    assert len(set(bound.condition_ids)) == len(bound.conditions) >= 1


def test_together_holds_for_everybody():
    """The largest figures under all conditions: one cluster's conditions must not stand for another's figure."""
    one, other = EXCHANGE.epsilon(1e-4), Eavesdropper(0.1).epsilon(1e-4)
    both = worst_bound([replace(other, observer="learner"), one])
    assert both.epsilon_upper == other.epsilon_upper
    assert set(both.conditions) == {*one.conditions, *other.conditions}
    given = worst_bound([one, replace(one, conditional_on="the realised network", epsilon_upper=0.0)])
    assert given.conditional_on == "the realised network"


def test_a_statement_survives_its_record():
    bound = replace(EXCHANGE.epsilon(1e-4), conditions=(*EXCHANGE.conditions, "as a plug-in says"))
    said = json.loads(json.dumps(terms({"epsilon_upper": bound})))
    row = {"epsilon_lower": bound.epsilon_lower, "epsilon_upper": bound.epsilon_upper, "delta": bound.delta}
    back = statement_of(row, said, "epsilon_upper")
    assert back == bound
    assert back.condition_ids == bound.condition_ids
    assert whole(back)["condition_ids"][-1] == CLAIMED
    assert identifier(said) == identifier(terms({"epsilon_upper": bound}))
    assert (
        merged([said, terms({"epsilon_upper": Peer(40, 0.1).epsilon(0.1)})])["epsilon_upper"]["conditions"][-1]["id"]
        == "one-label"
    )


SITUATIONS = {
    "two-classes": Situation(num_classes=3),
    "flipped-labels": Situation(message="Alibi"),
    "for-learner": Situation(observer="coalition"),
    "complete-fetching": Situation(faults=("network.overlay",)),
    "no-onlooker": Situation(roles=("adversaries.coalition",)),
    "single-round": Situation(rounds=2),
    "same-noise": Situation(rounds=2, fresh=True),
    "fixed-parameters": Situation(oracle=True),
}


@pytest.mark.parametrize("fails", SITUATIONS)
def test_a_papers_bound_names_the_first_condition_that_fails(fails):
    lemma = 100_000, 0.1, 0.5, 1e-4
    assert lemma9_stated(*lemma).epsilon > 0.0
    refused = lemma9_stated(*lemma, SITUATIONS[fails])
    assert refused.fails.identifier == fails
    assert refused.epsilon is None
    assert "not applicable: it" in str(refused)
    assert theorem3_stated(10**7, 0.3, 1.0, 1e-4, SITUATIONS[fails]).fails.identifier == fails


@pytest.mark.parametrize(
    ("lemma", "fails"),
    [
        ((1_000, 0.1, 0.5, 1e-300), "lemma-9-deviation"),
        ((10, 0.1, 0.5, 1e-4), "lemma-9-size"),
        ((100, 0.0, 0.5, 1e-4), "lemma-9-size"),
    ],
)
def test_lemma_9_knows_its_numbers(lemma, fails):
    assert lemma9_stated(*lemma).fails.identifier == fails


@pytest.mark.parametrize("model", [EXCHANGE, KaryExchange(40, 0.1, 0.5, 2)])
def test_our_own_bounds_are_asked_too(model):
    assert first_failure(model.requires, Situation()) is None
    for fails in ("flipped-labels", "complete-fetching", "no-onlooker", "for-learner"):
        assert first_failure(model.requires, SITUATIONS[fails]).identifier == fails
    assert first_failure(FetchDistribution.requires, SITUATIONS["complete-fetching"]) is None


def test_rows_refer_to_their_statements_and_equal_ones_are_kept_once(tmp_path):
    done = run_point(exchanged(), tmp_path / "out")
    kept = read_terms(tmp_path / "out")
    assert set(done.rows["statement"]) == set(kept)
    assert len(kept) == 1 < len(done.rows)
    result = p2p_sim.run(exchanged())
    back = statement_of(result.row, kept[result.row["statement"]], "epsilon_upper")
    assert back == worst_bound(result.privacy)
    assert back.conditions == LabelExchange(100, 0.1, 0.5).conditions
    assert p2p_sim.load_statements(tmp_path / "out")[0]["epsilon_upper"] == back


def test_a_realised_network_says_what_it_is_conditional_on(tmp_path):
    result = p2p_sim.run(exchanged(loss=0.1, request_timeout_s=1.0))
    said = result.terms
    assert said["epsilon_upper"]["conditional_on"] == "the realised network"
    ids = [condition["id"] for condition in said["epsilon_upper"]["conditions"]]
    assert "realised-network" in ids
    assert "same-sources" in ids
    assert said["epsilon_paper_lemma9"]["not_applicable"]["id"] == "complete-fetching"
    assert result.row["epsilon_paper_lemma9"] is None


def test_the_noise_of_exchanged_alibi_is_a_condition_everywhere(tmp_path):
    tree = exchanged().model_dump(mode="json")
    tree["mechanism"] = {"kind": "label_exchange", "randomizer": {"kind": "alibi", "epsilon": 1.0}}
    tree |= {"learner": {"kind": "soft_logistic_regression"}, "replicates": 1}
    scenario = p2p_sim.Scenario.from_tree(tree)
    run_point(scenario, tmp_path / "out")
    [said] = read_terms(tmp_path / "out").values()
    for column in ("epsilon_upper", "epsilon_local"):
        assert "real-noise" in [condition["id"] for condition in said[column]["conditions"]]
    assert "floating-point arithmetic gives away" in write_report(tmp_path / "out").read_text()


REAL = {
    **dict.fromkeys(("alibi", "dp_sgd", "label_dp_pro", "pate"), "real-noise"),
    "cluster_rr": "exact-laplace",
    **dict.fromkeys(("private_histogram", "private_density"), "real-laplace"),
    **dict.fromkeys(("private_stacking", "hypothesis_transfer"), "exact-minimiser"),
}
"""The condition by which each mechanism with noise of real numbers says that floating-point noise is not meant."""
DISCRETE = (
    *("label_exchange", "randomized_response", "shuffled_response", "vector_approximation", "rr_with_prior"),
    *("noisy_aggregates", "noise_shares", "rr_on_bins", "unbiased_values", "pushed_labels", "gossip_averaging"),
)
"""Mechanisms whose noise is a finite choice or a whole number."""


def test_mechanisms_with_noise_of_real_numbers_say_that_floating_point_is_not_meant():
    assert set(OWN_MECHANISMS) == {*REAL, *DISCRETE}
    said = {kind: {*map(identifier_of, own.conditions)} for kind, own in OWN_MECHANISMS.items()}
    assert {kind for kind in REAL if REAL[kind] not in said[kind]} == set()
    assert {kind for kind in DISCRETE if said[kind] & set(REAL.values())} == set()
    for model in (DpSgd(1.0, 0.5, 2), ProjectedSteps(1.0, 0.5, 2)):
        assert REAL["dp_sgd"] in model.epsilon(1e-5).condition_ids


@pytest.mark.slow
def test_a_sweep_keeps_the_same_statements_wherever_it_ran(tmp_path):
    plan = make_plan("made", exchanged(), [Axis(key="network.loss", values=(0.0, 0.1))], 1)
    run_sweep(plan, tmp_path / "here")
    run_sweep(plan, tmp_path / "there", LocalProcesses(2))
    here, there = ((tmp_path / name / STATEMENTS).read_bytes() for name in ("here", "there"))
    assert here == there
    assert len(read_terms(tmp_path / "here")) == 2


def test_old_results_are_readable_and_the_report_says_what_is_missing(tmp_path):
    write_sweep(tmp_path / "old", AXES, 2)
    rows = [json.loads(line) for line in (tmp_path / "old" / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        del row["statement"]
    (tmp_path / "old" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(stored_rows(tmp_path / "old")) == len(rows)
    text = write_report(tmp_path / "old").read_text()
    assert "without the conditions under which" in text
    assert "peers are drawn uniformly" not in text


def test_a_damaged_statement_is_one_line(tmp_path):
    run_point(exchanged().replace(replicates=1), tmp_path / "out")
    path = tmp_path / "out" / STATEMENTS
    path.write_text(path.read_text().replace("do not depend on labels", "may depend on labels"))
    with pytest.raises(InputError, match="is incomplete or does not match its checksum"):
        write_report(tmp_path / "out")


def test_a_statement_of_another_shape_is_one_line(tmp_path):
    run_point(exchanged().replace(replicates=1), tmp_path / "out")
    said = {"epsilon_upper": {"conditions": 5}}
    line = {"statement": identifier(said), "columns": said}
    (tmp_path / "out" / STATEMENTS).write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match="damaged"):
        write_report(tmp_path / "out")


def test_a_half_written_statement_is_repaired(tmp_path):
    run_point(exchanged().replace(replicates=1), tmp_path / "out")
    path = tmp_path / "out" / STATEMENTS
    undisturbed = path.read_bytes()
    path.write_bytes(undisturbed + b'{"statement": "00')
    run_point(exchanged().replace(replicates=2), tmp_path / "out")
    assert path.read_bytes() == undisturbed


@pytest.mark.parametrize("json_", [False, True])
def test_calibrate_says_for_whom_and_under_which_conditions(json_):
    status, out, _ = command(
        "calibrate",
        "--cluster-size",
        "100",
        "--epsilon",
        "0.5",
        "--delta",
        "1e-6",
        "--sampling-rate",
        "1",
        *(["--json"] * json_),
    )
    assert status == 0
    for condition in EXCHANGE.conditions:
        assert condition in out
    if json_:
        found = json.loads(out)
        assert (found["observer"], found["adjacency"]) == ("learner", "label")
        assert found["condition_ids"] == list(EXCHANGE.epsilon(0.1).condition_ids)
    else:
        assert "from the learner" in out
        assert "one user's label" in out


def test_privacy_at_an_epsilon_states_the_basis_of_that_figure():
    """Of four classes the ε at δ = 1/2 is the noise's alone, which is not where δ at ε = 0.1 comes from."""
    four = ("--cluster-size", "60", "--flip-prob", "0.5", "--num-classes", "4", "--epsilon", "0.1", "--json")
    found = json.loads(command("privacy", *four)[1])
    assert found["basis"] == "blanket of uniform labels, every data set"
    assert found["delta_upper"] == KaryExchange(60, 0.5, 1.0, 4).delta(0.1).upper


def test_the_learner_who_sees_times_is_an_observer():
    assert "learner-times" in OBSERVERS
    assert "learner-times" in PrivacyBound.__doc__
    assert TimedLearner(EXCHANGE).epsilon(0.1).observer == "learner-times"


def test_run_prints_the_conditions(tmp_path):
    file = tmp_path / "made.toml"
    file.write_text(
        'name = "made"\nreplicates = 1\n[population]\nkind = "synthetic"\nusers = 400\nnum_clusters = 4\n'
        "[mechanism]\nflip_prob = 0.1\n[network]\nloss = 0.1\nrequest_timeout_s = 1.0\n"
    )
    status, out, _ = command("run", str(file), "--verbose", "--out", str(tmp_path / "out"))
    assert status == 0
    assert "given the realised network, from the learner, if" in out
    assert "not applicable: it needs a network without faults" in " ".join(out.replace("│", " ").split())
    found = json.loads(command("run", str(file), "--out", str(tmp_path / "out"), "--json")[1])
    assert found["statements"]["epsilon_upper"]["conditional_on"] == "the realised network"


def test_a_plug_ins_own_conditions_pass_as_claimed():
    bound = PrivacyBound(0.0, 1.0, 0.1, "learner", "label", "said", ("users are honest",))
    said = terms({"epsilon_upper": bound}, "some-package 1.0")["epsilon_upper"]
    assert said["claimed_by"] == "some-package 1.0"
    assert said["conditions"] == [{"id": CLAIMED, "text": "users are honest"}]


def test_who_sees_times_is_not_promised_to_see_none():
    result = p2p_sim.run(exchanged(loss=0.1, request_timeout_s=1.0))
    ids = [condition["id"] for condition in result.terms["epsilon_times_upper"]["conditions"]]
    assert result.terms["epsilon_times_upper"]["observer"] == "learner-times"
    assert "times-independent-of-peers" in ids or ids == ["one-label"]
    assert "set-of-submissions" not in ids


def test_a_coalition_that_fetched_no_label_is_passive_and_says_so():
    tree = exchanged().model_dump(mode="json") | {"adversaries": {"coalition": {"share": 0.05}}}
    said = p2p_sim.run(p2p_sim.Scenario.from_tree(tree)).terms["epsilon_unmet_upper"]
    assert said["observer"] == "coalition"
    assert "passive-members" in [condition["id"] for condition in said["conditions"]]
    assert "no member fetched" in said["conditional_on"]


def test_no_number_is_no_promise():
    nothing = PrivacyBound(math.nan, math.nan, 0.1, "learner", "label", "a plug-in's")
    assert (nothing.epsilon_lower, nothing.epsilon_upper) == (0.0, math.inf)
    assert worst_bound([EXCHANGE.epsilon(0.1), nothing]).epsilon_upper == math.inf


def test_an_accountant_of_which_nothing_is_said_applies_nowhere():
    class New(Accountant):
        conditions = ()

        def delta(self, epsilon):
            return EXCHANGE.delta(epsilon)

        def epsilon(self, delta):
            return EXCHANGE.epsilon(delta)

    assert first_failure(New.requires, Situation()).identifier == "unlisted"
    for observer in EVERYBODY[1:6]:
        assert first_failure(observer.requires, SITUATIONS["flipped-labels"]).identifier == "flipped-labels"


def test_a_sweep_in_json_states_one_point_whole(tmp_path):
    """δ came from the first row and ε from the largest, which together held for no point."""
    (tmp_path / "s.toml").write_text(
        'name = "made"\nengine = "vectorised"\n[population]\nkind = "synthetic"\nusers = 400\nnum_clusters = 4\n'
        "[mechanism]\nflip_prob = 0.1\n"
    )
    (tmp_path / "w.toml").write_text(
        'name = "w"\nbase = "s.toml"\nreplicates = 1\n[[axes]]\n'
        'keys = ["mechanism.flip_prob", "privacy.delta"]\nvalues = [[0.4, 1e-9], [0.1, 1e-2]]\n'
    )
    status, out, err = command(
        "sweep", str(tmp_path / "w.toml"), "--out", str(tmp_path / "out"), "--json", "--workers", 1
    )
    assert status == 0, err
    found = json.loads(out)
    rows = stored_rows(tmp_path / "out").set_index("delta")
    assert found["epsilon_upper"] == rows["epsilon_upper"].max() == rows.loc[found["delta"], "epsilon_upper"]
    assert found["condition_ids"]


def test_a_published_table_is_not_run_into(tmp_path):
    run_point(exchanged(), tmp_path / "out")
    (tmp_path / "out" / "rows.jsonl").unlink()
    with pytest.raises(InputError, match="holds a published table"):
        run_point(exchanged().replace(replicates=1), tmp_path / "out")
    assert len(stored_rows(tmp_path / "out")) == 2


@pytest.mark.parametrize("share", [0.97, 0.99, 0.9999])
def test_a_figure_is_exact_only_where_both_ends_agree(share):
    """δ close to δ(0), from 70 users on: the ends of "exact, over all data sets" lay 13 to 100% apart."""
    exchange = LabelExchange(100, 0.01, 0.5)
    near = exchange.epsilon(share * exchange.delta(0.0).lower)
    assert near.epsilon_upper - near.epsilon_lower > EXACT * near.epsilon_upper
    assert near.basis == "certified over all data sets"
    assert exchange.epsilon(1e-6).basis == exchange.basis == "exact, over all data sets"
    assert worst_bound([near, LabelExchange(40, 0.4, 0.5).epsilon(near.delta)]).basis == "certified over all data sets"


def test_every_way_to_a_statement_words_its_basis():
    sound = PrivacyBound(0.5, 0.5, 1e-5, "learner", "label", "realised network: exact, given the submissions")
    assert sound.basis.endswith("exact, given the submissions")
    assert replace(sound, epsilon_lower=0.0).basis == "realised network: certified, given the submissions"
    assert replace(sound, epsilon_lower=0.5 * (1 - 0.9 * EXACT)).basis == sound.basis
    for basis, said in (("exact: one noisy label", "certified: one noisy label"), ("not exactly", "not exactly")):
        assert PrivacyBound(0.4, 0.5, 1e-5, "peer", "label", basis).basis == said
    assert PrivacyBound(0.4, math.inf, 1e-5, "peer", "label", "exact: x").basis == "certified: x"
    assert PrivacyBound(math.inf, math.inf, 1e-5, "peer", "label", "exact: x").basis == "exact: x"
    assert Bracket(0.0, 0.0).worded("exact: x") == "exact: x"


def test_a_question_about_delta_words_the_basis_by_the_bracket_of_delta(monkeypatch):
    question = Question(40, 0.1, 0.5, "learner", None, 1, False, 2)
    assert answer(question, None, 0.5).bound.basis == "exact, over all data sets"
    monkeypatch.setattr(LabelExchange, "delta", lambda self, epsilon: Bracket(0.001, 0.002))
    assert answer(question, None, 0.5).bound.basis == "certified over all data sets"
