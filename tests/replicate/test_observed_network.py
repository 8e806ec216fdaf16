"""What happened on the network: counted from the transcript, it must agree with what the protocol counted itself."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from p2p_sim.cli.main import main
from p2p_sim.cli.printing.network_summary import network_output, oddities
from p2p_sim.cli.printing.numbers import print_output, warn_of_oddities
from p2p_sim.exchange.transcript import LEARNER, REPLY
from p2p_sim.figures import message_times as figures
from p2p_sim.network.overlay_graph import from_pairs
from p2p_sim.replicate import network_figures
from p2p_sim.replicate.network_figures import worst_part
from p2p_sim.replicate.observed_network import books, look, observe, record
from p2p_sim.replicate.replicate import Replicate
from p2p_sim.replicate.run import exchange
from p2p_sim.scenario import Scenario, load_scenario

RETRY = {"retry": "redraw", "attempts": 3}
USERS = 90
NETWORKS = {
    "complete": {},
    "lossy": {"loss": 0.2, "duplication": 0.1, "request_timeout_s": 0.15, "on_timeout": RETRY},
    "fallback": {"loss": 0.3, "request_timeout_s": 0.3, "on_timeout": {"fallback": "own_label"}},
    "scale_free": {"overlay": {"kind": "scale_free", "attachments": 2}},
    "walk": {"overlay": {"kind": "regular", "degree": 4}, "peers": {"kind": "random_walk", "length": 3}},
    "churn": {"availability": {"kind": "on_off", "mean_on_s": 1.0, "mean_off_s": 1.0}, "deadline_s": 2.0},
    "alone": {"overlay": {"kind": "geometric", "radius": 1e-9}},
    "queue": {"learner_bandwidth_bps": 50_000, "deadline_s": 1.2},
}
COALITION = {"coalition": {"share": 0.2}}


def scenario(network="complete", adversaries=None, users=USERS, **more):
    return Scenario.from_tree(
        {
            "name": "small",
            "population": {"kind": "synthetic", "users": users, "num_clusters": 3},
            "mechanism": {"flip_prob": 0.3, "sampling_rate": 0.6},
            "network": {"start_window_s": 1.0, **NETWORKS[network]},
            "adversaries": adversaries or {},
            **more,
        }
    )


@pytest.fixture(scope="module")
def found():
    """What happened on each network, with a coalition, worked out once."""
    kept = {}

    def get(network):
        if network not in kept:
            kept[network] = observe(scenario(network, COALITION))
        return kept[network]

    return get


def faults(seen):
    """Where the arrays of a replicate contradict the protocol's own counts."""
    c, m = seen.counts, seen.messages
    submitted = np.isfinite(seen.submitted_s)
    checks = {
        "delivered": len(m) == c["messages_delivered"],
        "sent": c["messages_sent"] + c["messages_duplicated"]
        == c["messages_lost"] + c["messages_undelivered"] + c["messages_delivered"],
        "load": seen.handled.sum() == 2 * len(m) - np.count_nonzero(m.receiver == LEARNER),
        "answers": seen.answers.sum() == np.count_nonzero(m.kind == REPLY),
        "answered": np.count_nonzero(np.isfinite(seen.answered_s)) == c["answered"],
        "users": sum(books(seen.num_users, c).values()) == seen.num_users
        and min(books(seen.num_users, c).values()) >= 0,
        "late": np.count_nonzero(m.late) == c["late_replies"],
        "learner": (seen.observers["learner"].messages, seen.observers["learner"].bytes)
        == (c["learner_messages"], c["learner_bytes"]),
        "eavesdropper": (seen.observers["eavesdropper"].messages, seen.observers["eavesdropper"].bytes)
        == (c["messages_sent"], c["bytes_sent"]),
        "submissions": seen.submissions.sum() == np.count_nonzero(submitted),
        "quantiles": not submitted.any() or np.isclose(np.median(seen.submitted_s[submitted]), c["arrival_p50_s"]),
    }
    return [name for name, right in checks.items() if not right]


@pytest.mark.parametrize(
    "network", [pytest.param(one, marks=[pytest.mark.slow] * (one in ("walk", "scale_free"))) for one in NETWORKS]
)
def test_what_happened_agrees_with_the_protocols_own_counts(found, network):
    assert faults(found(network)) == []


@pytest.mark.parametrize(
    ("array", "fault"),
    [("handled", "load"), ("answers", "answers"), ("answered_s", "answered"), ("submitted_s", "quantiles")],
)
def test_a_planted_miscount_is_seen(found, array, fault):
    seen = found("lossy")
    wrong = np.array(getattr(seen, array))
    first = int(np.flatnonzero(np.isfinite(wrong) & (wrong > 0))[0])
    wrong[first] = np.inf if wrong.dtype.kind == "f" else wrong[first] + 1
    assert fault in faults(replace(seen, **{array: wrong}))


def test_a_lost_message_of_the_transcript_is_seen(found):
    seen = found("lossy")
    short = replace(seen, messages=seen.messages.select(np.arange(1, len(seen.messages))))
    assert {"delivered", "load"} <= set(faults(short))


