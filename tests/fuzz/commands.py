"""The commands themselves, on small scenarios that mix those of the house, and on damaged results directories."""

import atexit
import contextlib
import functools
import io
import json
import random
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.cli.main import main
from p2p_sim.report.results_report import read_failures
from p2p_sim.results.results_directory import read_results
from p2p_sim.results.rows import read_rows, stored_rows
from p2p_sim.scenario import Scenario, load_scenario
from tests.fuzz.harness import unchanged
from tests.fuzz.readers import LINES, NUMBERS, ROOT, Tree, pool, shipped, table
from tests.fuzz.strategies import document, places, spoilt_bytes, spoilt_tree
from tests.written_sweeps import AXES, made_rows, write_sweep

TINY = """
name = "tiny"
engine = "vectorised"
replicates = 3
population = {kind = "synthetic", users = 60, num_clusters = 2}
mechanism = {flip_prob = 0.2}
"""
PEOPLE: tuple[Tree, ...] = (
    {"kind": "synthetic", "users": 60, "num_clusters": 3},
    {"kind": "circle", "users": 90, "num_classes": 3, "holdout": 50},
    {"kind": "synthetic", "users": 100, "num_clusters": 2, "points_per_cluster": 2},
    {"kind": "table", "path": "t.csv", "label": "label"},
    {"kind": "table", "path": "t.csv", "label": "b", "cluster": "home"},
)
LEARNERS: tuple[Tree, ...] = (
    {"kind": "logistic_regression"}, {"kind": "soft_logistic_regression"}, {"kind": "knn"}, {"kind": "table"},
    {"kind": "trimmed_clusters"}, {"kind": "one_vs_rest"}, {"kind": "forward_correction"},
    {"kind": "backward_correction"}, {"kind": "cluster_and_features"}, {"kind": "boosted_trees", "trees": 3},
    {"kind": "label_proportions"}, {"kind": "estimator", "estimator": "sklearn.naive_bayes.GaussianNB"},
)  # fmt: skip
CLUSTERS: tuple[Tree, ...] = (
    {"kind": "given"}, {"kind": "kmeans", "count": 2}, {"kind": "grid", "bins": 2},
    {"kind": "agglomerative", "count": 2}, {"kind": "hdbscan"}, {"kind": "balanced", "count": 2},
)  # fmt: skip
NOWHERE = (
    "file", "file/below", "full", "", "/proc/none", "/dev/null", "/dev/full", "x" * 300, "\udcff", "full/mine/x.csv",
    "new.csv", "deep/er/new.csv", "é\n", "~", "full/mine.html",
)  # fmt: skip
MOST_USERS, MOST_AUDITED, MOST_STEPS = 400, 60, 2_000
"""Users of a run, and of an audit on an overlay; gradient steps of a training of an audited model."""


def command(*arguments: str) -> str:
    """What a command prints on standard output; its one line on standard error as the exception that it stands for."""
    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.argv", ["p2p-sim", *arguments]),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    text = err.getvalue().strip()
    if status == 0:
        return out.getvalue()
    assert status in (1, 2), f"exit status {status}"
    assert text.startswith("p2p-sim: "), f"exit status {status} without a line: {text[:200]!r}"
    assert "\n" not in text, f"several lines: {text[:300]!r}"
    raise (InputError if status == 2 else RunFailed)(text)


def mixed(rng: random.Random) -> Tree:
    """Parts of several scenarios of the house, made small, with some numbers changed a little."""
    tree: Tree = {"name": "mixed", "replicates": 1, "seed": rng.randrange(9), "mechanism": {"flip_prob": 0.2}}
    trees = [entry for _, entry in shipped()]
    for part in ("mechanism", "network", "adversaries", "privacy", "engine"):
        source = rng.choice(trees)
        if part in source and rng.random() < 0.7:
            tree[part] = json.loads(json.dumps(source[part]))
    for part, choices, chance in (("population", PEOPLE, 1.0), ("clusters", CLUSTERS, 0.4), ("learner", LEARNERS, 0.4)):
        if rng.random() < chance:
            tree[part] = dict(rng.choice(choices))
    for _ in range(rng.randint(0, 3)):
        node, key = rng.choice(places(tree))
        if isinstance(node[key], int | float) and key != "replicates":
            number = node[key] * rng.choice([0, 0.01, 0.5, 1, 2, 3, -1])
            node[key] = round(number) if isinstance(node[key], int) else number
    return tree


def _users(scenario: Scenario) -> int:
    """How many users there will be; 0 where a file says it, which is small here."""
    return getattr(scenario.population, "users", 0) or 0


def _auditable(scenario: Scenario) -> bool:
    """Whether an audit takes moments: on overlays every target has a network, and every run trains a model anew."""
    rate = getattr(scenario.mechanism, "sampling_rate", None)
    steps = getattr(scenario.mechanism, "epochs", 0) / rate if isinstance(rate, float) and rate > 0.0 else 0.0
    return steps <= MOST_STEPS and (scenario.network.overlay.kind == "complete" or _users(scenario) <= MOST_AUDITED)


