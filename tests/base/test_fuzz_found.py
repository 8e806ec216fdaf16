"""Every fault that fuzzing found, and what it must never find: code run from a pickle, entities that grow."""

import contextlib
import errno
import gzip
import io
import json
import os
import pickle
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import p2p_sim
from p2p_sim.base import whole_files as disk
from p2p_sim.base.errors import LONGEST_LINE, InputError, RunFailed
from p2p_sim.base.toml import parse_override
from p2p_sim.network.overlay_graph import FileOverlay, OverlayInput, read_edges
from p2p_sim.population.digits_and_adult import AdultConfig
from p2p_sim.population.images import Cifar10Config, MnistConfig
from p2p_sim.population.table import TableConfig
from p2p_sim.population.table_survey import look_at
from p2p_sim.report.results_report import write_report
from p2p_sim.results.release_export import export_release
from p2p_sim.results.results_directory import read_results
from p2p_sim.results.rows import stored_rows
from p2p_sim.scenario import load_scenario
from p2p_sim.sweeps.plan import load_sweep
from tests.fuzz.commands import TINY, command
from tests.fuzz.readers import STREAMS, Trap, table, valid
from tests.written_sweeps import AXES, write_sweep

# files of keys and values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = " + "[" * 3000 + "]" * 3000, "not valid TOML (nested more than 40 levels)"),
        ("seed = " + "[" * 60 + "]" * 60, "not valid TOML (nested more than 40 levels)"),
        ("seed = 0x" + "f" * 5000, "is a whole number beyond 64 bits"),
        ("seed = [-0x1, 9223372036854775808]", "not valid TOML"),
        ('"a\\nb" = 1', "a\\nb: unknown key"),
        (f'population = {{kind = "{"x" * 20_000}"}}', "must be one of 'synthetic'"),
        (f'engine = "{"x" * 20_000}"', "should be 'events', 'processes' or 'vectorised'"),
        ("population = {kind = 'synthetic', task = 'even-odd'}", "population.task: unknown key for this kind"),
    ],
)
def test_a_scenario_is_refused_in_one_short_line(tmp_path, text, message):
    path = tmp_path / "s.toml"
    path.write_text('name = "s"\nmechanism = {flip_prob = 0.1}\n' + text)
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    assert message in str(caught.value)
    assert len(str(caught.value)) < LONGEST_LINE + 10
    assert str(caught.value).isprintable()


def test_a_file_without_an_end_is_refused():
    with pytest.raises(InputError, match="is larger than 10,000,000 bytes"):
        load_scenario("/dev/zero")


@pytest.mark.parametrize("value", ["[" * 3000 + "]" * 3000, "0x" + "f" * 5000, "1\n2", "x" * 5000])
def test_an_override_is_refused_in_one_short_line(value):
    with pytest.raises(InputError, match="is not a TOML value") as caught:
        parse_override(f"seed={value}")
    assert len(str(caught.value)) < LONGEST_LINE
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", ["population", "overlay", "latency", "availability"])
@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_names_none(tmp_path, kind, name):
    part: dict[str, object] = {
        "kind": "table" if kind == "population" else "file" if kind == "overlay" else "trace",
        "path": name,
    }
    if kind == "population":
        part["label"] = "label"
    tree = {"population": part} if kind == "population" else {"network": {kind: part}}
    scenario = p2p_sim.Scenario.from_tree({"name": "s", "mechanism": {"flip_prob": 0.1}, **tree}, tmp_path)
    with pytest.raises(InputError, match="no such file"):
        p2p_sim.run(scenario)


@pytest.mark.parametrize("value", ["inf", "nan", "-inf"])
def test_a_sweep_over_no_number_is_refused(tmp_path, value):
    (tmp_path / "s.toml").write_text(TINY)
    axis = f'[[axes]]\nkey = "population.users"\nvalues = [50, {value}]\n'
    (tmp_path / "sweep.toml").write_text(f'name = "x"\nbase = "s.toml"\n{axis}')
    with pytest.raises(InputError, match=r"axes: population.users = "):
        load_sweep(tmp_path / "sweep.toml")


@pytest.mark.parametrize("spaced", ["linear", "log"])
def test_a_sweep_over_endlessly_many_values_is_refused(tmp_path, spaced):
    (tmp_path / "s.toml").write_text(TINY)
    axis = f'[[axes]]\nkey = "population.users"\n{spaced} = [50, 60, 9223372036854775807]\n'
    (tmp_path / "sweep.toml").write_text(f'name = "x"\nbase = "s.toml"\n{axis}')
    with pytest.raises(InputError, match="a count from 2 to 1,000,000"):
        load_sweep(tmp_path / "sweep.toml")


