"""The plan of a sweep: a base scenario, axes along which some keys vary, and the points that follow."""

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from p2p_sim.base import (
    EITHER,
    InputError,
    check_either,
    count,
    drop_key,
    find_scenario,
    parse_overrides,
    read_toml,
    refusal,
    set_key,
    value_at,
)
from p2p_sim.replicate import Replicate
from p2p_sim.scenario import MODEL_VERSION, Scenario, load_scenario
from p2p_sim.sweeps.sweep_file import MOST_POINTS, Axis, Plot, SweepFile


@dataclass(frozen=True)
class Point:
    """One combination of values, one for each swept key.

    settings: the values, by dotted key. columns: the cells of the point's rows, by the same keys: numbers, texts or
    labels.
    """

    settings: Mapping[str, Any]
    columns: Mapping[str, Any]


@dataclass(frozen=True, repr=False)
class SweepPlan:
    """A sweep ready to run. Without axes, the plan is a run of the base scenario, its only point.

    name: name of the results. base: the base scenario. axes, plots: as in a sweep file. replicates: number of
    replicates of each point. data_dir: directory of data files; None: not named.
    """

    name: str
    base: Scenario
    axes: tuple[Axis, ...]
    replicates: int
    plots: tuple[Plot, ...] = ()
    data_dir: Path | None = None

    def __repr__(self) -> str:
        """The sweep in one line: name, number of points, keys, replicates."""
        keys, each = ", ".join(self.keys), count(self.replicates, "replicate")
        return f"SweepPlan({self.name!r}, {count(self.size, 'point')} over {keys}, {each} each)"

    @property
    def keys(self) -> tuple[str, ...]:
        """The dotted keys that vary, axis by axis."""
        return tuple(name for axis in self.axes for name in axis.names)

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(len(axis.steps) for axis in self.axes)

    @cached_property
    def _tree(self) -> dict[str, Any]:
        """The base scenario as a tree of keys and values."""
        return self.base.model_dump(mode="json")

    @cached_property
    def steps(self) -> list[list[tuple[Any, ...]]]:
        """For each axis, and for each step along it, a tuple with the values of the axis's keys. A key with a whole
        number in the base scenario has whole values: a spaced value (`linear`, `log`) is rounded, and a listed 10.0
        becomes 10.
        """
        steps = []
        for axis in self.axes:
            # a listed 1.5, NaN and infinity stay unchanged, and the scenario refuses such values
            whole = [type(value_at(self._tree, name)) is int for name in axis.names]
            steps.append([
                tuple(round(value) if is_whole and isinstance(value, float) and math.isfinite(value)
                      and (axis.values is None or value.is_integer()) else value
                      for value, is_whole in zip(step, whole, strict=True))
                for step in axis.steps
            ])  # fmt: skip
        return steps

    def points(self) -> Iterator[Point]:
        """All points; the last axis varies fastest."""
        return map(self.point, itertools.product(*(range(len(steps)) for steps in self.steps)))

    def point(self, indices: tuple[int, ...]) -> Point:
        """The point with the given index along each axis, from 0."""
        settings, columns = {}, {}
        for axis, steps, index in zip(self.axes, self.steps, indices, strict=True):
            for name, value in zip(axis.names, steps[index], strict=True):
                settings[name] = value
                columns[name] = axis.labels[index] if axis.labels else _cell(value)
        return Point(settings, columns)

    def scenario(self, point: Point) -> Scenario:
        """The scenario of a point. If a value is not valid, an InputError names the key and the value."""
        if not point.settings:
            return self.base
        tree = json.loads(json.dumps(self._tree))
        for key, value in point.settings.items():
            set_key(tree, key, value)
        return Scenario.from_tree(tree, self.base.folder)

    @cached_property
    def checksums(self) -> tuple[str, ...]:
        """Checksums of the base scenario's data files; empty if it has none."""
        return Replicate(self.base, data_dir=self.data_dir).checksums

    def identity(self, scenario: Scenario) -> str:
        """The content hash, in hexadecimal, of a point's scenario and data files. Rows name the point by this hash."""
        if any(key.startswith(("population", "network")) for key in self.keys):  # data files may differ from the base's
            return Replicate(scenario, data_dir=self.data_dir).identity
        return scenario.content_hash(self.checksums)

    @cached_property
    def identified(self) -> dict[str, Point]:
        """All points by the first 16 digits of their identity.

        Raises:
            InputError: two points are the same.
        """
        points: dict[str, Point] = {}
        for point in self.points():
            identity = self.identity(self.scenario(point))[:16]
            if identity in points:
                values = ", ".join(f"{key} = {value}" for key, value in point.columns.items())
                raise InputError(f"axes: the point {values} occurs twice")
            points[identity] = point
        return points

    def asks_for(self, point: str, replicate: int) -> bool:
        """Whether this sweep has a replicate with this index, at a point with this identity (its first 16 digits)."""
        return replicate < self.replicates and point in self.identified

    @cached_property
    def packages(self) -> dict[str, str]:
        """The versions of all plug-ins that some point uses, by the package's name."""
        return {name: version for scenario in self.examples() for name, version in scenario.packages.items()}

    def examples(self) -> Iterator[Scenario]:
        """Scenarios of a few points. Each value of each axis occurs, with the first value of every other axis."""
        return (self.scenario(point) for point in self._examples())

    def _examples(self) -> Iterator[Point]:
        """The first point; then, for each other value of each axis, the first point with this value."""
        yield self.point((0,) * len(self.axes))
        for index, axis in enumerate(self.axes):
            for step in range(1, len(axis.steps)):
                yield self.point(tuple(step if i == index else 0 for i in range(len(self.axes))))

    def check(self) -> None:
        """Raise an InputError if a value along an axis is invalid, or if axes set two keys that exclude each other."""
        for point in self._examples():
            check_either(point.settings.items(), option="")
            self.scenario(point)

    def own_data(self) -> list[Replicate]:
        """Replicate 0 of one scenario for each population that is read from own files of the person who runs the sweep.
        A caller can check these files before the sweep runs. Generated and public populations need no such check.
        """
        own = {s.population.model_dump_json(): s for s in self.examples() if s.population.own}
        return [Replicate(scenario, data_dir=self.data_dir) for scenario in own.values()]

    @property
    def sweep_identity(self) -> str:
        """The identity of the results: a hash of the base scenario, the swept keys and the data files. Without axes it
        is the scenario's hash. Values along the axes are left out. So a sweep with more values extends the same
        results.
        """
        if not self.axes:
            return self.identity(self.base)
        tree = self.base.canonical()
        for key in self.keys:
            for name in EITHER if key in EITHER else (key,):
                drop_key(tree, name)
        whole = {"base": tree, "keys": sorted(self.keys), "data": list(self.checksums), "model": MODEL_VERSION}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def load_sweep(path: str | Path, overrides: Iterable[str] = (), data_dir: Path | None = None) -> SweepPlan:
    """Read a sweep file; `overrides` are "dotted.key=value" of the base scenario, or replicates=N.

    Args:
        path: path of a file, or the name of a shipped sweep, such as privacy-utility. The base scenario is a file
        beside it, or the name of a shipped scenario.

    Raises:
        InputError: one line that names the file or key, the value and what is allowed.
    """
    path = find_scenario(path, sweep=True)
    tree = read_toml(path)
    if "axes" not in tree and "base" not in tree and tree.keys() & {"population", "mechanism"}:
        raise InputError(f"{path}: this is a scenario, not a sweep: p2p-sim run {path}")
    try:
        file = SweepFile.model_validate_json(json.dumps(tree, default=str))
    except ValidationError as error:
        raise refusal(error, SweepFile).within(path) from None
    base = _load_base(path, file, parse_overrides(overrides))
    return make_plan(file.name, base, file.axes, base.replicates, plots=file.plots, data_dir=data_dir, where=str(path))


