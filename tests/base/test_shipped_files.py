"""What comes with p2p-sim is found by name, beside the user's own files, and listed with what it needs."""

import hashlib
import json
import tomllib
from importlib.util import find_spec

import pytest

import p2p_sim
from p2p_sim.base import shipped_files
from p2p_sim.base.shipped_files import find_scenario
from p2p_sim.cli.printing import numbers
from p2p_sim.population.data_sets import data_set
from p2p_sim.sweeps.catalogue import catalogue
from p2p_sim.sweeps.plan import load_sweep
from tests.commands import command
from tests.conftest import ROOT

TINY = 'name = "mine"\npopulation = {kind = "synthetic", users = 60}\nmechanism = {flip_prob = 0.2}\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty directory, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("P2P_SIM_DATA", raising=False)
    monkeypatch.setattr(numbers, "PIPED", 10_000)  # a line for each entry of a list
    return tmp_path


def test_every_file_has_a_name_and_every_name_a_file():
    files = {path for top in ("scenarios", "examples") for path in (ROOT / top).rglob("*.toml")}
    assert {path.resolve() for path in shipped_files.shipped().values()} == {
        path for path in files if path.name != "pyproject.toml" and path.parent.name != "releases"
    }
    assert find_scenario("vectors").parent.name == "scenarios"
    assert find_scenario("vectors", sweep=True) == find_scenario("sweeps/vectors")
    assert find_scenario("privacy-utility") == find_scenario("privacy-utility", sweep=True)


def test_a_run_by_name_leaves_its_results_here(here):
    small = ("--set", "replicates=1", "--set", "population.users=300", "--engine", "vectorised")
    status, out, err = command("run", "synthetic", *small)
    assert (status, err.splitlines()[0]) == (0, f"synthetic: comes with p2p-sim ({find_scenario('synthetic')})")
    assert [path.name[:10] for path in (here / "results").iterdir()] == ["synthetic-"]
    assert "synthetic: 1 replicate, each with fresh random draws\n" in out


def test_files_beside_a_scenario_are_found_from_anywhere(here):
    scenario = p2p_sim.load_scenario("network/availability-trace").replace(**{"population.users": 60})
    assert p2p_sim.run(scenario).row["num_users"] == 60
    status, _, err = command("sweep", "privacy-utility", "--dry-run")
    assert (status, "comes with p2p-sim" in err) == (0, True)


def test_python_takes_names_too(here):
    by_path = p2p_sim.load_scenario(ROOT / "scenarios" / "quickstart.toml")
    assert p2p_sim.load_scenario("quickstart").content_hash() == by_path.content_hash()
    result = p2p_sim.run("wine", replicate=1)
    assert (result.row["replicate"], result.population.num_classes) == (1, 3)
    assert load_sweep("comparison/digits").size == 48


def test_ones_own_file_wins_and_it_is_said(here):
    (here / "quickstart.toml").write_text(TINY)
    status, _, err = command("validate", "quickstart")
    assert (status, p2p_sim.load_scenario(here / "quickstart.toml").name) == (0, "mine")
    assert err == (
        "p2p-sim: warning: quickstart: your own file quickstart.toml is taken, not the one of this name of p2p-sim\n"
    )
    with pytest.warns(UserWarning, match="your own file"):
        assert p2p_sim.load_scenario("quickstart").name == "mine"
    (here / "other.toml").write_text(TINY)
    status, _, err = command("validate", "other")
    assert (status, err) == (0, "")


def test_a_sweep_of_ones_own_may_name_a_shipped_base(here):
    text = 'name = "s"\nbase = "{}"\n[[axes]]\nkey = "seed"\nvalues = [1, 2]\n'
    (here / "s.toml").write_text(text.format("quickstart"))
    assert load_sweep("s").base.folder == find_scenario("quickstart").parent
    folder = here / "folder"
    folder.mkdir()
    (folder / "mine.toml").write_text(TINY)
    (folder / "s.toml").write_text(text.format("mine"))
    assert load_sweep("folder/s").base.name == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "quikstart"), "did you mean quickstart? (`p2p-sim scenarios` lists what has)"),
        (("sweep", "privacy-utilty"), "did you mean privacy-utility?"),
        (("run", "network"), "network: there is no such file, and nothing of p2p-sim has this name"),
        (("run", "../scenarios/quickstart"), "there is no such file"),
        (("run", "quickstart.toml"), "quickstart.toml: cannot be read"),
        (("run", "own_mechanism/own"), "own.toml: needs the plug-in own-mechanism: `p2p-sim scenarios --copy-example"),
        (("run", "mnist"), "(`p2p-sim data where mnist` says what goes where)"),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line_with_a_way_out(here, arguments, said):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert list(here.iterdir()) == []


def test_the_installed_example_runs_by_name(installed, here):
    status, _, err = command("run", "own_mechanism/own", "--set", "replicates=1", "--set", "population.users=400")
    assert status == 0, err


