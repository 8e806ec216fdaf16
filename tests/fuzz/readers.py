"""What is fuzzed: every reader of a user's file, from small valid files that are then spoilt."""

import functools
import gzip
import io
import json
import pickle
import random
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.network.availability import AvailabilityTrace
from p2p_sim.network.latency import LatencyTrace
from p2p_sim.network.overlay_graph import FileOverlay, OverlayInput
from p2p_sim.population.digits_and_adult import AdultConfig
from p2p_sim.population.images import CIFAR_RECORD, Cifar10Config, MnistConfig
from p2p_sim.population.table import TableConfig
from p2p_sim.privacy.certificates.verify_certificate import Refused, Unreadable, verify
from p2p_sim.privacy.certificates.verify_certificate import read as read_certificate
from p2p_sim.scenario import load_scenario
from p2p_sim.sweeps.plan import load_sweep
from tests.conftest import ROOT
from tests.fuzz.harness import unchanged
from tests.fuzz.strategies import document, near, odd, places, spoilt_bytes, spoilt_tree, toml, tweaked

USERS = 40
STREAMS = Streams(1, 0)
Files = dict[str, bytes]
Tree = dict[str, Any]
NUMBERS = (b"nan", b"-1", b"1e999", b"1e9", b"1e-320", b"9" * 400, b"0x1", b"1_0", "１２".encode(), b"--", b"0.5")
LINES = (
    b",",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b"#",
    b"\xef\xbb\xbf",
    b" ",
    b"\t",
    b"\xff\xfe",
    b",,,,",
    b"\n\n",
    b"x" * 200_000,
)
MARKUP = (
    b'<!DOCTYPE graphml [<!ENTITY a "0"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>', b"&b;", b"&amp;", b"<edge/>",
    b'<!DOCTYPE graphml SYSTEM "file:///etc/passwd">', b'<!ENTITY x SYSTEM "file:///etc/passwd">', b"]]>", b"<![CDATA[",
    b'<edge source="0" target="1"/>', b"<hyperedge/>", b"<?xml version='1.0' encoding='utf-16'?>", b"<a>" * 5000,
    b'encoding="latin-9"', b'encoding="no-such"', b"xmlns:x='y'", b"</graph>",
)  # fmt: skip


