"""The explorer answers whoever has its token, from its own address, about what was named at its start, and truly."""

import asyncio
import json
import math
import tomllib

import numpy as np
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.cli import results as command_module
from p2p_sim.cli.printing import numbers
from p2p_sim.explorer import worker_process
from p2p_sim.explorer.app import MOST_FILMS
from p2p_sim.explorer.directories import PUBLISHED, ReadableDirectories
from p2p_sim.explorer.privacy_page import CURVE_POINTS
from p2p_sim.explorer.progress_page import Watch
from p2p_sim.privacy.questions import Question, observer_of
from tests.commands import command
from tests.explorer import in_process
from tests.explorer.in_process import HOST, TOKEN, Client
from tests.written_sweeps import AXES, base, made_rows, manifest, write_sweep

SETTINGS = [
    {"cluster_size": 300, "flip_prob": 0.1, "sampling_rate": 0.5, "delta": 1e-6},
    {"cluster_size": 57, "flip_prob": 0.23, "sampling_rate": 0.31, "delta": 1e-5, "observer": "learner-times"},
    {"cluster_size": 12, "flip_prob": 0.2, "sampling_rate": 0.5, "delta": 1e-6, "observer": "coalition", "members": 2},
    {"cluster_size": 40, "flip_prob": 0.2, "sampling_rate": 1.0, "epsilon": 0.5, "observer": "peer"},
    {"flip_prob": 0.2, "sampling_rate": 1.0, "delta": 1e-6, "observer": "eavesdropper", "num_classes": 4},
    {"cluster_size": 9, "flip_prob": 0.3, "sampling_rate": 0.5, "delta": 1e-4, "num_classes": 3},
    {"cluster_size": 60, "flip_prob": 0.2, "sampling_rate": 0.5, "delta": 1e-6, "rounds": 2, "fresh": True},
]


@pytest.fixture(autouse=True)
def whole_lines(monkeypatch):
    """Commands print each sentence in one line."""
    monkeypatch.setattr(numbers, "PIPED", 10_000)


@pytest.fixture(scope="module")
def client():
    return Client()


@pytest.fixture
def results(tmp_path):
    write_sweep(tmp_path / "results" / "one", AXES, 3, [{"point": "x", "replicate": 0, "error": "ValueError: no"}])
    write_sweep(tmp_path / "results" / "two", AXES[:1], 2)
    return tmp_path / "results"


# -- who may ask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("", {"host": "evil.example:8123"}),
        ("", {"host": "localhost:8123"}),
        ("", {"host": ""}),
        ("api/results", {"origin": "http://evil.example"}),
        ("api/results", {"origin": "null"}),
        ("api/results", {"origin": f"https://{HOST}"}),
        ("api/results", {"sec-fetch-site": "cross-site"}),
        ("api/results", {"sec-fetch-site": "same-site"}),
        ("/", {}),
        ("/wrong/api/results", {}),
        (f"/{TOKEN}x/", {}),
        (f"//{TOKEN}/", {}),
        ("/static/explore.css", {}),
        (f"/api/results?token={TOKEN}", {}),
        (f"/x/../{TOKEN}/api/results", {}),
    ],
)
def test_who_has_no_token_or_comes_from_elsewhere_is_refused(client, path, headers):
    answer = client.get(path, headers=[*headers.items()])
    assert (answer.status, "refused" in answer.text) == (403, True)
    assert TOKEN not in answer.text + str(answer.headers)