def test_each_users_load_is_what_a_plain_count_says(found):
    seen = found("lossy")
    m, messages, size = seen.messages, np.zeros(USERS, dtype=int), np.zeros(USERS, dtype=int)
    for kind, sender, receiver in zip(m.kind.tolist(), m.sender.tolist(), m.receiver.tolist(), strict=True):
        for user in (sender, receiver):
            if user != LEARNER:
                messages[user] += 1
                size[user] += 64 if kind == 1 else 65
    assert np.array_equal(seen.handled, messages)
    assert np.array_equal(seen.handled_bytes, size)


def test_the_eavesdropper_sees_what_is_lost_later(found):
    seen, lossy = found("scale_free"), found("lossy")
    assert seen.observers["eavesdropper"].messages == len(seen.messages)
    assert seen.observers["eavesdropper"].bytes == int(seen.handled_bytes.sum() + seen.observers["learner"].bytes) // 2
    assert lossy.counts["messages_lost"] > 0
    assert lossy.observers["eavesdropper"].messages > len(lossy.messages)


@pytest.mark.parametrize("network", ["lossy", "churn", "queue"])
def test_the_coverage_curve_ends_at_the_effective_sampling_rate(found, network):
    seen = found(network)
    figure = Figure()
    figures._stairs(figure.subplots(), seen.submitted_s, 100.0, None)
    share = figure.axes[0].lines[0].get_ydata()
    assert share[-1] == record(seen)["effective_sampling_rate"] == seen.submissions.sum() / USERS
    assert np.all(np.diff(share) >= 0)
    assert seen.deadline_s is None or seen.submitted_s[np.isfinite(seen.submitted_s)].max() <= seen.deadline_s


def test_a_coalition_holds_the_labels_that_were_sent_to_it(found):
    seen = found("lossy")
    m = seen.messages
    told = set()
    for kind, sender, receiver in zip(m.kind.tolist(), m.sender.tolist(), m.receiver.tolist(), strict=True):
        if kind == REPLY and seen.member[receiver] and not seen.member[sender]:
            told.add(sender)
    numbers = record(seen)
    assert set(np.flatnonzero(seen.held).tolist()) == told
    assert numbers["coalition_members"] == np.rint(0.2 * seen.cluster_sizes).sum()
    assert numbers["held_share"] == len(told) / (USERS - numbers["coalition_members"])
    learner, coalition, everything = (seen.observers[who].messages for who in ("learner", "coalition", "eavesdropper"))
    assert learner < coalition < everything


def test_a_fixed_answer_is_nobodys_noisy_label():
    liars = {**COALITION, "liars": {"share": 0.5, "answer": "one"}}
    done = exchange(Replicate(scenario(adversaries=liars)), record=True)
    fixed = np.concatenate([shard.constant for shard in done.outcome.realised])
    seen = look(scenario(adversaries=liars), 0, done)
    assert seen.held.any()
    assert not (seen.held & fixed).any()
    assert np.all(seen.epsilon[fixed] == 0)


def test_without_a_coalition_there_is_none_in_the_record():
    numbers = record(observe(scenario()))
    assert (numbers["coalition_members"], numbers["held_labels"], numbers["held_share"]) == (0, None, None)
    assert set(numbers["observers"]) == {"learner", "eavesdropper"}


def test_users_who_passed_on_their_own_label_have_the_noise_alone(found):
    seen = found("fallback")
    assert 0 < np.count_nonzero(seen.own) <= seen.counts["fallbacks"]
    assert np.all(seen.epsilon[seen.own] == seen.epsilon_local)
    assert record(seen)["epsilon_upper"] == seen.epsilon_local


def test_the_part_that_is_drawn_is_the_worst_cluster_edge_for_edge(found):
    seen = found("scale_free")
    part = worst_part(seen, seen.overlay)
    worst = int(np.argmax(seen.epsilon))
    first, last = seen.cluster_offsets[part.cluster : part.cluster + 2]
    assert worst in part.users
    assert np.array_equal(part.users, np.arange(first, last))
    drawn = {tuple(pair) for pair in part.users[part.edges].tolist()}
    overlay = seen.overlay
    whole = {
        (user, peer)
        for user in range(first, last)
        for peer in overlay.indices[overlay.indptr[user] : overlay.indptr[user + 1]].tolist()
        if user < peer
    }
    assert drawn == whole


def test_of_a_large_cluster_those_nearest_to_the_worst_placed_are_drawn(found):
    seen = found("scale_free")
    line = from_pairs(USERS, np.array([(i, i + 1) for i in range(USERS - 1)]))
    epsilon = np.zeros(USERS)
    epsilon[50] = 1.0
    chain = replace(seen, overlay=line, epsilon=epsilon, cluster_offsets=np.array([0, USERS]))
    part = worst_part(chain, chain.overlay, most=7)
    assert part.users.tolist() == list(range(47, 54))
    assert sorted(part.edges.tolist()) == [[i, i + 1] for i in range(6)]


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Runs `p2p-sim` in an empty directory: returns (exit status, standard output, standard error)."""
    text = (
        'name = "small"\nreplicates = 1\n[population]\nkind = "synthetic"\nusers = 60\nnum_clusters = 3\n'
        "[mechanism]\nflip_prob = 0.3\nsampling_rate = 0.6\n"
    )
    (tmp_path / "small.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["p2p-sim", *arguments])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def contrast(path):
    """How much a PNG's pixels differ: their standard deviation, 0 for a blank sheet."""
    from matplotlib.image import imread

    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    return float(imread(path)[..., :3].std())


