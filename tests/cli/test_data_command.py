"""The table of data sets agrees with readers and files; `p2p-sim data` lists, checks and fetches data sets."""

import functools
import gzip
import hashlib
import http.server
import re
import tarfile
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.population import data_sets as module
from p2p_sim.population.branches import HeartConfig
from p2p_sim.population.data_sets import DataFile, DataSet, check, data_sets, fetch
from p2p_sim.population.digits_and_adult import AdultConfig
from p2p_sim.population.images import Cifar10Config, FashionMnistConfig, MnistConfig
from tests.commands import command

READERS = (MnistConfig, FashionMnistConfig, Cifar10Config, AdultConfig, HeartConfig)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader().kind)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_table_names_the_files_that_are_read(tmp_path, reader, ending):
    one = data_sets()[reader().kind]
    for file in one.files:
        path = tmp_path / one.kind / f"{file.name}{ending}"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert [held.path for held in check(one, (tmp_path,), read=False)] == reader().files((tmp_path,))


def test_where_two_spellings_are_there_the_same_one_is_checked_and_read(tmp_path):
    for one in data_sets().values():
        for name in (name for file in one.files for name in file.names):
            (tmp_path / name).touch()
    for reader in READERS:
        one = data_sets()[reader().kind]
        assert [held.path for held in check(one, (tmp_path,), read=False)] == reader().files((tmp_path,))


def test_every_file_of_the_benchmark_data_has_its_check_figure(data_dir):
    status, out, _ = command("data", "check", *data_sets(), "--data-dir", data_dir)
    assert (status, out.splitlines()[-1]) == (0, "no faults"), out
    assert len(out.splitlines()) == 6 + 4 + 4 + 3 + 2 + 4 + 1 + 1


def test_figures_are_complete():
    files = [file for one in data_sets().values() for file in one.files]
    figures = [figure for file in files for figure in (*file.sha256.values(), *filter(None, [file.gz_sha256]))]
    assert len(files) == 21
    assert len(set(figures)) == len(figures) == 27
    assert all(len(figure) == 64 and int(figure, 16) >= 0 for figure in figures)