class Trap:
    """Unpickled, it says so."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _sprung, ()


def _sprung() -> None:
    raise AssertionError("a reader has run code from a pickle")


@functools.cache
def shipped() -> tuple[tuple[Path, Tree], ...]:
    """The scenarios of the house."""
    folders = (ROOT / "scenarios", ROOT / "scenarios" / "network", ROOT / "scenarios" / "models")
    paths = sorted(path for folder in folders for path in folder.glob("*.toml"))
    return tuple((path, tomllib.loads(path.read_text(encoding="utf-8"))) for path in paths)


@functools.cache
def sweeps() -> tuple[tuple[Path, Tree], ...]:
    """The sweeps of the house."""
    paths = sorted((ROOT / "scenarios" / "sweeps").rglob("*.toml"))
    return tuple((path, tomllib.loads(path.read_text(encoding="utf-8"))) for path in paths)


@functools.cache
def pool() -> tuple[tuple[str, Any], ...]:
    """Keys and values of all files of the house and of the full tree of a scenario."""
    trees = [tree for _, tree in (*shipped(), *sweeps())]
    trees += [load_scenario(path).model_dump(mode="json", exclude_none=True) for path, _ in shipped()]
    found = {repr((key, node[key])): (key, node[key]) for tree in trees for node, key in places(tree)}
    return tuple((key, value) for key, value in found.values() if isinstance(key, str))


def _written(rng: random.Random, tree: Tree, path: Path) -> None:
    """A spoilt tree as a file; one in six has its bytes spoilt instead."""
    if rng.random() < 1 / 6:
        text = document(tree).encode()
        path.write_bytes(spoilt_bytes(rng, text, (*LINES, *NUMBERS, b"[", b"]", b"{", b"=", b"[[axes]]\n", b"\0")))
    else:
        path.write_text(document(spoilt_tree(rng, tree, pool())), encoding="utf-8")


def scenario(rng: random.Random, folder: Path) -> None:
    """A scenario file."""
    _written(rng, rng.choice(shipped())[1], folder / "s.toml")
    with unchanged(folder):
        load_scenario(folder / "s.toml").content_hash()


def sweep(rng: random.Random, folder: Path) -> None:
    """A sweep file beside its base; sometimes the base is spoilt."""
    path, tree = rng.choice(sweeps())
    base = dict(tomllib.loads((path.parent / tree["base"]).read_text(encoding="utf-8")))
    tree = {**tree, "base": "b.toml"}
    bad_base = rng.random() < 0.1
    (folder / "b.toml").write_text(document(base), encoding="utf-8")
    (folder / "s.toml").write_text(document(tree), encoding="utf-8")
    _written(rng, base if bad_base else tree, folder / ("b.toml" if bad_base else "s.toml"))
    with unchanged(folder):
        load_sweep(folder / "s.toml").points()


def certificate(rng: random.Random, folder: Path) -> None:
    """A small published certificate that is spoilt."""
    path = rng.choice(sorted((ROOT / "results" / "published" / "certificates").glob("n3[06]-*.json")))
    claimed = json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(spoilt_tree(rng, claimed, tuple(claimed.items())), default=str).encode()
    (folder / "c.json").write_bytes(
        spoilt_bytes(rng, text, (*NUMBERS, b"[", b"{", b'"', b":")) if rng.random() < 0.5 else text
    )
    with unchanged(folder):
        try:
            verify(read_certificate(str(folder / "c.json")))
        except (Refused, Unreadable) as error:
            raise InputError(str(error)) from None


@functools.cache
def keys() -> tuple[tuple[str, Any], ...]:
    """Dotted keys of the shipped scenarios with their values."""

    def dotted(tree: Tree, prefix: str) -> list[tuple[str, Any]]:
        deeper = [dotted(value, f"{prefix}{key}.") for key, value in tree.items() if isinstance(value, dict)]
        return [*((prefix + key, value) for key, value in tree.items()), *(pair for part in deeper for pair in part)]

    found = [pair for path, _ in shipped() for pair in dotted(load_scenario(path).model_dump(mode="json"), "")]
    return tuple((key, value) for key, value in found if value is not None)


def override(rng: random.Random, folder: Path) -> None:
    """Some `--set KEY=VALUE` of a shipped scenario."""
    given = []
    for _ in range(rng.randint(1, 3)):
        key, value = rng.choice(keys())
        key = near(rng, key) if rng.random() < 0.2 else key
        value = rng.choice([value, odd(rng), tweaked(rng, value)])
        text = value if isinstance(value, str) and rng.random() < 0.3 else toml(value)
        given.append(rng.choice([f"{key}={text}"] * 8 + [f"{key} = {text}", key, f"={text}", f"{key}={text}\n{text}"]))
    with unchanged(folder):
        load_scenario(rng.choice(shipped())[0], given)


def table() -> pd.DataFrame:
    """A small table: two numbers, a label, a cluster."""
    rng = np.random.default_rng(1)
    columns = {"a": rng.normal(size=USERS), "b": rng.integers(0, 9, USERS)}
    return pd.DataFrame({**columns, "label": rng.choice(["no", "yes"], USERS), "home": rng.integers(0, 4, USERS)})


def _npz() -> bytes:
    out = io.BytesIO()
    frame = table()
    np.savez(
        out, a=frame.a.to_numpy(), b=frame.b.to_numpy(), label=frame.label.to_numpy("U3"), home=frame.home.to_numpy()
    )
    return out.getvalue()


def _idx(array: "np.ndarray[Any, np.dtype[np.uint8]]") -> bytes:
    shape = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


@functools.cache
def valid(kind: str) -> Files:
    """Small valid files of a kind, by name."""
    rng = np.random.default_rng(2)
    frame = table()
    scenarios = ROOT / "scenarios" / "network"
    ids = [f"{i} {(i * 7 + 1) % USERS}" for i in range(USERS)]
    edges = "".join('<edge source="{}" target="{}"/>\n'.format(*pair.split()) for pair in ids)
    graph = f'<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph>\n{edges}</graph></graphml>'
    images = {f"{part}-{what}-ubyte": _idx(rng.integers(0, high, shape, dtype=np.uint8))
              for part in ("train", "t10k")
              for what, high, shape in (("images-idx3", 256, (30, 4, 4)), ("labels-idx1", 10, (30,)))}  # fmt: skip
    records = rng.integers(0, 256, (4, CIFAR_RECORD), dtype=np.uint8)
    records[:, 0] %= 10
    adult = "39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Husband, White, Male, 2174, 0, 40, Cuba, {}\n"
    people = "".join(adult.format(income) for income in ("<=50K", ">50K") * 8).encode()
    files: dict[str, Files] = {
        "latency": {"t.csv": b"latency_s\n" + b"\n".join((scenarios / "latency.csv").read_bytes().split(b"\n")[1:40])},
        "availability": {"t.csv": b"\n".join((scenarios / "availability.csv").read_bytes().split(b"\n")[:20]) + b"\n"},
        "edges": {"g.edges": ("# a comment\n" + "\n".join(ids)).encode()},
        "graphml": {"g.graphml": graph.encode()},
        "csv": {"t.csv": frame.to_csv(index=False).encode()},
        "parquet": {"t.parquet": frame.to_parquet(index=False)},
        "npz": {"t.npz": _npz()},
        "idx": images,
        "cifar": {"data_batch_1.bin": records.tobytes(), "test_batch.bin": records[:2].tobytes()},
        "adult": {"adult.data": people, "adult.test": b"|1x3 Cross validator\n" + people},
    }
    return files[kind]


def _read_table(folder: Path, name: str, rng: random.Random) -> None:
    config = TableConfig(path=name, label="label", cluster=rng.choice([None, "home"]))
    config.sample((folder,), STREAMS)


def _read_overlay(folder: Path, name: str, rng: random.Random) -> None:
    FileOverlay(path=name).build(OverlayInput(np.array([0, 10, USERS]), STREAMS, (folder,)))


READERS: dict[str, tuple[Callable[[Path, str, random.Random], object], tuple[bytes, ...]]] = {
    "latency": (lambda folder, name, _: LatencyTrace(path=name).load((folder,)), (*NUMBERS, *LINES)),
    "availability": (lambda folder, name, _: AvailabilityTrace(path=name).load((folder,)), (*NUMBERS, *LINES)),
    "edges": (_read_overlay, (*NUMBERS, *LINES)),
    "graphml": (_read_overlay, (*MARKUP, *NUMBERS)),
    "csv": (_read_table, (*NUMBERS, *LINES, b"yes", b"label")),
    "parquet": (_read_table, (b"PAR1", b"\x15\x04", b"\xff\xff\xff\x7f", b"yes")),
    "npz": (
        _read_table,
        (b"PK\x03\x04", b"\x93NUMPY", b"|O", b"<U9", b"(9999999999,)", b"'descr'", b"\xff\xff\xff\x7f"),
    ),
    "idx": (
        lambda folder, *_: MnistConfig().sample((folder,), STREAMS),
        (b"\0\0\x08\x03", b"\x7f\xff\xff\xff", b"\0" * 16),
    ),
    "cifar": (lambda folder, *_: Cifar10Config().sample((folder,), STREAMS), (b"\0" * CIFAR_RECORD, b"\x0b")),
    "adult": (lambda folder, *_: AdultConfig().sample((folder,), STREAMS), (*NUMBERS, *LINES, b"|", b"?", b">50K")),
}


def data(kind: str, rng: random.Random, folder: Path) -> None:
    """A reader's files, one of them spoilt, sometimes compressed, sometimes a pickle in disguise."""
    read, tokens = READERS[kind]
    files = dict(valid(kind))
    name = rng.choice(sorted(files))
    files[name] = spoilt_bytes(rng, files[name], tokens)
    if rng.random() < 0.02:
        files[name] = pickle.dumps(Trap())
    elif kind == "npz" and rng.random() < 0.3:
        files[name] = _with_spoilt_member(rng, valid(kind)[name], tokens)
    if kind in ("edges", "graphml", "csv", "idx", "cifar", "adult") and rng.random() < 0.2:
        packed = gzip.compress(files.pop(name), 1)
        name += ".gz"
        files[name] = spoilt_bytes(rng, packed, tokens, 1) if rng.random() < 0.5 else packed
    for each, content in files.items():
        (folder / each).write_bytes(content)
    with unchanged(folder):
        read(folder, name, rng)


def _with_spoilt_member(rng: random.Random, archive: bytes, tokens: tuple[bytes, ...]) -> bytes:
    """A zip archive whose checksums hold although the bytes of one array are spoilt, or are a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(out, "w") as target:
        chosen = rng.choice(source.namelist())
        for name in source.namelist():
            content = source.read(name)
            if name == chosen:
                content = _objects() if rng.random() < 0.2 else spoilt_bytes(rng, content, tokens, 2)
            target.writestr(name, content)
    return out.getvalue()


@functools.cache
def _objects() -> bytes:
    """An array of objects, which NumPy would have to unpickle."""
    out = io.BytesIO()
    np.save(out, np.array([Trap(), "yes"], dtype=object), allow_pickle=True)
    return out.getvalue()