def test_the_list_says_what_each_shows_and_needs(here):
    status, out, _ = command("scenarios")
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert (status, len(lines)) == (
        0,
        len(shipped_files.shipped()) - 1 + 3,
    )  # vectors is a scenario and a sweep; three more
    assert lines["quickstart"].endswith("what does a learner get, and what does it find out about any one user?")
    assert lines["adult"].endswith(
        "income above 50,000 is the private label. (needs data set adult: missing, see `p2p-sim data where adult`)"
    )
    deep = "found" if find_spec("torch") else "missing"
    told = f"(needs data set cifar-10: missing, see `p2p-sim data where cifar-10`, extra [deep]: {deep}, a GPU)"
    assert lines["vector/cifar-10"].endswith(told)
    assert lines["own_mechanism/star"].endswith("(needs plug-in own-mechanism: missing)")
    assert "needs" not in lines["wine"] + lines["breast-cancer"] + lines["comparison/digits"]
    status, out, _ = command("scenarios", "--json")
    record = json.loads(out)
    assert [part["name"] for part in record["sweeps"]] == [entry.name for entry in catalogue() if entry.sweep]


def test_the_list_of_one_paper(here):
    status, out, _ = command("scenarios", "--paper", "yao2019stacking", "--json")
    record = json.loads(out)
    names = {part["name"] for part in record["scenarios"]}
    assert status == 0
    assert {"models/heart", "models/stacking"} <= names
    assert "quickstart" not in names
    assert all("yao2019stacking" in part["papers"] for part in record["scenarios"] + record["sweeps"])
    shown = command("scenarios", "--paper", "yao2019stacking")[1]
    assert {line.split()[0] for line in shown.splitlines() if line} >= names
    exchange = json.loads(command("scenarios", "--paper", "esfandiari2022clustering", "--json")[1])
    assert "quickstart" in {part["name"] for part in exchange["scenarios"]}  # the kind that is meant if none is given


def test_the_list_of_an_unknown_paper_is_refused(here):
    status, out, err = command("scenarios", "--paper", "yao2018stacking")
    assert (status, out) == (2, "")
    assert "--paper yao2018stacking: must be one of esfandiari2022clustering, " in err


def test_the_list_says_what_is_found(here, installed, monkeypatch):
    one = data_set("adult")
    for file in one.files:
        (here / file.name).touch()
    monkeypatch.setenv("P2P_SIM_DATA", str(here))
    lines = {line.split()[0]: line for line in command("scenarios")[1].splitlines() if line}
    assert lines["adult"].endswith("(needs data set adult: found)")
    assert lines["own_mechanism/star"].endswith("(needs plug-in own-mechanism: found)")


def test_the_identity_of_what_is_shipped_stays():
    """Results on disk are found by it; without data and without the model version, which may rise."""
    found = {}
    for name, path in shipped_files.shipped().items():
        if "axes" not in tomllib.loads(path.read_text(encoding="utf-8")) and not path.is_relative_to(
            shipped_files.EXAMPLES
        ):
            said = json.dumps(p2p_sim.load_scenario(path).canonical(), sort_keys=True)
            found[name] = hashlib.sha256(said.encode()).hexdigest()[:16]
    pinned = tomllib.loads((ROOT / "tests" / "shipped_identities.toml").read_text(encoding="utf-8"))
    assert found == pinned


def test_every_shipped_file_says_what_it_shows():
    assert [entry.name for entry in catalogue() if not 20 <= len(entry.shows) <= 300] == []


def test_the_example_is_copied_whole_to_a_new_directory(here):
    status, _, err = command("scenarios", "--copy-example", "mine")
    assert (status, err) == (0, "mine: install it with `pip install --editable mine`\n")
    original = ROOT / "examples" / "own_mechanism"
    assert {p.name for p in (here / "mine").iterdir()} >= {p.name for p in original.iterdir() if p.suffix}
    status, _, err = command("scenarios", "--copy-example", "mine")
    assert (status, err) == (2, "p2p-sim: --copy-example mine: is there already; name a new directory\n")


def test_the_version_is_written_in_one_place(here, capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert p2p_sim.__version__ == project["version"]
    status, out, _ = command("--version")
    assert status == 0
    assert out.startswith(f"p2p-sim {project['version']}, Python 3.")
    assert ", NumPy " in out
    copies = [path for path in (ROOT / "p2p_sim").rglob("*.py") if f'"{project["version"]}"' in path.read_text("utf-8")]
    assert copies == []


@pytest.mark.parametrize(
    ("name", "users", "features", "classes"), [("breast-cancer", 455, 30, 2), ("wine", 142, 13, 3)]
)
def test_tables_of_scikit_learn_need_no_data_directory(here, name, users, features, classes):
    result = p2p_sim.run(p2p_sim.load_scenario(name, ['engine="vectorised"']))
    people = result.population
    assert (people.num_users, people.features.shape[1], people.num_classes) == (users, features, classes)
    assert abs(people.features.mean()) < 0.1
    majority = max((people.labels == label).mean() for label in range(classes))
    assert 1 - result.row["error_rate"] > majority + 0.1


def test_label_1_of_a_tumour_is_malignant():
    from p2p_sim.base.streams import Streams
    from p2p_sim.population.scikit_tables import BreastCancerConfig

    sample = BreastCancerConfig().sample((), Streams(1, 0))
    assert int(sample.users.labels.sum()) + int(sample.holdout.labels.sum()) == 212