COMPANY = ["--set", "adversaries.coalition.share=0.2"]
GEOMETRIC = [*COMPANY, "--set", 'network.overlay={kind="geometric",mean_degree=3}']
ALONE = ["--set", 'network.overlay={kind="geometric",radius=1e-9}']
LATE = [
    "--set",
    "network.request_timeout_s=0.1",
    "--set",
    'network.latency={kind="lognormal",median_s=0.05,sigma=2.5}',
    "--set",
    "network.deadline_s=9",
]


@pytest.mark.parametrize(
    ("settings", "overlay"),
    [
        pytest.param(GEOMETRIC, True, marks=pytest.mark.slow),
        (ALONE, True),
        ([*LATE, "--set", "mechanism.flip_prob=0.0"], False),
    ],
    ids=["geometric", "isolated", "late, without noise"],
)
@pytest.mark.figures
@pytest.mark.slow_where(lambda overlay: not overlay)
def test_every_figure_is_a_png_that_shows_something(call, tmp_path, settings, overlay):
    status, out, err = call("network", "small.toml", "--out", "there", *settings)
    assert status == 0
    assert all("network.overlay" in line for line in err.splitlines())
    names = ["timeline", "coverage", "load", "sampling", "epsilon", *(["overlay"] if overlay else [])]
    assert [line for line in out.splitlines() if line.endswith(".png")] == [f"there/{name}.png" for name in names]
    assert {path.name for path in (tmp_path / "there").iterdir()} == {f"{name}.png" for name in names}
    assert all(contrast(tmp_path / "there" / f"{name}.png") > 0.03 for name in names)


def test_a_blank_sheet_would_be_seen(tmp_path):
    from p2p_sim.figures.style import new_figure

    new_figure().savefig(tmp_path / "blank.png")
    assert contrast(tmp_path / "blank.png") < 0.03


def test_json_holds_the_numbers_of_the_table_and_the_paths(call, tmp_path, capsys):
    status, out, err = call("network", "small.toml", "--json", "--replicate", "3", *COMPANY)
    assert (status, err, len(out.splitlines())) == (0, "", 1)
    read = json.loads(out)
    figures = read.pop("figures")
    assert all((tmp_path / path).is_file() for path in figures)
    assert all(path.startswith("results/small-") and "/network/" in path for path in figures)
    assert read == record(observe(load_scenario("small.toml", COMPANY[1::2]), 3))
    assert read["replicate"] == 3
    statement = observe(load_scenario("small.toml", COMPANY[1::2]), 3).statement
    print_output(network_output(read, [], statement), False)
    shown = capsys.readouterr().out
    assert f"{read['messages_delivered']:,}" in shown
    assert f"user {read['busiest_user']} of cluster {read['busiest_cluster']}" in shown
    assert f"{read['held_share']:.1%}" in shown


def test_warnings_name_what_is_wrong_with_the_overlay(found, recwarn):
    warn_of_oddities(oddities(record(found("complete"))))
    assert not recwarn.list
    warn_of_oddities(oddities(record(found("alone"))))
    isolated, disconnected = (str(warning.message) for warning in recwarn.list)
    assert isolated.startswith(f"network.overlay: {USERS} users have no neighbour")
    assert disconnected.startswith("network.overlay: 3 clusters consist of several parts")


def test_a_run_may_follow_into_the_same_directory(call, tmp_path):
    assert call("network", "small.toml")[0] == 0
    assert call("run", "small.toml")[0] == 0
    [directory] = (tmp_path / "results").iterdir()
    assert {"rows.jsonl", "network"} <= {path.name for path in directory.iterdir()}


@pytest.mark.figures
def test_a_figure_that_fails_leaves_the_earlier_one(tmp_path, monkeypatch, found):
    before = b"of an earlier run"
    (tmp_path / "load.png").write_bytes(before)

    def broken(*arguments):
        arguments[-2].write_bytes(b"half")
        raise RuntimeError("no more paper")

    monkeypatch.setattr(figures, "plot_load", broken)
    with pytest.raises(RuntimeError, match="no more paper"):
        network_figures.draw(found("complete"), tmp_path)
    assert (tmp_path / "load.png").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", 'engine="vectorised"'], "engine = 'vectorised': sends no messages"),
        (["--replicate", "-1"], "--replicate -1: must be at least 0"),
        (["--out", "small.toml"], "--out small.toml: small.toml is a file, not a directory"),
        (["--data-dir", "nowhere"], "--data-dir nowhere: there is no such directory"),
        (["--set", "network.los=0.1"], "network.los: unknown key; did you mean network.loss?"),
    ],
)
def test_mistakes_get_one_line_and_status_2(call, tmp_path, arguments, message):
    status, out, err = call("network", "small.toml", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"small.toml", "results"}