# data files


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("9" * 400, "not the UCI Adult format"),
        ("1e308", "larger than 1e.12"),
        ("inf", "larger than"),
        ("nan", "missing"),
    ],
)
def test_adult_with_a_number_that_is_none_is_refused(tmp_path, number, message):
    for name, content in valid("adult").items():
        (tmp_path / name).write_bytes(content.replace(b"39,", number.encode() + b",", 1))
    with pytest.raises(InputError, match=message):
        AdultConfig().sample((tmp_path,), STREAMS)


def refused(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read|is no text in utf-8") as caught:
        TableConfig(path=name, label="label").sample((folder,), STREAMS)
    return str(caught.value)


def test_a_damaged_compressed_table_is_refused(tmp_path):
    whole = gzip.compress(table().to_csv(index=False).encode())
    packed = bytearray(whole)
    packed[30:60] = bytes(30)
    refused(tmp_path, "t.csv.gz", bytes(packed))
    rng = np.random.default_rng(0)
    for place in rng.integers(10, len(whole) - 8, 200).tolist():  # what comes out may be no text, or end too soon
        packed = bytearray(whole)
        packed[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "t.csv.gz").write_bytes(bytes(packed))
        for read in (lambda: TableConfig(path="t.csv.gz", label="label").sample((tmp_path,), STREAMS),
                     lambda: look_at(tmp_path / "t.csv.gz", "label")):  # fmt: skip
            with contextlib.suppress(InputError):
                read()


def test_a_text_that_is_none_is_refused(tmp_path):
    out = io.BytesIO()
    words = np.array(["no", "yes"] * 20)
    words.view(np.uint32)[0] = 2**31 - 1  # beyond the last character
    np.savez(out, label=words, a=np.arange(40.0))
    refused(tmp_path, "t.npz", out.getvalue())
    content = bytearray(table().to_parquet(index=False, compression=None))
    for place in (at for at in range(len(content)) if content[at : at + 3] == b"yes"):
        content[place : place + 3] = b"ye\xff"
    refused(tmp_path, "t.parquet", bytes(content))


def test_a_member_that_is_no_array_is_refused(tmp_path):
    out = io.BytesIO(valid("npz")["t.npz"])
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("more", b"no array")
    (tmp_path / "t.npz").write_bytes(out.getvalue())
    with pytest.raises(InputError, match=r"'more' of .* is not numeric"):
        TableConfig(path="t.npz", label="label").sample((tmp_path,), STREAMS)


def test_pickles_are_refused_and_never_run(tmp_path):
    trap = pickle.dumps(Trap())
    for name in ("t.csv", "t.csv.gz", "t.parquet", "t.npz"):
        refused(tmp_path, name, trap)
    out = io.BytesIO()
    np.savez(out, label=np.array([Trap(), "no"], dtype=object))
    assert "allow_pickle=False" in refused(tmp_path, "o.npz", out.getvalue())
    for config, kind in ((Cifar10Config(), "cifar"), (MnistConfig(), "idx")):
        for name in valid(kind):
            (tmp_path / name).write_bytes(trap)
        with pytest.raises(InputError, match=r"records of 3073|not an IDX file"):
            config.sample((tmp_path,), STREAMS)


LAUGHS = '<!ENTITY a0 "0">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    ("declared", "reference"),
    [(LAUGHS, "&a9;"), ('<!ENTITY f SYSTEM "file:///etc/hostname">', "&f;"), ("<!ENTITY % p '<x>'> %p;", "")],
)
def test_entities_are_refused_before_they_grow(tmp_path, declared, reference):
    path = tmp_path / "g.graphml"
    path.write_text(
        f'<?xml version="1.0"?>\n<!DOCTYPE graphml [{declared}]>\n'
        f'<graphml><graph>{reference}<edge source="0" target="1"/></graph></graphml>'
    )
    begin = time.perf_counter()
    with pytest.raises(InputError, match=r"line 2: declares an entity, which is not allowed"):
        read_edges(path, 10)
    assert time.perf_counter() - begin < 1.0


def test_a_document_type_alone_is_no_entity(tmp_path):
    """Some tools write one; the address in it is never opened."""
    path = tmp_path / "g.graphml"
    path.write_text(
        '<!DOCTYPE graphml SYSTEM "http://graphml.graphdrawing.org/dtds/1.0rc/graphml.dtd">\n'
        '<graphml><graph><edge source="0" target="1"/></graph></graphml>'
    )
    found = FileOverlay(path=path.name).build(OverlayInput(np.array([0, 3]), STREAMS, (tmp_path,)))
    assert found.degrees.tolist() == [1, 1, 0]


# results directories, and what is written