def test_who_has_the_token_is_answered(client):
    """The control of the test above."""
    for headers in ({}, {"origin": f"http://{HOST}"}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
        for path in ("", "api/results"):
            assert client.get(path, headers=[*headers.items()]).status == 200


def test_a_header_sent_twice_is_refused(client):
    for name, text in (("host", HOST), ("origin", f"http://{HOST}")):
        assert client.get("", headers=[(name, text), (name, text)]).status == 403


def test_websockets_other_methods_and_large_bodies_are_refused(client):
    assert client.get("", kind="websocket") == ["websocket.close"]
    assert client.get("api/results", method="POST").status == 405
    for name, text in (("content-length", "900000"), ("content-length", "-1"), ("transfer-encoding", "chunked")):
        assert client.get("", headers=[(name, text)]).status == 413


def test_pages_load_only_what_the_explorer_serves(client):
    for page in ("", "worth", "watch", "played"):
        answer = client.get(page)
        policy = answer.headers["content-security-policy"]
        assert (answer.status, "default-src 'none'" in policy, "unsafe" in policy) == (200, True, False)
        assert (answer.headers["referrer-policy"], answer.headers["cache-control"]) == ("no-referrer", "no-store")
        assert "http" not in answer.text  # no address of another machine
        for name in ("static/explore.css", f"static/{page or 'private'}.js"):
            assert f'"/{TOKEN}/{name}"' in answer.text
            assert client.get(name).status == 200
    for name in ("static/guard.py", "static/../guard.py", "static/%2e%2e/guard.py", "nothing"):
        assert client.get(name).status == 404


# -- what may be read ------------------------------------------------------------------------------------------------


def test_only_directories_named_at_the_start_are_read(tmp_path, results):
    secret = tmp_path / "secret"
    write_sweep(secret, AXES, 1)
    (results / "link").symlink_to(secret)
    disguised = results / "disguised"
    disguised.mkdir()
    (disguised / "manifest.json").write_text((secret / "manifest.json").read_text())
    (disguised / "rows.jsonl").symlink_to(secret / "rows.jsonl")
    client, other = Client(results), Client(secret)
    mine, hers = (found.get("api/results").json()["results"] for found in (client, other))
    assert [one["name"] for one in mine] == ["one", "two"]
    assert [one["name"] for one in hers] == ["secret"]  # the control: it can be read where it is named
    for path in ("worth", "watch", "point", "download"):
        for key in (hers[0]["key"], "../secret", str(secret), "link"):
            answer = client.get(f"api/{path}", query={"results": key, "format": "csv"})
            assert (answer.status, list(answer.json())) == (400, ["error"])
        assert other.get(f"api/{path}", query={"results": hers[0]["key"], "format": "csv"}).status in (
            (400,) if path == "point" else (200,)
        )
    with pytest.raises(InputError, match="there is no such directory"):
        ReadableDirectories((tmp_path / "nowhere",))


def test_a_directory_that_becomes_a_link_later_is_no_longer_read(tmp_path, results):
    places = ReadableDirectories((results,))
    key = places.all()[0].key
    (results / "one").rename(tmp_path / "elsewhere")
    (results / "one").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError):
        places.of(key)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="there are no published studies outside a checkout")
def test_published_studies_are_offered():
    found = Client(published=PUBLISHED).get("api/results").json()
    offered = {one["name"] for one in found["results"]}
    assert {"comparison/adult", "learners/digits"} <= offered
    with_epsilon, without = found["left_out"].values()
    assert {"regression", "stacking"} <= set(with_epsilon)
    assert {"benchmarks", "certificates", "soak"} <= set(without)
    studies = {path.name for path in PUBLISHED.iterdir()}
    assert {name.split("/")[0] for name in offered} | {*with_epsilon} | {*without} == studies
    for name in with_epsilon:
        assert "observer" not in (PUBLISHED / name / "table.csv").read_text().splitlines()[0]
    assert Client().get("api/results").json()["left_out"] == {}


# -- how private -----------------------------------------------------------------------------------------------------


def options(setting):
    """A setting as the command line has it."""
    given = [(f"--{name.replace('_', '-')}", value) for name, value in setting.items() if value is not True]
    return [part for pair in given for part in pair] + ["--fresh"] * ("fresh" in setting)


def asked(client, setting, task="told"):
    return client.get(f"api/{task}", query={k: "1" if v is True else str(v) for k, v in setting.items()})


def asked_whole(client, setting):
    """The answer, and the observer's gain, which the page asks for with the curve."""
    found, drawn = asked(client, setting).json(), asked(client, setting, "curve").json()
    figures = found["figures"] | {"advantage_uniform": drawn["advantage_uniform"]}
    return found | {"gain": drawn["gain"], "figures": figures}


def differences(found, setting):
    """What the command prints that the page does not say, and figures that differ in any digit."""
    printed = command("privacy", *options(setting))[1].splitlines()
    told = [f"{name} {text}" for name, text in found["lines"]]
    told += [found["gain"], found["protects"], *(f"- {condition}" for condition in found["conditions"])]
    figures = json.loads(command("privacy", *options(setting), "--json")[1])
    missing = {" ".join(line.split()) for line in printed} ^ {" ".join(line.split()) for line in told}
    return [*missing, *(name for name, figure in figures.items() if found["figures"][name] != figure)]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.get("observer", "learner"))
