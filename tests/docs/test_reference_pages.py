"""The reference pages say what there is: scenario keys, commands, columns of a row, public names."""

import importlib
import re

import pytest

import p2p_sim
from docs.docstrings import as_restructured, with_fields_listed
from docs.generated import command_line, scenario_keys
from docs.markdown import cell, table
from p2p_sim.learning.histogram import FIGURES as DENSITY
from p2p_sim.learning.ridge import FIGURES
from p2p_sim.scenario import Scenario
from tests.conftest import ROOT

TREE = {"name": "t", "population": {"kind": "synthetic", "users": 60, "num_clusters": 2}}
EXCHANGE = {"flip_prob": 0.1, "sampling_rate": 0.5}


def columns(page: str) -> list[str]:
    """Names in the first cells of a page's tables."""
    cells = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


OF_ORGANISATIONS = {
    *("epsilon_by_organisation", "shown_by_organisation", "arrived_by_organisation"),
    *("models_arrived", "organisations_offline"),
}

OF_LARGE_OVERLAYS = {"epsilon_sample_upper"}
OF_NUMBERS = set(FIGURES)
OF_DENSITIES = set(DENSITY)


@pytest.mark.parametrize(
    "tree",
    [
        {"mechanism": EXCHANGE, "network": {"loss": 0.1}, "adversaries": {"coalition": {"share": 0.1}}},
        {"mechanism": {"kind": "randomized_response", "flip_prob": 0.1}, "engine": "vectorised"},
    ],
)
def test_the_columns_of_a_row_are_those_on_the_page(tree):
    listed = columns((ROOT / "docs" / "row-columns.md").read_text(encoding="utf-8"))
    row = p2p_sim.run(Scenario.from_tree({**TREE, **tree})).row
    assert len(listed) == len(set(listed))
    assert set(listed) - OF_ORGANISATIONS - OF_LARGE_OVERLAYS - OF_NUMBERS - OF_DENSITIES == set(row)


def test_organisations_have_columns_of_their_own():
    listed = columns((ROOT / "docs" / "row-columns.md").read_text(encoding="utf-8"))
    row = p2p_sim.run(p2p_sim.load_scenario(ROOT / "scenarios" / "models" / "stacking.toml")).row
    assert set(row) == set(listed) - OF_LARGE_OVERLAYS - OF_NUMBERS - OF_DENSITIES > OF_ORGANISATIONS


def test_labels_that_are_numbers_have_columns_of_their_own():
    listed = columns((ROOT / "docs" / "row-columns.md").read_text(encoding="utf-8"))
    row = p2p_sim.run(p2p_sim.load_scenario("diabetes", ["population.grid=5"])).row
    assert set(row) == set(listed) - OF_LARGE_OVERLAYS - OF_ORGANISATIONS - OF_DENSITIES > OF_NUMBERS


def test_densities_have_columns_of_their_own():
    listed = columns((ROOT / "docs" / "row-columns.md").read_text(encoding="utf-8"))
    tree = {"name": "t", "population": {"kind": "real_line"}, "mechanism": {"kind": "private_density"}}
    row = p2p_sim.run(Scenario.from_tree(tree)).row
    assert set(row) == set(listed) - OF_LARGE_OVERLAYS - OF_ORGANISATIONS - OF_NUMBERS > OF_DENSITIES


def test_every_scenario_key_is_listed_with_what_it_takes():
    page, schema = scenario_keys(), Scenario.model_json_schema()
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    tables = [schema, *(d for d in schema["$defs"].values() if "properties" in d)]
    assert {key for t in tables for key in t["properties"]} - {"kind"} == listed - {"kind"}
    kinds = {t["properties"]["kind"]["const"] for t in tables if "const" in t["properties"].get("kind", ())}
    assert kinds == set(re.findall(r'^##+ `\[[\w.]+\]` kind = "([\w-]+)"$', page, re.MULTILINE))
    assert "| `sampling_rate` | number, ≥ 1e-09, ≤ 1 | `1.0` | θ" in page
    assert '| `engine` | `"events"`, `"processes"`, `"vectorised"` | `"events"` |' in page


def test_every_command_is_listed_with_its_options_and_example():
    page = command_line()
    for name in ("new", "run", "sweep", "plot", "compare", "report", "validate", "schema", "privacy", "calibrate",
                 "audit", "network", "check-bounds", "scenarios", "data"):  # fmt: skip
        assert f"## {name}\n" in page
        assert f"Example: `p2p-sim {name}" in page
    assert "| `--delta` | `D` | δ, above 0 and below 1; prints ε. |  |" in page
    assert "|  | `SCENARIO` | File or name of a scenario, such as quickstart. | required |" in page


def test_signs_mean_themselves():
    assert table(("a",), [[cell("|w| < 2**3, `x|*`")]]).splitlines()[2] == r"| \|w\| &lt; 2\*\*3, `x\|*` |"
    assert as_restructured(["|k| * `a|b` coef_, x_1", ">>> a | b"]) == [r"\|k\| \* `a|b` coef\_, x_1", ">>> a | b"]
    assert with_fields_listed(["Text.", "a, b: two", "more", "", "note: no"], {"a", "b"}) == [
        "Text.", "", "* a, b: two", "  more", "", "note: no",
    ]  # fmt: skip


def test_public_names_stay_what_they_are_whatever_is_imported():
    """The package `p2p_sim.sweep` once hid the function of that name."""
    importlib.import_module("p2p_sim.sweeps.run_sweep")
    assert all(callable(getattr(p2p_sim, name)) for name in p2p_sim.__all__ if name != "__version__")


def test_a_sweep_after_its_package_is_imported(tmp_path):
    importlib.import_module("p2p_sim.sweeps.run_sweep")
    base = Scenario.from_tree({**TREE, "mechanism": EXCHANGE, "engine": "vectorised"})
    rows = p2p_sim.sweep(base, {"mechanism.flip_prob": [0.1, 0.2]}, replicates=1, out=tmp_path)
    assert rows["flip_prob"].tolist() == [0.1, 0.2]


def test_published_rows_are_read_from_the_table_alone(tmp_path):
    rows = p2p_sim.load_results(ROOT / "results" / "published" / "clustering-synthetic" / "clustering-exchange")
    assert len(rows) == 240
    (tmp_path / "manifest.json").write_text("{}")
    assert p2p_sim.load_results(tmp_path).empty
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(p2p_sim.InputError, match=r"rows\.parquet: cannot be read"):
        p2p_sim.load_results(tmp_path)
