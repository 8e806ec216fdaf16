"""UCI Heart: four hospitals as four clusters, and the shipped scenario on them."""

import numpy as np
import pytest

import p2p_sim
from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.population.branches import CENTRE, HOSPITALS, SPREAD, HeartConfig
from p2p_sim.population.build import build_population
from p2p_sim.population.clustering import GivenClusters

STREAMS = Streams(1, 0)
LINE = "63,1,4,140,0,0,1,112,1,3,2,?,?,2\n"


def written(folder, line=LINE):
    for k, name in enumerate(HOSPITALS):
        (folder / f"processed.{name}.data").write_text(LINE * (19 + k) + line)
    return folder


def test_features_are_scaled_by_constants_and_what_is_missing_is_the_centre(tmp_path):
    sample = HeartConfig().sample((written(tmp_path),), STREAMS)
    row = sample.users.features[0]
    assert row[0] == (63 - CENTRE[0]) / SPREAD[0]
    assert row[[4, 11, 12]].tolist() == [0.0, 0.0, 0.0]
    assert set(sample.users.labels.tolist()) == {1}
    assert sample.users.source_rows == 86


def test_every_row_of_the_holdout_knows_its_hospital(tmp_path):
    people = build_population(HeartConfig(test_fraction=0.5), GivenClusters(), (written(tmp_path),), STREAMS)
    held = np.bincount(people.holdout.cluster, minlength=4)
    assert (people.cluster_sizes + held).tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("63,1\n", "not the UCI Heart format"),
        (LINE.replace("112", "x"), "not the UCI Heart format .*'x'"),
        (LINE.replace(",2\n", ",?\n"), "the last one 0 to 4"),
        (LINE.replace("112", "1e300"), "a number is larger than 1e"),
        (LINE.replace("112", "inf"), "a number is larger than 1e"),
    ],
)
def test_other_formats_are_refused(tmp_path, line, message):
    with pytest.raises(InputError, match=message) as refused:
        HeartConfig().sample((written(tmp_path, line),), STREAMS)
    assert "\n" not in str(refused.value)


def test_missing_files_are_named():
    with pytest.raises(InputError, match=r"'uci-heart': no file processed\.cleveland\.data"):
        HeartConfig().files(())


def test_the_four_hospitals_from_the_data_directory(data_dir, scenarios, tmp_path):
    users = HeartConfig(test_fraction=0.001).sample((data_dir,), STREAMS).users
    assert len(users.labels) == 919
    assert (np.abs(np.bincount(users.cluster) - [303, 294, 123, 200]) <= 1).all()
    row = p2p_sim.run(p2p_sim.load_scenario(scenarios / "models" / "heart.toml"), 1, data_dir).row
    assert (row["num_clusters"], row["adjacency"]) == (4, "example")
    assert row["epsilon_upper"] <= 1.0
    assert 0.5 < row["nonprivate_error_rate"] + 0.4 < 0.75