def test_the_page_says_what_the_command_prints_to_the_last_digit(client, setting):
    found = asked_whole(client, setting)
    assert differences(found, setting) == []
    assert command(*found["command"].split()[1:])[1] == command("privacy", *options(setting))[1]


def test_one_other_digit_is_seen(client):
    found = asked_whole(client, SETTINGS[0])
    found["figures"]["epsilon_upper"] *= 1 + 1e-15
    found["lines"][2][1] += "1"
    assert len(differences(found, SETTINGS[0])) == 3


def test_a_copied_scenario_has_the_same_epsilon_and_others_are_not_offered(client):
    found = asked(client, SETTINGS[0]).json()
    scenario = p2p_sim.Scenario.from_tree(tomllib.loads(found["scenario"]))
    assert p2p_sim.run(scenario).row["epsilon_upper"] == found["figures"]["epsilon_upper"]
    for setting in (SETTINGS[5], {**SETTINGS[0], "observer": "learner-times"}, {**SETTINGS[0], "observer": "peer"}):
        assert asked(client, setting).json()["scenario"] == ""


@pytest.mark.parametrize("observer", [{"observer": "coalition", "members": 3}, {"observer": "eavesdropper"}])
def test_a_copied_scenario_has_the_observer_that_was_asked_about(client, observer):
    """The learner's ε, which the scenario has as well, is far smaller."""
    found = asked(
        client, {"cluster_size": 40, "flip_prob": 0.2, "sampling_rate": 0.5, "delta": 1e-3, **observer}
    ).json()
    row = p2p_sim.run(p2p_sim.Scenario.from_tree(tomllib.loads(found["scenario"]))).row
    assert row[found["column"]] == pytest.approx(found["figures"]["epsilon_upper"], rel=1e-3)
    assert row[found["column"]] > 1.5 * row["epsilon_upper"]
    assert row["coalition_members"] == observer.get("members")


def test_the_flip_probability_is_that_of_calibrate(client):
    fields = {"cluster_size": "100", "sampling_rate": "0.5", "epsilon": "0.5", "delta": "1e-6", "observer": "learner"}
    found = client.get("api/needed", query=fields).json()
    printed = json.loads(command(*found["command"].split()[1:], "--json")[1])
    assert found["flip_prob"] == printed["flip_prob"]
    at = {**fields, "flip_prob": str(found["flip_prob"])}
    del at["epsilon"]
    assert asked(client, at).json()["figures"]["epsilon_upper"] <= 0.5
    assert client.get("api/needed", query={**fields, "epsilon": ""}).json()["error"] == "--epsilon: is missing"
    assert (
        client.get("api/needed", query={**fields, "num_classes": "0"}).json()["error"]
        == "--num-classes 0: must be at least 2"
    )
    assert client.get("api/needed", query={**fields, "observer": ""}).json() == found
    peer = client.get("api/needed", query={**fields, "observer": "peer", "sampling_rate": ""}).json()
    assert "peer, any θ, K = 2" in peer["asked"]


def supported(curve, epsilon):
    """1 - δ(ε) by a trade-off curve: the least of β + e^ε α."""
    return min(b + math.exp(epsilon) * a for a, b in zip(curve["type_one"], curve["type_two"], strict=True))


@pytest.mark.parametrize("setting", SETTINGS[:4], ids=lambda setting: setting.get("observer", "learner"))
def test_the_curve_is_certified_and_close(client, setting):
    """It is never above what δ(ε) allows, whose lower end is attained, and not far below what is certified."""
    found = client.get("api/curve", query=setting).json()
    observer = observer_of(Question(**{k: v for k, v in setting.items() if k not in ("delta", "epsilon")}))
    for epsilon in (0.1, 0.3, 0.6):
        bracket, step = observer.delta(epsilon), math.exp(epsilon) / (CURVE_POINTS - 1)
        assert supported(found, epsilon) <= 1.0 - bracket.lower + step
        assert supported(found, epsilon) >= 1.0 - bracket.upper - 0.02
    assert all(0.0 <= b <= 1.0 - a + 1e-12 for a, b in zip(found["type_one"], found["type_two"], strict=True))


