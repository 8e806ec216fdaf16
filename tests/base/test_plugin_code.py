"""The code of a plug-in is part of the identity of what uses it: an edited plug-in never gets its old rows."""

import importlib
import json
import os
import sys
from dataclasses import replace

import pytest

import p2p_sim
from p2p_sim.base import plugins
from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.scenario import Scenario, load_scenario
from p2p_sim.sweeps import tasks
from p2p_sim.sweeps.dask_workers import compare, versions
from p2p_sim.sweeps.tasks import Task, perform
from tests.plug_ins import EXAMPLE, install

MECHANISM = "p2p_sim.mechanisms"
MODULE = """
from typing import Literal
from p2p_sim.extend import LocalMechanism
class Whole(LocalMechanism):
    kind: Literal["mine"] = "mine"
    def transition(self, num_classes):
        raise NotImplementedError
"""
OFFERED = {MECHANISM: {"mine": "mine.kinds:Whole"}}


def anew():
    """Forget the modules of these packages, as a new process would."""
    for name in list(sys.modules):
        if name.partition(".")[0] in (
            "mine",
            "beside",
            "shared",
            "own_mechanism",
            "own_population",
            "own_learner",
            "own_overlay",
            "jammed",
        ):
            del sys.modules[name]
    importlib.invalidate_caches()
    plugins.offers.cache_clear()
    tasks._scenario.cache_clear()


@pytest.fixture(autouse=True)
def forgotten():
    yield
    anew()


def mine() -> str:
    return Scenario.from_tree({"name": "x", "mechanism": {"kind": "mine"}}).content_hash()


