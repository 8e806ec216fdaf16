"""What a reader stumbled over: each of these was wrong or led nowhere."""

import json
import math
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.figures.point_series import View, drawable
from p2p_sim.population.branches import HeartConfig
from p2p_sim.population.build import build_population
from p2p_sim.population.clustering import KMeansClusters
from p2p_sim.population.digits_and_adult import DigitsConfig
from p2p_sim.population.scikit_tables import BreastCancerConfig, WineConfig
from p2p_sim.population.table import TableConfig
from p2p_sim.privacy import Eavesdropper, local_epsilon
from p2p_sim.results.results_directory import check_column
from tests.commands import command, unwrapped
from tests.conftest import ROOT


def test_points_are_joined_in_the_order_of_what_varies_along_a_line():
    table = pd.DataFrame(
        {"flip_prob": [0.1, 0.3, 0.2], "epsilon_upper": [0.74, 0.27, 0.44], "error_rate": [0.1, 0.3, 0.2]}
    )
    shown, _ = drawable(table, View("epsilon_upper", "error_rate", along="flip_prob"))
    assert shown["at"].tolist() == [0.74, 0.44, 0.27]


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_an_eavesdropper_of_many_classes_sees_one_noisy_label(classes):
    alpha, delta = 0.2, 1e-3
    observer = Eavesdropper(alpha, classes)
    found = observer.epsilon(delta)
    exact = math.log((classes - 1) * (1.0 - alpha - delta) / alpha)
    assert found.epsilon_lower <= exact <= found.epsilon_upper <= exact + 1e-6
    assert found.epsilon_upper < local_epsilon(alpha, classes)
    noisy = np.full((2, classes), alpha / (classes - 1))
    noisy[0, 0] = noisy[1, 1] = 1.0 - alpha
    worst = np.maximum(noisy[0] - math.exp(1.0) * noisy[1], 0.0).sum()
    assert observer.delta(1.0).lower <= worst <= observer.delta(1.0).upper


def test_the_command_answers_for_an_eavesdropper_of_three_classes():
    asked = ("privacy", "--num-classes", 3, "--cluster-size", 40, "--flip-prob", 0.1, "--delta", 1e-5, "--observer")
    status, out, _ = command(*asked, "eavesdropper")
    assert status == 0
    assert "2.891" in out
    status, out, _ = command(*asked, "peer")
    assert status == 0
    assert "noise alone: nothing sharper is known" in out


@pytest.mark.parametrize(
    ("key", "said", "unsaid"),
    [
        ("population.max_users=5", "did you mean population.users?", "it takes"),
        ("population.features=5", "unknown key for this kind; it takes", "did you mean"),
        ("network.los=0.1", "did you mean network.loss?", "it takes"),
        ("population.tesk=1", "did you mean population.task?", "users"),
    ],
)
def test_a_wrong_key_leads_to_keys_of_its_own_kind(key, said, unsaid):
    status, _, err = command("run", "quickstart", "--set", key)
    assert status == 2
    assert said in err
    assert unsaid not in err