def _load_base(path: Path, file: SweepFile, changes: Sequence[tuple[str, Any]]) -> Scenario:
    """The base scenario of the sweep file at `path`. The file's settings change it first, then `changes`, keys with
    values.

    Raises:
        InputError: the base scenario cannot be read, or is not valid with these settings.
    """
    # the file changes the base scenario, then --set does; last comes the number of replicates
    replicates = next((value for key, value in reversed(changes) if key == "replicates"), file.replicates)
    base_file = find_scenario(file.base, folder=path.parent)
    tree = load_scenario(base_file).model_dump(mode="json")
    for key, value in (*file.set.items(), *changes):
        set_key(tree, key, value)
    if replicates is not None:
        set_key(tree, "replicates", replicates)
    try:
        return Scenario.from_tree(tree, base_file.parent)
    except InputError as error:
        # TOML reads a dotted key of [set] without quotes as a table
        for key, value in file.set.items():
            if isinstance(value, Mapping) and value and "kind" not in value:
                quoted = f'"{key}.{next(iter(value))}"'
                hint = f"[set] replaces the whole table {key}: write a single key in quotes, {quoted}"
                raise InputError(f"{path}: {error}; {hint}") from None
        raise error.within(path) from None


def make_plan(
    name: str,
    base: Scenario,
    axes: Sequence[Axis],
    replicates: int,
    *,
    plots: Sequence[Plot] = (),
    data_dir: Path | None = None,
    where: str = "sweep",
) -> SweepPlan:
    """The plan of a sweep, checked: each value along an axis must be valid, and each key may be swept once.

    Args:
        name: name of the results. replicates: number of replicates of each point. plots: figures. data_dir: directory
        of data files. where: beginning of an error's message.

    Raises:
        InputError: the sweep is not valid or has too many points.
    """
    plan = SweepPlan(name, base, axes=tuple(axes), replicates=replicates, plots=tuple(plots), data_dir=data_dir)
    if plan.size > MOST_POINTS:
        raise InputError(f"{where}: {plan.size:,} points; at most {MOST_POINTS:,} are allowed")
    if twice := [key for key in plan.keys if plan.keys.count(key) > 1]:
        raise InputError(f"{where}: axes: {twice[0]} is swept twice")
    if idle := [key for key in plan.keys if key in ("name", "replicates")]:
        raise InputError(f"{where}: axes: {idle[0]} changes no result; sweep something else")
    try:
        plan.check()
    except InputError as error:
        raise InputError(f"{where}: axes: {error}") from None
    return plan


def _cell(value: Any) -> Any:
    """A value as a cell of a table. Numbers and texts stay unchanged; tables and lists become one line of text."""
    if isinstance(value, dict):
        rest = ", ".join(f"{key}={_cell(entry)}" for key, entry in value.items() if key != "kind")
        kind = str(value.get("kind", ""))
        return f"{kind} ({rest})" if kind and rest else kind or rest
    return " ".join(str(_cell(entry)) for entry in value) if isinstance(value, list | tuple) else value