@pytest.fixture
def sound(tmp_path):
    write_sweep(tmp_path / "r", AXES, 2)
    return tmp_path / "r"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"error_rate": [0.1]}, "line 1 is no row"),
        ({"basis": {"a": 1}}, "line 1 is no row"),
        ({"scenario": 5}, "line 1 is no row"),
        ({"replicate": 10**30}, "line 1 is no row"),
        ({"error_rate": -1e155}, "line 1 is no row"),
        ({"error_rate": "much"}, "column 'error_rate' must hold numbers alone or text alone"),
        ({"num_users": 10**30}, "column 'num_users' must hold numbers alone or text alone"),
    ],
)
def test_cells_that_no_row_has_are_refused(sound, changes, message):
    lines = (sound / "rows.jsonl").read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), **changes})
    (sound / "rows.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=message):
        read_results(sound)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": [{"keys": [["a"]], "values": [[1]]}]}, "keys of an axis must be text"),
        ({"axes": {"keys": ["a"]}}, "axes and plots must be lists of tables"),
        ({"axes": [{"keys": [], "values": []}]}, "an axis has no keys or no values"),
        ({"plots": [{"x": ["a"]}]}, "plots.x must be text"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 1e400}, "seed must be a whole number"),
        ({"scenario": []}, "scenario must be a table"),
        ({"axes": [{"keys": ["mechanism.flip_prob"], "values": [0.1, 0.2]}]}, "the values of an axis must be lists"),
        ({"axes": [{"keys": ["mechanism.flip_prob"], "values": [[0.1, 5]]}]}, "with a value for each of its keys"),
        ({"axes": [{"keys": ["a"], "values": [[1]], "labels": ["b", "c"]}]}, "the labels of an axis must be a list"),
        ({"axes": [{"keys": ["a", "a"], "values": [[1, 2]]}]}, "a cannot be the key of an axis twice"),
        ({"axes": [{"keys": ["replicates"], "values": [[1]]}]}, "replicates cannot be the key of an axis"),
        ({"replicates": "3"}, "replicates must be a whole number"),
        ({"versions": ["3"]}, "versions must be a table"),
    ],
)
def test_manifests_that_say_it_otherwise_are_refused(sound, changes, message):
    content = json.loads((sound / "manifest.json").read_text())
    (sound / "manifest.json").write_text(json.dumps({**content, **changes}))
    with pytest.raises(InputError, match=message):
        read_results(sound)


@pytest.mark.parametrize(
    "changes", [{"replicate": {"a": 1}}, {"error": ["x"]}, {"network.loss": {}}, {"replicate": "1"}]
)
def test_failures_that_no_run_writes_are_refused(sound, changes):
    failure = {"point": "0" * 16, "replicate": 5, "error": "ValueError: planted"}
    (sound / "failures.jsonl").write_text(json.dumps({**failure, **changes}) + "\n")
    with pytest.raises(InputError, match=r"failures\.jsonl: damaged \(a line is no record\)"):
        command("report", str(sound))


@pytest.mark.parametrize("column", ["epsilon_paper", "mechanism_kind", "oracle"])
def test_a_report_of_rows_without_a_column_that_it_reads_is_refused(sound, column):
    rows = [json.loads(line) for line in (sound / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        del row[column]
    (sound / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=f"has no column {column}; another version"):
        command("report", str(sound))


@pytest.mark.parametrize("column", ["num_users", "heterogeneity", "delta", "epsilon_upper"])
@pytest.mark.parametrize("cell", ["x", True])
def test_a_figure_of_rows_with_text_for_a_number_is_refused(sound, column, cell):
    rows = [json.loads(line) for line in (sound / "rows.jsonl").read_text().splitlines()]
    (sound / "rows.jsonl").write_text("".join(json.dumps({**row, column: cell}) + "\n" for row in rows))
    with pytest.raises(InputError, match=f"column {column} must hold numbers alone"):
        command("plot", str(sound))


@pytest.mark.parametrize("column", ["half_l1", "auc", "constant_excess_risk"])
def test_a_report_of_text_in_a_column_that_newer_rows_have_is_refused(sound, column):
    rows = [json.loads(line) for line in (sound / "rows.jsonl").read_text().splitlines()]
    (sound / "rows.jsonl").write_text("".join(json.dumps({**row, column: "a\nb"}) + "\n" for row in rows))
    with pytest.raises(InputError, match=f"column {column} must hold numbers alone"):
        command("report", str(sound))


@pytest.mark.parametrize("column", ["replicates", "error_rate_low"])
def test_a_column_called_like_one_that_a_table_of_points_makes_is_left_out(sound, column):
    rows = [json.loads(line) for line in (sound / "rows.jsonl").read_text().splitlines()]
    (sound / "rows.jsonl").write_text("".join(json.dumps({**row, column: 0.5}) + "\n" for row in rows))
    command("plot", str(sound))


@pytest.mark.parametrize("name", ["manifest.json", "rows.jsonl", "failures.jsonl"])
def test_json_nested_too_deeply_is_damage(sound, name):
    (sound / name).write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError, match="recursion"):
        command("report", str(sound))


def test_a_group_without_values_is_no_fault(sound):
    """Columns have none where they do not apply."""
    rows = [json.loads(line) for line in (sound / "rows.jsonl").read_text().splitlines()]
    (sound / "rows.jsonl").write_text("".join(json.dumps({**row, "honest_error_rate": None}) + "\n" for row in rows))
    command("plot", str(sound), "--x", "epsilon_upper", "--y", "error_rate", "--group", "honest_error_rate")


def test_points_that_cannot_be_told_apart_are_not_compared(sound, tmp_path):
    """The labels of an axis may say the same of two values."""
    rows = [json.loads(line) for line in (sound / "rows.jsonl").read_text().splitlines()]
    same = "".join(json.dumps({**row, "mechanism.flip_prob": 0.1}) + "\n" for row in rows)
    write_sweep(tmp_path / "other", AXES, 2)
    (tmp_path / "other" / "rows.jsonl").write_text(same)
    with pytest.raises(InputError, match=r"other: two of its points have the same mechanism\.flip_prob, network\.loss"):
        command("compare", str(sound), str(tmp_path / "other"))


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "s.toml").write_text(TINY)
    return tmp_path