def test_run_and_report_say_when_the_exchange_adds_little(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = ("replicates=1", 'population.task="classes"', "clusters.count=1", "clusters.min_size=3")
    few = [part for key in keys for part in ("--set", key)]
    said = []
    for users in (4, 800):
        status, out, err = command("run", "quickstart", *few, "--set", f"population.users={users}", "--out", str(users))
        assert status == 0, err
        assert command("report", str(users))[0] == 0
        page = Path(f"{users}/report.html").read_text("utf-8")
        said.append(("The exchange adds little here: ε is" in out, "The exchange adds little here: ε is" in page))
    assert said == [(True, True), (False, False)]


def test_on_a_sparse_overlay_the_neighbours_are_named_and_not_the_clusters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ("--set", "replicates=1", "--set", "population.users=300", "--set", "mechanism.flip_prob=0.1")
    ring = 'network={overlay={kind="regular", degree=4}}'
    status, out, err = command("run", "synthetic", *few, "--set", ring, "--out", "ring")
    assert status == 0, err
    assert command("report", "ring")[0] == 0
    for text in (unwrapped(out), Path("ring/report.html").read_text("utf-8")):
        assert "The cause is the number of neighbours" in text
        assert "Larger clusters help" not in text


def test_run_offers_what_dominates_an_exchange_that_adds_nothing(tmp_path, monkeypatch):
    """The command runs, whatever the exchange has that randomised response has not."""
    monkeypatch.chdir(tmp_path)
    ring = ("--set", 'network={overlay={kind="regular", degree=2}, loss=0.1}')
    own = ("--set", "mechanism.sampling_rate=0.4", "--set", "mechanism.flip_prob=0.1", "--set", "population.users=200")
    status, out, err = command("run", "synthetic", *ring, *own, "--set", "replicates=2", "--out", "first")
    assert status == 0, err
    assert "Randomised response with the same α dominates it" in out
    assert "(docs/choices.md)" in out
    assert command("report", "first")[0] == 0
    assert "same α dominates it" in Path("first/report.html").read_text("utf-8")
    [line] = [line for line in out.splitlines() if line.startswith("p2p-sim run")]
    first, second = (shlex.split(part) for part in line.split(" && "))
    assert "mechanism.flip_prob=0.1" in first
    assert command(*first[1:])[0] == 0
    status, out, err = command(*second[1:])
    assert (status, err) == (0, "")
    assert "mechanism.kind: label_exchange in the first, randomized_response in the second" in out
    [said] = re.findall(r"epsilon_upper\n +the only one +([0-9.]+) +([0-9.]+) ", out)
    assert said[0] == said[1]
    large = ("--set", "replicates=1", "--set", "population.users=400", "--set", "population.num_clusters=1")
    assert "dominates" not in command("run", "synthetic", *own, *large, "--out", "large")[1]


def test_run_counts_the_requests_that_were_not_answered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = (
        "run",
        "synthetic",
        "--set",
        "population.users=400",
        "--set",
        "replicates=1",
        "--set",
        "mechanism.flip_prob=0.1",
    )
    assert "not answered" not in command(*asked)[1]
    status, out, err = command(*asked, "--set", "network.loss=0.1")
    assert status == 0, err
    [share, all_] = re.findall(r"requests answered +([0-9.]+)% of ([0-9,]+), all", out)[0]
    [missed, part] = re.findall(r"not answered +([0-9,]+) \(([0-9.]+)%\): request and reply can each be lost", out)[0]
    assert int(missed) > 0
    assert int(missed) / int(all_.replace(",", "")) == pytest.approx(1 - float(share) / 100, abs=1e-4)
    assert float(part) / 100 == pytest.approx(1 - float(share) / 100, abs=1e-3)


def test_all_replicates_say_where_their_rows_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = {"population": {"kind": "synthetic", "users": 200}, "mechanism": {"flip_prob": 0.1}, "engine": "vectorised"}
    rows = p2p_sim.run_all(p2p_sim.Scenario.from_tree({"name": "small", "replicates": 2, **tree}))
    assert len(p2p_sim.load_results(rows.attrs["directory"])) == len(rows) == 2


def test_a_sweep_says_where_its_rows_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = {"population": {"kind": "synthetic", "users": 200}, "mechanism": {"flip_prob": 0.1}, "engine": "vectorised"}
    small = p2p_sim.Scenario.from_tree({"name": "small", **tree})
    rows = p2p_sim.sweep(small, {"mechanism.flip_prob": [0.2]}, replicates=2)
    assert len(p2p_sim.load_results(rows.attrs["directory"])) == len(rows) == 2


@pytest.mark.parametrize(
    "key",
    ["mechanism.kind", "learner.kind", "population.kind", "network.overlay.kind", "network.in_transit=[{kind"],
)
def test_an_unknown_kind_may_be_that_of_a_plug_in_that_is_not_installed(key):
    status, _, err = command("run", "quickstart", "--set", f'{key}="jammed"{"}]" * ("[" in key)}')
    assert (status, err.count("p2p-sim: ")) == (2, 1)
    assert re.search(r"kind = \"jammed\": must be one of .*[;?] [Nn]o installed plug-in has this kind \(pip ins", err)


def test_a_kind_that_no_plug_in_can_offer_is_not_looked_for_among_plug_ins():
    status, _, err = command("run", "quickstart", "--set", 'clusters.kind="jammed"')
    assert (status, "plug-in" in err) == (2, False)


SMALL = {
    "name": "small",
    "population": {"kind": "synthetic", "users": 60, "num_clusters": 2},
    "mechanism": {"flip_prob": 0.2},
    "replicates": 2,
}


def test_json_has_the_counts_of_messages_that_the_table_has(tmp_path):
    network = {"loss": 0.3, "request_timeout_s": 0.3, "on_timeout": {"retry": "redraw", "attempts": 2}}
    scenario = p2p_sim.Scenario.from_tree({**SMALL, "network": network})
    (tmp_path / "s.toml").write_text(
        'name = "small"\nreplicates = 2\n[population]\nkind = "synthetic"\nusers = 60\nnum_clusters = 2\n'
        "[mechanism]\nflip_prob = 0.2\n[network]\nloss = 0.3\nrequest_timeout_s = 0.3\n"
        '[network.on_timeout]\nretry = "redraw"\nattempts = 2\n'
    )
    status, out, _ = command("run", tmp_path / "s.toml", "--out", tmp_path / "o", "--json")
    assert status == 0
    totals = json.loads(out)["totals"]
    rows = [p2p_sim.run(scenario, replicate).row for replicate in range(2)]
    assert totals == {name: sum(row[name] for row in rows) for name in totals}
    assert {"fetches", "answered", "expired", "failed", "retries", "messages_sent", "messages_lost"} <= set(totals)
    assert totals["retries"] > 0 < totals["messages_lost"]
    _, table, _ = command("run", tmp_path / "s.toml", "--out", tmp_path / "o")
    assert f"{totals['answered'] / totals['fetches']:.2%} of {totals['fetches']:,d}, all replicates" in table
    vectorised = ("--engine", "vectorised", "--set", "network={}", "--out", tmp_path / "v", "--json")
    _, out, _ = command("run", tmp_path / "s.toml", *vectorised)
    assert "totals" not in json.loads(out)


@pytest.mark.parametrize(("timeout", "says"), [(None, "users who got no label  "), (0.3, "who got no label in time  ")])
def test_nobody_is_late_where_nothing_expires(tmp_path, timeout, says):
    limit = "" if timeout is None else f"request_timeout_s = {timeout}\n"
    (tmp_path / "s.toml").write_text(
        'name = "small"\n[population]\nkind = "synthetic"\nusers = 60\nnum_clusters = 2\n[mechanism]\n'
        f"flip_prob = 0.2\n[network]\nloss = 0.3\n{limit}"
    )
    status, out, _ = command("network", tmp_path / "s.toml", "--out", tmp_path / "figures")
    assert status == 0
    assert says in out
    assert ("in time" in out) == (timeout is not None)


@pytest.mark.parametrize("kind", ["digits", "breast-cancer", "wine", "uci-heart", "table"])
def test_fewer_users_may_take_part(kind, tmp_path, request):
    places: tuple[Path, ...] = (tmp_path,)
    if kind == "uci-heart":
        places = (request.getfixturevalue("data_dir"),)
    rng = np.random.default_rng(1)
    own = pd.DataFrame({"a": rng.normal(size=90), "b": rng.normal(size=90), "y": rng.integers(0, 2, 90)})
    own.to_csv(tmp_path / "own.csv", index=False)
    table = {"path": "own.csv", "label": "y"} if kind == "table" else {}
    classes = (DigitsConfig, BreastCancerConfig, WineConfig, HeartConfig, TableConfig)
    [config] = [one for one in classes if one.model_fields["kind"].default == kind]
    assert "users" not in config(**table).model_dump()
    assert config(users=40, **table).model_dump()["users"] == 40
    streams = Streams(1, 0)
    everybody, some = config(**table).sample(places, streams), config(users=40, **table).sample(places, streams)
    assert some.users.labels.shape == (40,)
    assert some.users.row.tolist() == everybody.users.row[:40].tolist()
    assert np.array_equal(some.users.labels, everybody.users.labels[:40])
    assert some.holdout.features.shape == everybody.holdout.features.shape
    assert np.array_equal(some.holdout.labels, everybody.holdout.labels)
    again = config(users=40, **table).sample(places, Streams(1, 1))
    assert again.users.row.tolist() != some.users.row.tolist()
    too_many = len(everybody.users.labels) + 1
    assert len(config(users=too_many - 1, **table).sample(places, streams).users.labels) == too_many - 1
    with pytest.raises(InputError, match=f"population.users = {too_many}: {too_many - 1} of [0-9]+ rows are not held"):
        config(users=too_many, **table).sample(places, streams)


def test_fewer_users_are_clustered_among_themselves():
    people = build_population(DigitsConfig(users=600), KMeansClusters(count=20, min_size=36), (), Streams(1, 0))
    assert people.num_users == people.cluster_sizes.sum() == 600
    assert people.cluster_sizes.min() >= 36
    assert len(set(people.row.tolist())) == 600


TARGET = ("--cluster-size", 8, "--epsilon", "0.5", "--sampling-rate", "0.5", "--delta")
ALONE = "The noise on a label alone needs this α, rounded up."


@pytest.mark.parametrize(
    ("asked", "alone"),
    [
        ((*TARGET, "1e-6"), False),
        ((*TARGET, "1e-6", "--observer", "coalition", "--members", 1), True),
        ((*TARGET, "0.2", "--observer", "coalition", "--members", 1), False),
        ((*TARGET, "0.1", "--num-classes", 3), False),
    ],
)
def test_calibration_says_when_the_noise_alone_decides(asked, alone):
    status, out, _ = command("calibrate", *asked)
    assert (status, ALONE in out) == (0, alone)
    found = json.loads(command("calibrate", *asked, "--json")[1])
    classes = 3 if "--num-classes" in asked else 2
    assert found["epsilon_local"] == local_epsilon(found["flip_prob"], classes)
    assert (found["epsilon_local"] <= 0.5) == alone
    assert re.search(r"noisy label alone, ε₀ +[0-9]", out)


@pytest.mark.parametrize(
    "asked",
    [
        ("--observer", "learner", "--sampling-rate", "1", "--cluster-size", 2),
        ("--observer", "learner", "--sampling-rate", "0.5", "--cluster-size", 50, "--cluster-size", 20),
        ("--observer", "coalition", "--members", 3, "--sampling-rate", "0.5", "--cluster-size", 60),
        ("--observer", "eavesdropper", "--cluster-size", 20),
        ("--observer", "eavesdropper", "--cluster-size", 20, "--num-classes", 3),
    ],
)
@pytest.mark.parametrize("epsilon", ["0.5", "1e-5"])
def test_the_printed_flip_probability_meets_the_target(asked, epsilon):
    _, out, _ = command("calibrate", *asked, "--epsilon", epsilon, "--delta", "1e-6")
    [printed] = re.findall(r"flip probability α, all clusters +(\S+)", out)
    once = asked[:-2] if asked.count("--cluster-size") > 1 else asked
    status, out, err = command("privacy", *once, "--flip-prob", printed, "--delta", "1e-6", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["epsilon_upper"] <= float(epsilon)


def test_the_eavesdropper_needs_no_cluster_size():
    asked = ("privacy", "--flip-prob", "0.1", "--delta", "1e-6", "--observer")
    status, out, _ = command(*asked, "eavesdropper")
    assert (status, "any size, α = 0.1" in out) == (0, True)
    sized = command(*asked, "eavesdropper", "--cluster-size", 50)[1]
    assert sized == out.replace("any size", "50 users")
    status, _, err = command(*asked, "peer")
    assert (status, err.startswith("p2p-sim: --cluster-size: is missing")) == (2, True)


def test_an_unknown_column_leads_to_those_alike_and_to_the_whole_list():
    known = ["accuracy", "epsilon_lower", "epsilon_upper", *(f"column_{k}" for k in range(9))]
    with pytest.raises(InputError) as caught:
        check_column("--x", "eps", known)
    some = "--x eps: no such column; choose one of epsilon_lower, epsilon_upper and 10 more"
    assert str(caught.value) == f"{some}, which docs/row-columns.md explains"
    with pytest.raises(InputError, match=r"qqq: no such column; choose one of accuracy, .* and 4 more, which docs/row"):
        check_column("--x", "qqq", known)
    with pytest.raises(InputError, match=r"qqq: no such column; choose one of a, b$"):
        check_column("--x", "qqq", ["b", "a"])


def test_the_guide_to_extending_starts_from_a_copy_that_runs(installed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```\n(p2p-sim scenarios --copy-example .*?)```", guide, re.MULTILINE | re.DOTALL)
    copy, install, run = (line.partition("#")[0].split() for line in block.splitlines())
    assert install == ["pip", "install", "--editable", "mine"]  # which `installed` stands for
    assert command(*copy[1:])[0] == 0
    status, out, err = command(*run[1:], "--set", "replicates=1", "--set", "population.users=200")
    assert (status, "own" in out) == (0, True), err


def test_pages_and_messages_say_pip_in_one_way():
    places = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    places += (ROOT / "p2p_sim").rglob("*.py")
    assert [place.name for place in places if "python -m pip" in place.read_text(encoding="utf-8")] == []


def test_conditions_about_a_peer_name_the_peer():
    asked = ("privacy", "--cluster-size", 40, "--flip-prob", 0.1, "--delta", 1e-5, "--observer", "peer")
    _, out, _ = command(*asked)
    assert "- the peer is passive: whom the peer asks is drawn" in out
    assert "- the peer does not see the release" in out
    found = json.loads(command(*asked, "--json")[1])
    assert found["condition_ids"][:2] == ["passive-peer", "release-unseen"]