def run(rng: random.Random, folder: Path) -> None:
    """A run of one replicate, and sometimes what happened on its network, its releases, its report."""
    table().to_csv(folder / "t.csv", index=False)
    for name in ("latency.csv", "availability.csv", "friends.edges"):
        shutil.copy(ROOT / "scenarios" / "network" / name, folder)
    file = folder / "s.toml"
    file.write_text(document(mixed(rng)), encoding="utf-8")
    scenario = load_scenario(file)
    if _users(scenario) > MOST_USERS:  # nobody asks for a million users here
        raise InputError("larger than what is run here")
    extra = rng.choice([[], [], ["--export", str(folder / "r.csv")], ["--export", str(folder / "r.npz")],
                        ["--transcript", str(folder / "m.parquet")]])  # fmt: skip
    command("run", str(file), "--out", str(folder / "out"), "--json", *extra)
    assert len(stored_rows(folder / "out")) == 1
    after = rng.choice(["nothing", "nothing", "report", "network", "audit"])
    if after == "report":
        command("report", str(folder / "out"))
    elif after == "network":
        command("network", str(file), "--out", str(folder / "figures"), "--json")
    elif after == "audit" and _auditable(scenario):
        command("audit", str(file), "--trials", "1000", "--json")


@functools.cache
def _sweep_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "r"
        write_sweep(directory, AXES, 2, [{"point": "0" * 16, "replicate": 5, "error": "ValueError: planted"}])
        return {path.name: path.read_bytes() for path in directory.iterdir()}


def _damaged(rng: random.Random, directory: Path) -> None:
    """A results directory of which one file is spoilt, by its bytes or by its structure, or is not a file, or gone."""
    files = dict(_sweep_files())
    name = rng.choice(["rows.jsonl", "rows.jsonl", "manifest.json", "manifest.json", "failures.jsonl", "rows.parquet"])
    if rng.random() < 0.3 or name == "rows.parquet":
        tokens = (*LINES, *NUMBERS, b"{", b"}", b"[" * 5000, b"null", b"Infinity", b"NaN", b'"', b":")
        files[name] = spoilt_bytes(rng, files[name], tokens)
    else:
        entries = [
            json.loads(line) for line in ([files[name]] if name == "manifest.json" else files[name].splitlines())
        ]
        first = rng.randrange(len(entries))
        last = rng.choice([first + 1, len(entries)])  # one line, or all from there on in the same way
        state = rng.getstate()
        for index in range(first, last):
            rng.setstate(state)
            entries[index] = spoilt_tree(rng, entries[index], pool())
        files[name] = "".join(json.dumps(entry, default=str) + "\n" for entry in entries).encode()
    directory.mkdir()
    for each, content in files.items():
        chance = rng.random() if each == name else 1.0
        if chance < 0.02:
            (directory / each).mkdir()
        elif chance > 0.04:
            (directory / each).write_bytes(content)


def results(rng: random.Random, folder: Path) -> None:
    """What a damaged results directory holds, and how it compares with a sound one."""
    _damaged(rng, folder / "r")
    with unchanged(folder):
        read_results(folder / "r")
        read_failures(folder / "r")
        if rng.random() < 0.1:
            command("compare", str(folder / "r"), str(_sound()), "--json")


@functools.cache
def _sound() -> Path:
    place = Path(tempfile.mkdtemp(prefix="p2p-sim-fuzz-"))
    atexit.register(shutil.rmtree, place)
    write_sweep(place / "r", AXES, 2)
    return place / "r"


def pages(rng: random.Random, folder: Path) -> None:
    """Figures and the report of a damaged results directory."""
    _damaged(rng, folder / "r")
    if rng.random() < 0.5:
        command("report", str(folder / "r"))
    else:
        columns = [rng.choice(list(made_rows(AXES, 1)[0])) if rng.random() < 0.5 else None for _ in range(4)]
        named = zip(("--x", "--y", "--group", "--facet"), columns, strict=True)
        command("plot", str(folder / "r"), *(text for pair in named if pair[1] is not None for text in map(str, pair)))


@contextlib.contextmanager
def small_disk(most: int) -> Iterator[None]:
    """No file may grow beyond a number of bytes: what lies beyond is not written, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@functools.cache
def _undisturbed() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "s.toml").write_text(TINY)
        return _tiny(Path(place))


def _tiny(folder: Path, *more: str) -> bytes:
    command("run", str(folder / "s.toml"), "--out", str(folder / "out"), "--json", *more)
    return (folder / "out" / "rows.jsonl").read_bytes()


def full_disk(rng: random.Random, folder: Path) -> None:
    """A run on a disk that is full somewhere on the way: finished rows stay, and the same command goes on later."""
    whole, out = _undisturbed(), folder / "out"
    export = ["--export", str(folder / f"r{rng.choice(['.csv', '.parquet', '.npz'])}")]
    most = int(2.0 ** rng.uniform(0.0, 17.0))
    (folder / "s.toml").write_text(TINY)
    try:
        with small_disk(most):
            _tiny(folder, *export)
    except RunFailed:
        kept = list(read_rows(out))
        assert whole.startswith("".join(json.dumps(row) + "\n" for row in kept).encode())
        assert not Path(export[1]).exists()
        assert _tiny(folder) == whole
        raise


def destination(rng: random.Random, folder: Path) -> None:
    """Results, exports and figures where none can be."""
    (folder / "file").write_text("precious")
    (folder / "full").mkdir()
    (folder / "full" / "mine").write_text("precious")
    where = rng.choice(NOWHERE)
    where = where if where.startswith("/") else f"{folder}/{where}"
    (folder / "s.toml").write_text(TINY)
    option = rng.choice(["--out", "--out", "--export", "--data-dir"])
    try:
        command("run", str(folder / "s.toml"), "--out", str(folder / "out"), "--json", option, where)
    finally:
        assert (folder / "file").read_text() == (folder / "full" / "mine").read_text() == "precious"
