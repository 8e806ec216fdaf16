"""Scenario files: strict, stable under notation, helpful when wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2p_sim.base.configuration import Config
from p2p_sim.base.errors import InputError
from p2p_sim.explorer.film_page import _changes
from p2p_sim.scenario import Scenario, load_scenario
from p2p_sim.sweeps.plan import load_sweep

MINIMAL = {"name": "x", "mechanism": {"flip_prob": 0.1}}


def scenario(**changes):
    return Scenario.from_tree({**MINIMAL, **changes})


def test_hash_is_stable_under_key_order_and_number_notation(tmp_path):
    one = tmp_path / "one.toml"
    one.write_text('name = "a"\n[network]\nstart_window_s = 1\n[mechanism]\nsampling_rate = 1\nflip_prob = 0.1\n')
    two = tmp_path / "two.toml"
    two.write_text("[mechanism]\nflip_prob = 1e-1\nsampling_rate = 1.0\n[network]\nstart_window_s = 1.0\n")
    two.write_text('name = "b"\nreplicates = 3\n' + two.read_text())
    assert load_scenario(one).content_hash() == load_scenario(two).content_hash()


@pytest.mark.parametrize(
    "change",
    [{"seed": 2}, {"engine": "vectorised"}, {"mechanism": {"flip_prob": 0.11}}, {"privacy": {"delta": 1e-6}}],
)
def test_hash_changes_with_what_rows_depend_on(change):
    assert scenario(**change).content_hash() != scenario().content_hash()
    assert scenario().content_hash(["abc"]) != scenario().content_hash()


def test_hash_ignores_paths_but_not_columns():
    def table(**keys):
        return scenario(population={"kind": "table", "path": "a.csv", "label": "y", **keys}).content_hash()

    assert table() == table(path="b/c.csv")
    assert table() != table(label="z")


def test_lists_make_tuples_and_integers_make_floats():
    made = scenario(clusters={"kind": "grid", "dims": [0, 2]}, network={"start_window_s": 2})
    assert made.clusters.dims == (0, 2)
    assert made.network.start_window_s == 2.0


def test_defaults_make_a_scenario_that_runs():
    assert scenario().population.kind == "digits"
    assert (scenario().clusters.kind, scenario().clusters.min_size) == ("kmeans", 36)
    assert scenario(population={"kind": "synthetic"}).clusters.kind == "given"
    assert (
        scenario(population={"kind": "table", "path": "a.csv", "label": "y", "cluster": "c"}).clusters.kind == "given"
    )


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"mechanism": {"flip_prob": 0.6}}, "mechanism.flip_prob = 0.6: must be at most 0.5 for 2 classes"),
        ({"mechanism": {"flip_prob": -0.1}}, "mechanism.flip_prob = -0.1: .*greater than or equal to 0"),
        ({"mechanism": {"flip_prob": 0.1, "sampling_rate": 0}}, "sampling_rate = 0: .*or equal to 0.000000001"),
        ({"mechanism": {"flip_prob": 0.1, "sampling_rate": 1.5}}, "mechanism.sampling_rate = 1.5"),
        ({"mechanism": {"flip_prob": "0.1"}}, 'mechanism.flip_prob = "0.1": should be a valid number'),
        ({"mechanism": {"flip_prop": 0.1}}, "mechanism.flip_prop: unknown key; did you mean mechanism.flip_prob"),
        ({"mechanism": {}}, "mechanism: give either flip_prob or target_epsilon"),
        ({"mechanism": {"flip_prob": 0.1, "target_epsilon": 1}}, "give either flip_prob or target_epsilon"),
        ({"mechanism": 3}, "mechanism = 3: should be an object"),
        ({"engine": "evnts"}, "engine = \"evnts\": should be 'events', 'processes' or 'vectorised'"),
        ({"seed": 1.5}, "seed = 1.5: should be a valid integer"),
        ({"replicates": 0}, "replicates = 0: should be greater than or equal to 1"),
        ({"name": "../x"}, "name = "),
        ({"privacy": {"delta": 0}}, "privacy.delta = 0: .*greater than 0"),
        ({"privacy": {"delta": 1.0}}, "privacy.delta = 1.0: .*less than 1"),
        ({"clusters": {"kind": "kmean"}}, "clusters.kind = \"kmean\": must be one of 'given', 'random', 'kmeans'"),
        ({"clusters": {"count": 3}}, "clusters.kind is missing: must be one of 'agglomerative', .*, 'kmeans'"),
        ({"clusters": {"kind": "kmeans", "min_siz": 3}}, "clusters.min_siz: unknown key; did you mean .*min_size"),
        ({"network": {"latency": {"kind": "constant", "value_s": -1}}}, "network.latency.value_s = -1"),
        ({"network": {"latency": {"kind": "slow"}}}, "network.latency.kind = \"slow\": must be one of 'constant'"),
        ({"population": {"kind": "synthetic", "heterogeneity": 0.9}}, r"population: positive_low .* \[0.45, 0.55\]"),
        ({"population": {"kind": "synthetic", "points_per_cluster": 3}}, "points_per_cluster = 3: .*multiple of 2"),
        ({"engine": "vectorised", "network": {"request_timeout_s": 1}}, "network.request_timeout_s needs 'events'"),
        ({"engine": "vectorised", "adversaries": {"liars": {"share": 0.1}}}, "adversaries.liars needs 'events'"),
        ({"mechanism": {"target_epsilon": 1.0}, "network": {"overlay": {"kind": "regular"}}}, "give flip_prob"),
        (
            {"mechanism": {"target_epsilon": 1.0}, "adversaries": {"free_riders": {"share": 0.1}}},
            r"mechanism\.target_epsilon = 1: .* with adversaries\.free_riders, give flip_prob",
        ),
        (
            {"mechanism": {"target_epsilon": 1.0}, "adversaries": {"liars": {"share": 0.1, "answer": "one"}}},
            "with adversaries.liars",
        ),
        ({"network": {"overlay": {"kind": "ring"}}}, "network.overlay.kind = \"ring\": must be one of"),
        ({"network": {"overlay": {"kind": "regular", "degre": 3}}}, "overlay.degre: unknown key; did you mean"),
        ({"network": {"loss": 1.0}}, "network.loss = 1.0: should be less than 1"),
        ({"network": {"on_timeout": {"retry": "redraw", "attempts": 2}}}, "on_timeout needs request_timeout_s"),
        ({"network": {"on_timeout": {"retry": "redraw"}}}, "attempts = 1: must be 2 to 10 with retry = 'redraw'"),
        ({"network": {"batch_submission": True}}, "batch_submission needs deadline_s"),
        ({"network": {"distance_s": 1.0}}, "distance_s = 1 needs overlay.kind = 'geometric'"),
        ({"network": {"peers": {"kind": "random_walk"}}}, "random_walk' needs an overlay"),
        ({"network": {"peers": {"kind": "gossip"}, "overlay": {"kind": "regular"}}}, "'gossip' needs .* 'complete'"),
        ({"network": {"availability": {"kind": "on_off", "mean_on_s": 1}}}, "availability.mean_off_s: is missing"),
        ({"adversaries": {"coalition": {"choice": "given"}}}, "adversaries.coalition: choice = 'given' with 0 users"),
        ({"adversaries": {"sybil": {"share": 1.0}}}, "adversaries.sybil.share = 1.0: should be less than 1"),
        ({"learner": {"kind": "trimmed_clusters", "trim": 0.5}}, "learner.trim = 0.5: should be less than 0.5"),
    ],
)  # fmt: skip
def test_faults_are_one_line_with_key_value_and_what_is_allowed(tree, message):
    with pytest.raises(InputError, match=message) as caught:
        scenario(**tree)
    assert "\n" not in str(caught.value)


def test_missing_table():
    with pytest.raises(InputError, match="mechanism: is missing"):
        Scenario.from_tree({"name": "x"})


def test_overrides_are_toml(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text('name = "x"\n[mechanism]\nflip_prob = 0.1\n')
    overrides = ["mechanism.flip_prob=0.2", 'population.kind="synthetic"', "population.users = 500"]
    made = load_scenario(path, [*overrides, 'network.latency = {kind = "exponential", mean_s = 2}'])
    assert (made.mechanism.flip_prob, made.population.users, made.network.latency.mean_s) == (0.2, 500, 2.0)
    words = load_scenario(path, ["engine=vectorised", "name = v1.2-b", "population.kind=uci-heart"])
    assert (words.engine, words.name, words.population.kind) == ("vectorised", "v1.2-b", "uci-heart")
    for bad, message in (
        ("mechanism.flip_prob", "must read key=value"),
        ("name=my name", "put text in quotes"),
        ("seed=three", 'seed = "three": should be a valid integer'),
        ("mechanism.flip_prob=0.2\nseed=3", "one value is allowed"),
        ("name.first=1", "name is not a table"),
        ("mechanism.flop=1", "mechanism.flop: unknown key"),
    ):
        with pytest.raises(InputError, match=message):
            load_scenario(path, [bad])


@given(st.text(max_size=60))
def test_no_text_makes_a_traceback(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "s.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        load_scenario(path)


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none.toml: cannot be read \(No such file"):
        load_scenario(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(InputError, match="not valid TOML"):
        load_scenario(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(InputError, match="cannot be read"):
        load_scenario(tmp_path / "latin.toml")


def test_replace_returns_a_changed_copy():
    changed = scenario().replace(seed=7, **{"mechanism.flip_prob": 0.3})
    assert (changed.seed, changed.mechanism.flip_prob) == (7, 0.3)
    assert scenario().replace(population={"kind": "synthetic"}).population.kind == "synthetic"
    with pytest.raises(InputError, match="sed: unknown key; did you mean seed"):
        scenario().replace(sed=7)


def test_every_field_is_documented_in_the_schema():
    schema = Scenario.model_json_schema()
    tables = [schema, *schema["$defs"].values()]
    silent = [
        f"{table.get('title')}.{name}"
        for table in tables
        for name, field in table.get("properties", {}).items()
        if not field.get("description") and name != "kind"
    ]
    assert silent == []
    assert json.loads(json.dumps(schema))["properties"]["mechanism"]


def test_configuration_is_frozen_and_closed():
    for model in Config.__subclasses__():
        assert model.model_config["frozen"]
        assert model.model_config["extra"] == "forbid"
    with pytest.raises(Exception, match="frozen"):
        scenario().seed = 2


def test_shipped_scenarios_are_valid(scenarios):
    files = sorted(path for path in scenarios.rglob("*.toml") if "sweeps" not in path.parts)
    assert len(files) >= 4
    for file in files:
        assert load_scenario(file).name == file.stem


def test_a_target_may_be_set_where_liars_still_give_noisy_labels():
    tree = {"mechanism": {"target_epsilon": 1.0}, "adversaries": {"liars": {"share": 0.1, "answer": "inverted"}}}
    assert scenario(**tree).mechanism.target_epsilon == 1.0


def test_setting_one_of_two_noises_drops_the_other(scenarios):
    chosen = load_scenario(scenarios / "quickstart.toml", ["mechanism.target_epsilon=0.5"])
    assert (chosen.mechanism.flip_prob, chosen.mechanism.target_epsilon) == (None, 0.5)
    assert chosen.replace(**{"mechanism.flip_prob": 0.2}).mechanism.target_epsilon is None


def test_two_keys_of_which_a_scenario_has_one_are_refused_wherever_changes_are_given(tmp_path):
    """The later one won, and nobody was told."""
    both = ["mechanism.flip_prob=0.3", "mechanism.target_epsilon=1.0"]
    for changes in (both, both[::-1], [both[0], "mechanism={target_epsilon=1.0}"]):
        for load in (load_scenario, load_sweep):
            with pytest.raises(InputError, match=r"^--set mechanism.target_epsilon: does not go with --set mechanism"):
                load("quickstart" if load is load_scenario else "privacy-utility", changes)
    with pytest.raises(InputError, match=r"^mechanism.target_epsilon: does not go with mechanism.flip_prob"):
        _changes("\n".join(both))


def test_one_key_still_replaces_the_other_one_of_the_file():
    assert load_scenario("quickstart", ["mechanism.target_epsilon=1.0"]).mechanism.flip_prob is None
    assert load_scenario("quickstart", ["mechanism.flip_prob=0.3"]).mechanism.target_epsilon is None
    twice = ["mechanism.flip_prob=0.3", "mechanism.flip_prob=0.2"]
    assert load_scenario("quickstart", twice).mechanism.flip_prob == 0.2
    unlike = ["mechanism={randomizer={kind='alibi', epsilon=1.0}}", "mechanism.sampling_rate=0.5"]
    assert load_scenario("vector-exchange", unlike).mechanism.randomizer.epsilon == 1.0