def test_the_curve_of_a_composition_knows_one_statement_alone(client):
    query = {k: "1" if v is True else str(v) for k, v in SETTINGS[6].items()}
    found, figures = client.get("api/curve", query=query).json(), asked(client, SETTINGS[6]).json()["figures"]
    a, b = np.array(found["type_one"]), np.array(found["type_two"])
    kept, times = 1.0 - figures["delta"], math.exp(figures["epsilon_upper"])
    assert b == pytest.approx(np.maximum(0.0, np.maximum(kept - times * a, (kept - a) / times)), abs=1e-12)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"flip_prob": "x"}, "--flip-prob x: must be a number"),
        ({"flip_prob": "0.1", "cluster_size": "1e3"}, "--cluster-size 1e3: must be a whole number"),
        ({"flip_prob": "2", "cluster_size": "9", "delta": "1e-6"}, "--flip-prob 2"),
        ({"cluster_size": "9"}, "--flip-prob: is missing"),
        ({"flip_prob": "0.1", "cluster_size": "9"}, "give either --delta or --epsilon"),
        ({"flip_prob": "nan", "cluster_size": "9", "delta": "1e-6"}, "--flip-prob nan"),
        ({"flip_prob": "0.1", "cluster_size": "9", "delta": "1e-6", "observer": "<b>"}, "--observer <b>: must be"),
    ],
)
def test_what_cannot_be_answered_is_one_line(client, fields, said):
    answer = client.get("api/told", query=fields)
    assert (answer.status, answer.json()["error"][: len(said)]) == (400, said)


# -- what it is worth ------------------------------------------------------------------------------------------------


def worth(client, what="worth", **query):
    return client.get(f"api/{what}", query)


def test_no_line_joins_points_of_other_names(tmp_path):
    """One value of the numbers is left: the names stay lines of their own, as before."""
    axes = [{"keys": ["mechanism"], "values": [["one"], ["two"]]}, {"keys": ["network.loss"], "values": [[0.0], [0.1]]}]
    write_sweep(tmp_path / "results" / "made", axes, 2)
    client = Client(tmp_path / "results")
    [place] = client.get("api/results").json()["results"]
    lines = worth(client, results=place["key"], **{"only.network.loss": "0.1"}).json()["shown"]["lines"]
    assert [(line["label"], len(line["points"])) for line in lines] == [("one", 1), ("two", 1)]
    point = worth(client, "point", results=place["key"], point=lines[0]["points"][0]["key"]).json()
    assert ["trust", "nobody"] in point["lines"]


def test_lines_points_and_downloads(results):
    client = Client(results)
    one, two = (place["key"] for place in client.get("api/results").json()["results"])
    found = worth(client, results=one, x="mechanism.flip_prob", y="accuracy", group="network.loss").json()
    shown = found["shown"]
    assert [(line["label"], len(line["points"])) for line in shown["lines"]] == [("loss = 0", 3), ("loss = 0.1", 3)]
    point = shown["lines"][1]["points"][2]
    assert point["low"] < point["y"] < point["high"]
    table = p2p_sim.load_results(results / "one").groupby("scenario")["accuracy"].mean()
    assert point["y"] == pytest.approx(table[point["key"]], rel=1e-12)
    told = worth(client, "point", results=one, point=point["key"]).json()
    assert tomllib.loads(told["scenario"])["network"]["loss"] == 0.1
    assert [line for line in told["lines"] if line[0] in ("α", "loss")] == [["α", "0.2"], ["loss", "0.1"]]
    other = worth(client, results=two, x="mechanism.flip_prob").json()["shown"]["lines"][0]["points"][1]["key"]
    made = p2p_sim.Scenario.from_tree(
        tomllib.loads(worth(client, "point", results=two, point=other).json()["scenario"])
    )
    assert made == base().replace(**{"mechanism.flip_prob": 0.1})
    limited = worth(client, results=one, x="mechanism.flip_prob", **{"only.network.loss": "0.1"}).json()["shown"]
    assert [len(line["points"]) for line in limited["lines"]] == [3]
    both = worth(client, results=[one, two]).json()
    assert both["shown"]["title"].startswith("one, two: ")
    assert sum(len(line["points"]) for line in both["shown"]["lines"]) == 9
    for format_, begin in (("svg", b"<?xml"), ("csv", b"scenario,")):
        answer = worth(client, "download", results=one, format=format_)
        assert (answer.content[: len(begin)], answer.headers["content-disposition"][:10]) == (begin, "attachment")