@pytest.fixture
def small(monkeypatch):
    """Two data sets of a few bytes in place of the real ones: one of two files, one in an archive."""

    def figure(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    first = DataFile(("a.bin",), 5, {"as published": figure(b"first")}, fetch="a.bin.gz")
    second = DataFile(("b.bin",), 6, {"as published": figure(b"second"), "short": figure(b"sec")}, fetch="x/b.bin")
    found = {
        "plain": DataSet(
            "plain", "Plain", "nobody", "free", (first, replace(second, fetch="b.bin")), "http://nowhere/"
        ),
        "packed": DataSet("packed", "Packed", "nobody", "free", (second,), "http://nowhere/", "all.tar.gz"),
        "words": DataSet("words", "Words", "nobody", "free", (second,), get="ask the author"),
    }
    monkeypatch.setattr(module, "data_sets", lambda: found)
    monkeypatch.delenv("P2P_SIM_DATA", raising=False)
    return found


def test_check_says_what_each_file_is_and_fails_where_one_differs(small, tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.bin.gz").write_bytes(gzip.compress(b"first"))
    (tmp_path / "b.bin").write_bytes(b"sec")
    status, out, _ = command("data", "check", "--data-dir", tmp_path)
    assert status == 0
    assert out.splitlines() == [
        "plain:", f"  {tmp_path}/plain/a.bin.gz: as published", f"  {tmp_path}/b.bin: short",
        "packed:", f"  {tmp_path}/b.bin: short", "words:", f"  {tmp_path}/b.bin: short", "no faults",
    ]  # fmt: skip
    (tmp_path / "b.bin").write_bytes(b"secand")
    status, out, _ = command("data", "check", "plain", "--data-dir", tmp_path)
    assert (status, out.splitlines()[-1]) == (1, "1 fault")
    assert "b.bin: other content than published (6 bytes, not compressed)" in out
    (tmp_path / "plain" / "a.bin.gz").write_bytes(gzip.compress(b"first")[:-4])
    assert "is the file truncated?" in command("data", "check", "plain", "--data-dir", tmp_path)[1]


def test_a_missing_file_is_a_fault_of_a_named_data_set_alone(small, tmp_path):
    assert command("data", "check", "--data-dir", tmp_path)[0] == 0
    status, out, _ = command("data", "check", "packed", "--data-dir", tmp_path)
    assert (status, out) == (1, "packed:\n  b.bin: is missing\n1 fault\n")


def test_where_names_the_file_or_the_place_for_it(small, tmp_path):
    (tmp_path / "a.bin").touch()
    _, out, _ = command("data", "where", "plain", "--data-dir", tmp_path)
    assert out.splitlines()[1:4] == [
        f"  {tmp_path}/a.bin", f"  missing: put b.bin into {tmp_path}/plain", "  from http://nowhere/",
    ]  # fmt: skip
    _, out, _ = command("data", "where", "words")
    assert out.startswith("No directory is named: name one with --data-dir DIR, or set P2P_SIM_DATA=DIR.\n")
    assert "  missing: put b.bin into DIR/words\n  ask the author\n" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lst",), "data lst: must be one of list, where, check, fetch"),
        (("list", "plane"), "plane: no such data set; one of plain, packed, words; did you mean plain?"),
        (("check",), "data check: no directory of data files is named; use --data-dir DIR or set P2P_SIM_DATA"),
        (("fetch",), "data fetch: needs the names of data sets, and their directory"),
        (("fetch", "words", "--data-dir", "."), "words: has no public address to fetch it from; ask the author"),
        (("list", "--data-dir", "nowhere"), "--data-dir nowhere: there is no such directory"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(small, arguments, said):
    status, out, err = command("data", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_the_list_names_every_data_set_its_size_and_its_source():
    _, out, _ = command("data", "list")
    assert all(f"{one.kind}: {one.title}\n" in out for one in data_sets().values())
    assert "184,380,000 bytes when not compressed; licence: none stated, research use (Krizhevsky)" in out
    _, out, _ = command("data", "list", "fashion-mnist")
    assert "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 train-images-idx3-ubyte.gz as pub" in out


def test_without_pooch_fetching_names_the_extra(small, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(InputError, match=r"needs pooch: pip install -e '\.\[data\]'"):
        fetch(small["plain"], tmp_path)


@pytest.fixture
def source(tmp_path):
    """A folder, and the address at which it is served on this machine."""
    folder = tmp_path / "source"
    folder.mkdir()
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_files_are_fetched_checked_and_only_then_put_in_place(small, source, tmp_path):
    pytest.importorskip("pooch")
    folder, address = source
    (folder / "a.bin.gz").write_bytes(gzip.compress(b"first"))
    (folder / "b.bin").write_bytes(b"other!")
    one, place = replace(small["plain"], source=address), tmp_path / "data"
    with pytest.raises(RunFailed, match=r"sends another b.bin than the one published; nothing is kept"):
        fetch(one, place)
    assert list((place / "plain").iterdir()) == []
    (folder / "b.bin").write_bytes(b"second")
    assert [path.name for path in fetch(one, place)] == ["a.bin.gz", "b.bin"]
    assert [held.version for held in check(one, (place,))] == ["as published", "as published"]
    assert fetch(one, place) == []
    (folder / "b.bin").unlink()
    (place / "plain" / "b.bin").unlink()
    with pytest.raises(RunFailed, match=r"b.bin: cannot be fetched \(404"):
        fetch(one, place)


def test_files_of_an_archive_are_fetched(small, source, tmp_path):
    pytest.importorskip("pooch")
    folder, address = source
    (tmp_path / "b.bin").write_bytes(b"second")
    with tarfile.open(folder / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "b.bin", "x/b.bin")
    one = replace(small["packed"], source=address)
    [path] = fetch(one, tmp_path / "data")
    assert (path, path.read_bytes()) == (tmp_path / "data" / "packed" / "b.bin", b"second")
    (folder / "all.tar.gz").write_bytes(b"no archive")
    with pytest.raises(RunFailed, match=r"all.tar.gz: cannot be fetched"):
        fetch(one, tmp_path / "again")


def test_fetching_makes_the_directory_and_tells_the_whole_reason(small, monkeypatch, tmp_path):
    from p2p_sim.population import data_sets as fetching

    def unreachable(*_, **__):
        raise OSError(" ".join(["unreachable"] * 100))

    monkeypatch.setattr(fetching, "_pooch", lambda: SimpleNamespace(retrieve=unreachable))
    monkeypatch.setitem(data_sets(), "plain", replace(small["plain"], source="https://example.org/"))
    status, _, err = command("data", "fetch", "plain", "--data-dir", tmp_path / "new" / "data")
    assert (status, (tmp_path / "new" / "data").is_dir()) == (1, True)
    assert re.search(r"\(unreachable( unreachable)* \(and more\)\); nothing is kept", err)