def test_a_disk_that_fills_up_in_the_middle_of_a_row(tiny, monkeypatch):
    """Rows that are whole stay, half of one does not, and the same command goes on when there is space again."""
    arguments = ("run", str(tiny / "s.toml"), "--out", str(tiny / "out"), "--json")
    real, calls = disk.os.fsync, []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 4:  # the manifest, the statement, the first row, the second row
            disk.os.ftruncate(descriptor, disk.os.fstat(descriptor).st_size - 20)
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(
        RunFailed, match=r"out: cannot be written \(No space left on device\); 1 of 3 replicates are finished and kept"
    ):
        command(*arguments)
    monkeypatch.undo()
    assert stored_rows(tiny / "out")["replicate"].tolist() == [0]
    assert (tiny / "out" / "rows.jsonl").read_bytes().endswith(b"}\n")
    assert not [path for path in (tiny / "out").iterdir() if "partial" in path.name]
    command(*arguments)
    assert stored_rows(tiny / "out")["replicate"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("where", ["s.toml", "s.toml/below", "x" * 300, "/proc/none"])
def test_results_where_none_can_be(tiny, where):
    place = where if where.startswith("/") else str(tiny / where)
    with pytest.raises((InputError, RunFailed)):
        command("run", str(tiny / "s.toml"), "--out", place)
    assert (tiny / "s.toml").read_text() == TINY


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_an_export_that_fails_leaves_nothing(tiny, monkeypatch, suffix):
    monkeypatch.setattr(
        Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device"))
    )
    scenario = load_scenario(tiny / "s.toml")
    with pytest.raises(RunFailed, match="No space left"):
        export_release(scenario, tiny / f"r{suffix}")
    assert [path.name for path in tiny.iterdir()] == ["s.toml"]


def test_memory_that_is_not_there_is_one_line(tiny, monkeypatch):
    def asks_for_too_much(*_: object) -> None:
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr("p2p_sim.replicate.streamed.row_alone", asks_for_too_much)
    with pytest.raises(RunFailed, match=r"not enough memory: Unable to allocate 7\.28 TiB"):
        command("run", str(tiny / "s.toml"), "--out", str(tiny / "out"))


@pytest.mark.parametrize(("config", "kind"), [(MnistConfig(), "idx"), (AdultConfig(), "adult")])
def test_a_data_set_that_was_changed_is_read_again(tmp_path, config, kind):
    """A row says by checksum which data it is of; the same process must not have kept those of before."""
    for name, content in valid(kind).items():
        (tmp_path / name).write_bytes(content)
    before = config.sample((tmp_path,), STREAMS).users
    for name, content in valid(kind).items():
        changed = content.replace(b"39,", b"40,", 3) if kind == "adult" else content[:-1] + bytes([5 ^ content[-1] & 1])
        (tmp_path / name).write_bytes(changed)
        os.utime(tmp_path / name, ns=(1, 1))  # a clock may be too coarse to tell
    after = config.sample((tmp_path,), STREAMS).users
    assert not (np.array_equal(before.features, after.features) and np.array_equal(before.labels, after.labels))


def test_replicates_of_one_point_that_differ_in_a_text_get_a_report(tmp_path):
    """A point's line has no such column, and the report read it from there."""
    write_sweep(tmp_path / "s", AXES, 2)
    path = tmp_path / "s" / "rows.jsonl"
    path.write_text(path.read_text().replace('"adjacency": "label"', '"adjacency": "labels"', 1))
    assert "Adjacency: labels." in write_report(tmp_path / "s").read_text()