def test_a_level_is_named_as_in_the_figures(tmp_path):
    directory = tmp_path / "results" / "made"
    write_sweep(directory, AXES, 2)
    rows = [json.loads(line) for line in (directory / "rows.jsonl").read_text().splitlines()]
    measured = [{**row, "half_l1": 0.2, "nonprivate_half_l1": 0.1} for row in rows]
    (directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in measured))
    client = Client(tmp_path / "results")
    [place] = client.get("api/results").json()["results"]
    for y, label in (("excess_risk", "the same learner without privacy"), ("half_l1", "the same cells without noise")):
        [level] = worth(client, results=place["key"], y=y).json()["shown"]["levels"]
        assert level["label"] == label


def test_bounds_are_rounded_to_the_side_on_which_they_hold(results):
    client = Client(results)
    key = client.get("api/results").json()["results"][0]["key"]
    for line in worth(client, results=key).json()["shown"]["lines"]:
        for point in line["points"]:
            assert float(point["x_text"]) >= point["x"]
            assert point["x_text"] in point["said"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"y": "nothing"}, "--y nothing: no such column"),
        ({"y": "basis"}, "--y basis: holds text"),
        ({"only.network.loss": "7"}, "results: no point has all of these values"),
        ({"format": "exe"}, "format exe: must be png, svg, csv"),
    ],
)
def test_columns_that_do_not_fit_are_one_line(results, query, said):
    client = Client(results)
    key = client.get("api/results").json()["results"][0]["key"]
    found = worth(client, "download" if "format" in query else "worth", results=key, **query).json()
    assert found["error"].startswith(said)
    assert worth(client).json()["error"].startswith("results: choose at least one")
    assert worth(client, "point", results=key, point="no").status == 400


# -- a sweep while it runs -------------------------------------------------------------------------------------------


def test_a_growing_sweep_is_followed(tmp_path):
    directory = tmp_path / "s"
    directory.mkdir()
    (directory / "manifest.json").write_text(json.dumps(manifest(AXES, 2)))
    watch, place = Watch(), ReadableDirectories((directory,)).all()[0]
    found = watch.look(place, 0.0)
    assert (found["state"], found["done"], found["total"], found["left_s"]) == ("stopped", 0, 12, None)
    lines = [json.dumps(row) + "\n" for row in made_rows(AXES, 2)]
    from p2p_sim.results.lock import locked

    with locked(directory):
        assert watch.look(place, 0.0)["state"] == "running"
        (directory / "rows.jsonl").write_text("".join(lines[:4]) + lines[4][:20])  # the fifth is half-written
        found = watch.look(place, 2.0)
        assert (found["done"], found["left_s"], len(found["rows"])) == (4, 4.0, 4)
        (directory / "rows.jsonl").write_text("".join(lines[:5]))
        (directory / "failures.jsonl").write_text(
            json.dumps({"point": "x", "replicate": 1, "error": "ValueError: a\nb", "network.loss": 0.1}) + "\n"
        )
        found = watch.look(place, 4.0)
        assert (found["done"], found["failed"]) == (5, 1)
        assert found["failures"] == ["loss = 0.1, replicate 1: ValueError: a b"]
        assert found["left_s"] == pytest.approx((12 - 1 - 5) * 4.0 / 5)
    (directory / "failures.jsonl").unlink()
    (directory / "new").write_text("".join(sorted(lines)))
    (directory / "new").replace(directory / "rows.jsonl")  # as at the end of a sweep
    found = watch.look(place, 5.0)
    assert (found["state"], found["done"], len(found["rows"]), found["left_s"]) == ("finished", 12, 12, None)
    assert Watch().look(place, 6.0) == found  # a new look says the same


# -- the exchange, played --------------------------------------------------------------------------------------------

MINE = 'name = "mine"\npopulation = {kind = "synthetic", users = 40, num_clusters = 2}\nmechanism = {flip_prob = 0.1}\n'


