"""Overlays from files, and where users stood in their source."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2p_sim.base.errors import InputError
from p2p_sim.network.network_config import NetworkConfig
from p2p_sim.network.overlay import FileOverlay, OverlayInput
from p2p_sim.population.build import build_population
from p2p_sim.population.clustering import GivenClusters, GridClusters, KMeansClusters
from p2p_sim.population.digits_and_adult import DigitsConfig
from p2p_sim.population.synthetic import SyntheticConfig
from p2p_sim.population.table import TableConfig
from tests.network.test_overlay import STREAMS, faults, offsets_of, pairs_of, same


def write(tmp_path, text, name="friends.txt"):
    (tmp_path / name).write_text(text)
    return FileOverlay(path=name)


def test_an_edge_list_is_read_with_all_its_freedoms(tmp_path):
    text = "\ufeff# friends\r\n0 1\n1\t0  # again\n2,3\n 3 , 4\n4 4\n\n1 2\n5 0\n"
    config = write(tmp_path, text)
    overlay = config.build(OverlayInput(offsets_of([2, 3, 2]), STREAMS, (tmp_path,)))
    assert faults(overlay, offsets_of([2, 3, 2])) == []
    assert pairs_of(overlay).tolist() == [[0, 1], [1, 0], [2, 3], [3, 2], [3, 4], [4, 3]]
    assert overlay.dropped_edges == 2  # 1-2 and 5-0 join clusters; loop and repetition count for nothing
    assert (overlay.isolated, overlay.disconnected_clusters(offsets_of([2, 3, 2]))) == (2, 1)
    assert NetworkConfig(overlay=config).files((tmp_path,)) == [tmp_path / "friends.txt"]
    assert overlay.shard(2, 5).indices.tolist() == [1, 0, 2, 1]


@settings(max_examples=30, deadline=None)
@given(
    edges=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=40),
    held=st.sets(st.integers(0, 19), max_size=8),
    cut=st.integers(1, 11),
    seed=st.integers(0, 1000),
)
def test_a_file_means_rows_of_the_source(tmp_path_factory, edges, held, cut, seed):
    """Against plain sets: whoever was held out, and however users were reordered."""
    tmp_path = tmp_path_factory.mktemp("overlay")
    row = np.random.default_rng(seed).permutation([r for r in range(20) if r not in held]).astype(np.int32)
    offsets = np.array([0, cut, len(row)])
    users = {r: i for i, r in enumerate(row.tolist())}
    distinct = {frozenset(edge) for edge in edges if edge[0] != edge[1]}
    within = {
        frozenset(users[r] for r in edge)
        for edge in distinct
        if not edge & held and len({users[r] < cut for r in edge}) == 1
    }
    config = write(tmp_path, "\n".join(f"{a} {b}" for a, b in edges))
    if not within:
        with pytest.raises(InputError, match=f"none of its {len(distinct)} edges joins two users of one cluster"):
            config.build(OverlayInput(offsets, STREAMS, (tmp_path,), row, 20))
        return
    overlay = config.build(OverlayInput(offsets, STREAMS, (tmp_path,), row, 20))
    assert faults(overlay, offsets) == []
    assert {frozenset(pair) for pair in pairs_of(overlay).tolist()} == within
    assert overlay.dropped_edges == len(distinct) - len(within)


@pytest.mark.parametrize("directed", [False, True])
def test_graphml_of_networkx_is_read(tmp_path, directed):
    graph = nx.gnm_random_graph(30, 60, seed=1, directed=directed)
    graph.nodes[3]["colour"] = "red"
    nx.set_edge_attributes(graph, 0.5, "weight")
    nx.write_graphml_xml(graph, tmp_path / "friends.graphml")
    nx.write_edgelist(graph, tmp_path / "friends.txt", data=False)
    offsets = np.array([0, 30])
    one = FileOverlay(path="friends.graphml").build(OverlayInput(offsets, STREAMS, (tmp_path,)))
    other = FileOverlay(path="friends.txt").build(OverlayInput(offsets, STREAMS, (tmp_path,)))
    assert same(one, other)
    assert set(map(frozenset, pairs_of(one).tolist())) == set(map(frozenset, graph.edges))


GRAPHML = '<graphml>\n<graph edgedefault="undirected">\n{}\n</graph></graphml>'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "0 1\n0 x\n", r"network.overlay.path = '.*a.txt': line 2: 'x' is no user; .* 0 to 4$"),
        ("a.txt", "0 1\n\n# more\n5 0", "line 4: '5' is no user"),
        ("a.txt", "-1 0", "line 1: '-1' is no user"),
        ("a.txt", "1.0 0", "line 1: '1.0' is no user"),
        ("a.txt", "1_0 0", "line 1: '1_0' is no user"),
        ("a.txt", "٣ 0", "line 1: '٣' is no user"),
        ("a.txt", "0 1" + "9" * 6000, "line 1: '19999.* is no user"),
        ("a.csv", "source,target\n0,1", "line 1: 'source' is no user"),
        ("a.txt", "0 1\n2", "line 2: '2' is not two ids"),
        ("a.txt", "0 1 2", "line 1: '0 1 2' is not two ids"),
        ("a.txt", "0,,1", "line 1: '0,,1' is not two ids"),
        ("a.txt", "", "none of its 0 edges"),
        ("a.txt", "1 1", "none of its 0 edges"),
        ("a.txt", "0 4", "none of its 1 edges joins two users of one cluster"),
        ("a.graphml", "0 1", "line 1: not GraphML"),
        ("a.graphml", "", "line 1: not GraphML"),
        ("a.graphml", "<gexf>\n</gexf>", "line 1: the first element is <gexf>, not <graphml>"),
        ("a.graphml", GRAPHML.format('<edge source="0" target="1"/>')[:-4], "line 4: not GraphML"),
        ("a.graphml", GRAPHML.format('<node id="n0"/>'), "line 3: 'n0' is no user"),
        ("a.graphml", GRAPHML.format('<edge source="0" target="7"/>'), "line 3: '7' is no user"),
        ("a.graphml", GRAPHML.format('<edge source="0"/>'), "line 3: <edge> without 'target'"),
        ("a.graphml", GRAPHML.format("<hyperedge/>"), "line 3: <hyperedge> is not allowed"),
        ("a.graphml", '<?xml version="1.0" encoding="none"?>\n<graphml/>', "not GraphML"),
        ("a.txt.gz", "0 1", "cannot be read"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as raised:
        FileOverlay(path=name).build(OverlayInput(np.array([0, 2, 5]), STREAMS, (tmp_path,)))
    assert "\n" not in str(raised.value)


def test_a_missing_or_binary_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"network.overlay.path = 'none.txt': no such file"):
        FileOverlay(path="none.txt").build(OverlayInput(np.array([0, 2]), STREAMS, (tmp_path,)))
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        FileOverlay(path="a.txt").build(OverlayInput(np.array([0, 2]), STREAMS, (tmp_path,)))


def test_a_changed_file_is_read_again(tmp_path):
    offsets = np.array([0, 4])
    first = write(tmp_path, "0 1").build(OverlayInput(offsets, STREAMS, (tmp_path,)))
    second = write(tmp_path, "0 1\n2 3").build(OverlayInput(offsets, STREAMS, (tmp_path,)))
    assert (len(first.indices), len(second.indices)) == (2, 4)


# rows of the source


def test_users_remember_their_row(tmp_path):
    table = pd.DataFrame({"x": np.arange(50.0), "sick": np.arange(50) % 2})
    table.to_csv(tmp_path / "own.csv", index=False)
    source = TableConfig(path="own.csv", label="sick")
    population = build_population(source, GridClusters(bins=3), (tmp_path,), STREAMS)
    assert np.array_equal(population.features[:, 0], population.row)
    assert population.row.dtype == np.int32
    assert (population.num_users, population.source_rows) == (40, 50)


def test_rows_of_data_sets_and_of_synthetic_users():
    from sklearn.datasets import load_digits

    digits = build_population(DigitsConfig(), KMeansClusters(count=10), (), STREAMS)
    assert digits.source_rows == 1797
    assert np.array_equal(load_digits().data[digits.row] / 16.0, digits.features)
    drawn = build_population(SyntheticConfig(users=300, num_clusters=2), GivenClusters(), (), STREAMS)
    assert (drawn.row, drawn.source_rows) == (None, None)  # stored as they were drawn
    grouped = build_population(SyntheticConfig(users=300, num_clusters=2), GridClusters(dims=(2,), bins=2), (), STREAMS)
    assert np.array_equal(drawn.features[grouped.row], grouped.features)
    assert sorted(grouped.row) == list(range(grouped.source_rows))
    wrong = replace(grouped, row=grouped.row[::-1])
    assert not np.array_equal(drawn.features[wrong.row], grouped.features)  # control
