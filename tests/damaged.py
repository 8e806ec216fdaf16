"""Results directories that somebody or something has damaged, each in a way of its own, drawn with a seed."""

import functools
import json
import os
import random
import tempfile
from pathlib import Path

from tests.written_sweeps import AXES, write_sweep

EVIL = (
    "<script>alert(1)</script>",
    "price $5 a_b and $10",
    "$\\frac{$",
    "=1+1",
    "\ud800",
    "a\nb",
    "",
    "ε" * 300,
    "{{ 7*7 }}",
)
ODD = (None, True, -1, 0, 2**70, 1e308, 1e-320, float("nan"), float("inf"), [], {}, [[]], [None], {"a": None}, *EVIL)
NAMES = (b"made-\xff", b"a\nb", b"=cmd", b"<b>x", b"$\\frac{$", b"'\"", b" ", b"\xed\xa0\x80", b"--help", "ε".encode())
FILES = ("manifest.json", "rows.jsonl", "rows.parquet", "failures.jsonl", "statements.jsonl")


@functools.cache
def _whole():
    """The files of a results directory of a finished sweep."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        write_sweep(path, AXES, 2, [{"point": "x", "replicate": 0, "error": "ValueError: no", "network.loss": 0.1}])
        return {file.name: file.read_bytes() for file in path.iterdir()}


def _lines(content):
    return content.decode().splitlines()


def _spoilt_bytes(rng, content):
    """Cut, flipped, doubled or of another encoding."""
    at = rng.randrange(len(content) + 1)
    return rng.choice([
        content[:at], content[at:], b"", b"\0" * 50, bytes(rng.randrange(256) for _ in range(200)),
        content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :], content[:at] + content[: at // 2],
        content.decode(errors="replace").encode("utf-16"), b"[" * 100_000, b"9" * 5000 + b"\n", b"{}\n",
        b"null\n", b"[]\n",
    ])  # fmt: skip


def _spoilt_value(rng, node):
    """The same JSON value with one part removed, renamed or replaced by an odd one."""
    if isinstance(node, dict) and node and rng.random() < 0.9:
        key = rng.choice([*node])
        if rng.random() < 0.15:
            return {name: value for name, value in node.items() if name != key}
        if rng.random() < 0.15:
            return {rng.choice(EVIL) if name == key else name: value for name, value in node.items()}
        return {**node, key: _spoilt_value(rng, node[key])}
    if isinstance(node, list) and node and rng.random() < 0.8:
        at = rng.randrange(len(node))
        return [*node[:at], _spoilt_value(rng, node[at]), *node[at + 1 :]]
    return rng.choice(ODD)


def _spoilt_json(rng, name, content):
    """One value of a manifest, or a cell of some lines, as somebody's own program might write it."""
    if name == "manifest.json":
        tree = json.loads(content)
        part = rng.choice(["axes", "axes", "name", "replicates", "plots", "scenario", "seed", "versions", None])
        tree = {**tree, part: _spoilt_value(rng, tree[part])} if part else _spoilt_value(rng, tree)
        return json.dumps(tree).encode()
    lines = [json.loads(line) for line in _lines(content)]
    key, odd = rng.choice([*lines[0]]), rng.choice(ODD)
    for at in rng.sample(range(len(lines)), rng.randint(1, len(lines))):
        lines[at] = {**lines[at], key: odd} if rng.random() < 0.9 else odd
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _no_file(rng, path):
    """Something else in the place of a file."""
    rng.choice([os.mkfifo, os.mkdir, lambda p: p.symlink_to(p.name), lambda p: p.symlink_to("nowhere")])(path)


def damage(root, number, rng):
    """Write a damaged results directory below a root, and return its path."""
    path = root / os.fsdecode(rng.choice(NAMES) + b"-%d" % number if rng.random() < 0.2 else b"made-%d" % number)
    if rng.random() < 0.03:
        path.symlink_to(path.name)
        return path
    path.mkdir()
    files = dict(_whole())
    if rng.random() < 0.2:  # a published table alone
        del files["rows.jsonl"]
    odd = {rng.choice([name for name in FILES if name in files]) for _ in range(rng.choice([1, 1, 1, 2]))}
    for name, content in files.items():
        if name not in odd:
            (path / name).write_bytes(content)
        elif rng.random() < 0.15:
            _no_file(rng, path / name)
        elif name != "rows.parquet" and rng.random() < 0.6:
            (path / name).write_bytes(_spoilt_json(rng, name, content))
        else:
            (path / name).write_bytes(_spoilt_bytes(rng, content))
    return path


def damaged_directories(root, count, seed):
    """Damaged results directories below a root, which is made."""
    root.mkdir(parents=True)
    rng = random.Random(seed)
    return [damage(root, number, rng) for number in range(count)]