def written(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def package(folder):
    """A package with a module in each place in which code may be."""
    for name in ("__init__", "helper", "inner/__init__", "inner/deep"):
        written(folder / "mine" / f"{name}.py")
    written(folder / "mine" / "kinds.py", MODULE)
    written(folder / "beside.py")


CODE = ("mine/__init__.py", "mine/kinds.py", "mine/helper.py", "mine/inner/deep.py", "beside.py")


def plain(folder, monkeypatch):
    """Its files lie on the import path, and its metadata name them, as pip writes it."""
    package(folder)
    install(folder, "mine", "1.0", OFFERED)
    written(
        folder / "mine-1.0.dist-info" / "RECORD",
        "".join(f"{name},,\n" for name in (*CODE, "mine-1.0.dist-info/RECORD")),
    )
    return folder


def by_top_level(folder, monkeypatch):
    """An editable install of setuptools: the metadata name modules, which lie elsewhere."""
    source = folder.parent / "source"
    package(source)
    install(folder, "mine", "1.0", OFFERED)
    written(folder / "mine-1.0.dist-info" / "top_level.txt", "mine\nbeside\n")
    written(folder / "mine-1.0.dist-info" / "RECORD", "__editable___mine_1_0_finder.py,,\n__editable__.mine.pth,,\n")
    written(folder / "__editable___mine_1_0_finder.py", f"MAPPING = {str(source)!r}")
    monkeypatch.syspath_prepend(source)
    return source


def by_path_file(folder, monkeypatch):
    """An editable install of others: a folder is added to the import path, and nothing is said of what is there."""
    source = folder.parent / "source"
    package(source)
    install(folder, "mine", "1.0", OFFERED)
    written(folder / "mine-1.0.dist-info" / "RECORD", "_mine.pth,,\n")
    written(folder / "_mine.pth", f"import os\n{source}\n")
    monkeypatch.syspath_prepend(source)
    return source


@pytest.mark.parametrize("installed_as", [plain, by_top_level, by_path_file])
@pytest.mark.parametrize("changed", CODE)
def test_whatever_file_is_edited_the_identity_is_another(folder, monkeypatch, installed_as, changed):
    source = installed_as(folder, monkeypatch)
    anew()
    before = mine()
    anew()
    assert mine() == before
    (source / changed).write_text((source / changed).read_text() + "\n# edited\n")
    anew()
    assert mine() != before


@pytest.mark.parametrize("installed_as", [plain, by_top_level, by_path_file])
def test_new_files_are_code_and_data_and_what_belongs_to_others_are_none(folder, monkeypatch, installed_as):
    source = installed_as(folder, monkeypatch)
    written(folder / "theirs.py", "x = 1")
    anew()
    before = mine()
    written(source / "mine" / "data.csv", "1,2")
    written(source / "mine" / "__pycache__" / "old.py", "x = 1")
    written(source / "unrelated" / "notes.py", "x = 1")
    written(folder / "theirs.py", "x = 2")
    anew()
    assert mine() == before
    written(source / "mine" / "inner" / "more.py")
    anew()
    assert mine() != before


def test_packages_that_share_a_namespace_are_told_apart(folder):
    for name in ("mine", "theirs"):
        install(folder, name, "1.0", {MECHANISM: {name: f"shared.{name}.kinds:Whole"}})
        written(folder / "shared" / name / "__init__.py")
        written(folder / "shared" / name / "kinds.py", MODULE.replace('"mine"', f'"{name}"'))
    anew()
    before = mine()
    written(folder / "shared" / "theirs" / "more.py")
    anew()
    assert mine() == before
    written(folder / "shared" / "mine" / "more.py")
    anew()
    assert mine() != before


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_code_behind_a_link_counts_once(folder):
    package(folder)
    install(folder, "mine", "1.0", OFFERED)
    written(folder.parent / "elsewhere" / "law.py", "x = 1")
    (folder / "mine" / "linked").symlink_to(folder.parent / "elsewhere")
    (folder / "mine" / "round").symlink_to(folder / "mine")
    anew()
    before = mine()
    written(folder.parent / "elsewhere" / "law.py", "x = 2")
    anew()
    assert mine() != before


def own(**changes):
    scenario = load_scenario(EXAMPLE / "own.toml").replace(**{"population.users": 200, "clusters.count": 2})
    return scenario.replace(**{"replicates": 1, **changes})


def test_every_group_has_it_and_built_in_kinds_have_none(installed, scenarios):
    kinds = {
        "population": own(mechanism={"kind": "dp_sgd", "target_epsilon": 1.0}, learner={"kind": "table"}),
        "mechanism": own(population={"kind": "synthetic"}, learner={"kind": "table"}),
        "learner": load_scenario(scenarios / "quickstart.toml").replace(**{"learner.kind": "nearest_mean"}),
        "overlay": load_scenario(EXAMPLE / "star.toml"),
        "fault": load_scenario(EXAMPLE / "jammed.toml"),
    }
    quick = load_scenario(scenarios / "quickstart.toml")
    text = {name: json.dumps(scenario.canonical()) for name, scenario in kinds.items()}
    before = {name: scenario.content_hash() for name, scenario in kinds.items()}
    bare = quick.content_hash()
    assert all(said.count('"plug-in code"') >= 1 for said in text.values())
    written(installed / "jammed.py", (installed / "jammed.py").read_text() + "\n# edited\n")
    trees = {name: scenario.model_dump(mode="json") for name, scenario in kinds.items()}
    anew()
    for name, tree in trees.items():
        assert Scenario.from_tree(tree).content_hash() != before[name]
    assert "plug-in" not in json.dumps(quick.canonical())
    assert quick.content_hash() == bare


def test_what_runs_counts_and_not_what_lies_on_disk_by_now(installed):
    before = own()
    identity = before.content_hash()
    written(installed / "own_mechanism.py", (installed / "own_mechanism.py").read_text() + "\n# edited\n")
    assert before.content_hash() == own().content_hash() == identity


def test_an_edited_plug_in_gets_no_old_rows(installed, tmp_path):
    out = tmp_path / "out"
    first = p2p_sim.run_all(own(), out)
    sweep = p2p_sim.sweep(own(), {"mechanism.flip_prob": [0.1, 0.2]}, out=tmp_path / "swept")
    path = installed / "own_mechanism.py"
    edited = path.read_text().replace("return matrix",
                                      "return matrix[::-1]")  # fmt: skip
    assert edited != path.read_text()
    path.write_text(edited)
    anew()
    with pytest.raises(InputError, match="out"):
        p2p_sim.run_all(own(), out)
    with pytest.raises(InputError, match="swept"):
        p2p_sim.sweep(own(), {"mechanism.flip_prob": [0.1, 0.2]}, out=tmp_path / "swept")
    again = p2p_sim.run_all(own(), tmp_path / "anew")
    assert first["scenario"][0] != again["scenario"][0]
    assert first["error_rate"][0] != again["error_rate"][0]
    assert len(sweep) == 2


def test_a_worker_with_other_code_runs_nothing(installed):
    scenario = own()
    task = Task(scenario.content_hash()[:16], 0, scenario.model_dump_json(), str(scenario.folder))
    assert perform((task,))[0].row is not None
    written(installed / "own_mechanism.py", (installed / "own_mechanism.py").read_text() + "\n# edited\n")
    anew()
    [done] = perform((task,))
    assert done.row is None
    assert isinstance(done.fault, RunFailed)
    assert "plug-in own-mechanism 1.0: a worker has other code" in str(done.error)
    assert perform((replace(task, point=own().content_hash()[:16]),))[0].row is not None


def test_machines_of_a_cluster_need_the_same_code(installed):
    here = versions()
    name = "plug-in own-mechanism with code"
    with pytest.raises(InputError, match=f"w has {name} 00, this process {here[name]}; install the same"):
        compare("tcp://x", here, {"w": {**here, name: "00"}}, own().packages)
    compare("tcp://x", here, {"w": {**here, name: "00"}})


def test_users_and_models_of_an_edited_plug_in_are_not_those_of_before(installed):
    """A process that has loaded a module again has kept what the old code gave."""
    first = p2p_sim.run(own())
    path = installed / "own_population.py"
    path.write_text(path.read_text().replace("features[part], labels[part]", "2 * features[part], labels[part]"))
    anew()
    second = p2p_sim.run(own())
    assert (second.population.features == 2 * first.population.features).all()