def test_a_film_is_played_alone():
    client = Client()
    found = client.get("api/film", {"text": MINE, "changes": "network.loss=0.1\n\nseed=3"}).json()
    film = client.get(f"film/{found['film']}")
    assert (film.status, "mine: film of the exchange" in film.text) == (200, True)
    policy = film.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert policy.endswith("sandbox allow-scripts")  # an origin of its own: what it asks the explorer is refused
    assert "connect-src" not in policy
    again = {"text": MINE, "changes": "network.loss=0.1\n\nseed=3"}
    assert client.get("api/film", again).json() == found  # as the page asks when it is loaded again
    for replicate in range(MOST_FILMS):
        client.get("api/film", {"text": MINE, "replicate": str(replicate)})
    assert client.get(f"film/{found['film']}").status == 404
    names = [one["name"] for one in client.get("api/scenarios").json()["scenarios"]]
    assert "quickstart" in names
    assert "network/million" not in names  # larger than the explorer plays


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"text": "x" * 8001}, "scenario: has 8,001 characters, at most 8,000"),
        ({"text": "name = "}, "scenario: not valid TOML"),
        ({"text": MINE.replace("users = 40", "users = 30000")}, "population.users = 30,000: at most 20,000"),
        (
            {"text": MINE + 'network = {overlay = {kind = "file", path = "/etc/passwd"}}'},
            "path: a scenario from a browser",
        ),
        ({"text": MINE, "changes": 'network.latency={kind="trace", path="x"}'}, "path: a scenario from a browser"),
        ({"text": MINE, "changes": 'population.path="x"'}, "path: a scenario from a browser"),
        ({"text": MINE, "changes": "seed=1\n" * 51}, "changes: 51 lines, at most 50"),
        ({"text": MINE, "changes": "nothing"}, "line 1, nothing: must read key=value"),
        (
            {"text": MINE, "changes": "seed=2\nnetwork.loss=0,1\nname=a b"},
            "line 2, network.loss=0,1: use a point, 0.1; line 3, name=a b: 'a b' is not a TOML value",
        ),
        ({"text": MINE, "loss": "0,1"}, "Loss: 0,1 must be a number; use a point"),
        (
            {"text": MINE, "loss": "1", "timeout": "0", "attempts": "2.5", "retry": "again"},
            "Loss: 1 must be at least 0 and below 1; Time limit: 0 must be above 0, in seconds; "
            "Requests in all: 2.5 must be a whole number from 2 to 10; "
            "Retry: again must be never, same_peer or redraw",
        ),
        ({"text": MINE, "attempts": "3"}, "Requests in all: choose under Retry whom a user asks again"),
        ({"text": MINE, "replicate": "-1"}, "replicate -1: must be a whole number"),
        ({"scenario": "../quickstart"}, "scenario ../quickstart: nothing of p2p-sim has this name"),
        ({"scenario": "sweeps/users"}, "scenario: this is a sweep"),
        ({"scenario": "dp-sgd"}, ""),
    ],
)
def test_what_cannot_be_played_is_one_line(client, fields, said):
    answer = client.get("api/film", fields)
    assert (answer.status, answer.json()["error"][: len(said)]) == (400, said)


# -- the process beside the server, and the command ------------------------------------------------------------------


def test_the_newest_question_counts_and_a_lost_answer_is_one_line(monkeypatch):
    monkeypatch.setattr(worker_process, "PATIENCE_S", 0.05)
    monkeypatch.setattr(worker_process, "answered", in_process.slow)

    async def all_of_it():
        one = worker_process.Lane()
        await one.warm()
        asked = [asyncio.create_task(one.ask("told", {"s": s})) for s in ("30", "20", "0.0")]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [worker_process.Superseded, worker_process.Superseded, dict]
        with pytest.raises(InputError, match="the answer was lost"):
            await one.ask("told", {"end": "1"})
        assert await one.ask("told", {"s": "0.01"}) == {"said": "0.01"}
        monkeypatch.setattr(worker_process, "LONGEST_S", 0.05)
        with pytest.raises(InputError, match="there is no answer after"):
            await one.ask("told", {"s": "30"})

    asyncio.run(all_of_it())


def test_without_the_extra_it_is_one_line(monkeypatch):
    monkeypatch.setattr(command_module, "find_spec", lambda name: None)
    status, out, err = command("explore", "--no-open")
    assert (status, out) == (2, "")
    assert (
        err == "p2p-sim: explore: needs Starlette and uvicorn: pip install -e '.[explore]' in the project's directory\n"
    )


def test_bad_arguments_are_one_line(tmp_path):
    for arguments, said in (
        ((tmp_path / "no",), "no: there is no such directory"),
        (("--port", "70000"), "--port 70000"),
    ):
        status, out, err = command("explore", "--no-open", *arguments)
        assert (status, out, err.count("\n"), said in err) == (2, "", 1, True)
