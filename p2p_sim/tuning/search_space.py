"""The keys that a search varies, and the values that each may take."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from p2p_sim.base import EITHER, Config, InputError, read_toml, refusal, value_at
from p2p_sim.scenario import Scenario

Settings = dict[str, Any]
"""A value for each key of a search."""
USUAL: Mapping[str, tuple[float, float, bool]] = {
    "mechanism.sampling_rate": (0.1, 1.0, False),
    "clusters.count": (2, 64, True),
    "clusters.min_size": (2, 128, True),
    "learner.l2": (1e-3, 1e3, True),
}
"""The keys that are searched by default: lowest value, highest value, and whether the scale is logarithmic."""
NOISE: Mapping[str, tuple[float, float, bool]] = {
    "mechanism.target_epsilon": (0.05, 8.0, True),
    "mechanism.flip_prob": (0.001, 0.45, False),
    "mechanism.noise_multiplier": (0.2, 50.0, True),
    "mechanism.randomizer.epsilon": (0.1, 8.0, True),
}
"""The keys that set the noise: lowest value, highest value, and whether the scale is logarithmic."""


@dataclass(frozen=True)
class Dimension:
    """A key of the scenario and the values that a search may try.

    low, high: ends of the range, both included. whole: whether all values are whole numbers. log: whether the scale is
    logarithmic. values: a list in place of the range, if not empty. The sampler treats a list of numbers as ordered.
    """

    key: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    values: tuple[Any, ...] = ()

    @property
    def size(self) -> float:
        """The number of values. Infinite for a continuous range."""
        if self.values:
            return len(self.values)
        return self.high - self.low + 1 if self.whole else math.inf

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to check before a search: both ends of a range, or the whole list."""
        return self.values or ((int(self.low), int(self.high)) if self.whole else (self.low, self.high))

    def described(self) -> dict[str, Any]:
        """The dimension as an entry of the manifest."""
        if self.values:
            return {"key": self.key, "values": list(self.values)}
        return {"key": self.key, "low": self.ends[0], "high": self.ends[1], "log": self.log}


class SearchFile(Config):
    """The keys of a search file. Each searched key is in one of the first three tables."""

    range: dict[str, Any] = Field(default_factory=dict)
    """Keys with [low, high], both ends included. If both ends are integers (1, not 1.0), all values are integers."""
    log: dict[str, Any] = Field(default_factory=dict)
    """Keys with [low, high] as in range, but on a logarithmic scale; low above 0."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Keys with a list of at least two values."""
    batch: int = Field(default=4, ge=1, le=1024)
    """Number of trials that are chosen together and run at the same time, 1 to 1,024. It affects the search."""


@dataclass(frozen=True)
class Space:
    """All dimensions of a search. batch: number of trials (tried settings) that are chosen together."""

    dimensions: tuple[Dimension, ...]
    batch: int = 4

    @property
    def keys(self) -> tuple[str, ...]:
        """All searched keys."""
        return tuple(dimension.key for dimension in self.dimensions)

    @property
    def size(self) -> float:
        """The number of settings. Infinite if a dimension is continuous."""
        return math.prod(dimension.size for dimension in self.dimensions)

    def check(self, base: Scenario) -> None:
        """Raise an InputError for a key or a value that is not valid in the scenario."""
        for dimension in self.dimensions:
            for value in dimension.ends:
                try:
                    base.replace(**{dimension.key: value})
                except InputError as error:
                    text = json.dumps(dimension.ends[:8])
                    raise InputError(f"--search: {dimension.key} = {text}: {error}") from None


def read_search(path: Path) -> Space:
    """The space of a search file.

    Raises:
        InputError: one line with the file or key, the value and the allowed values.
    """
    try:
        file = SearchFile.model_validate_json(json.dumps(read_toml(path), default=str))
    except ValidationError as error:
        raise refusal(error, SearchFile).within(path) from None
    dimensions: dict[str, Dimension] = {}
    for table in ("range", "log", "values"):
        for key, value in _leaves(getattr(file, table)).items():
            if key in ("name", "replicates", "seed") or key.startswith("privacy."):
                raise InputError(f"{path}: {table}.{key}: is no setting that can be chosen; search something else")
            if key in dimensions:
                raise InputError(f"{path}: {table}.{key}: is searched twice")
            dimensions[key] = _dimension(f"{path}: {table}.{key}", table, key, value)
    if not dimensions:
        raise InputError(f"{path}: names no key; give at least one in the tables range, log or values")
    return Space(tuple(dimensions.values()), file.batch)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """All values of nested tables, by dotted key. Tables are not values."""
    leaves = {}
    for key, value in tree.items():
        leaves.update(_leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return leaves


def _dimension(where: str, table: str, key: str, value: Any) -> Dimension:
    """The dimension of a key in one table ("range", "log" or "values") of a search file.

    `value`: as in the file, [low, high] or a list of values. An InputError, which begins with `where`, refuses others.
    """
    text = json.dumps(value)
    if not isinstance(value, list):
        raise InputError(f"{where} = {text}: must be a list")
    if table == "values":
        nested = any(isinstance(entry, list | dict) for entry in value)
        if nested or len(value) < 2 or len(set(map(json.dumps, value))) < len(value):
            raise InputError(f"{where} = {text}: must be at least two different numbers, texts or truth values")
        return Dimension(key, values=tuple(value))
    if len(value) != 2 or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in value):
        raise InputError(f"{where} = {text}: must be [low, high]")
    return _ranged(where, key, value, log=table == "log")


def _ranged(where: str, key: str, ends: Sequence[float], log: bool) -> Dimension:
    """A dimension with two finite ends, `low` below `high`. If both ends are of type int, all values are whole numbers.

    log: whether the scale is logarithmic; `low` is then above 0. An InputError, which begins with `where`, refuses
    other ends.
    """
    low, high = ends
    if not low < high or (log and low <= 0) or not math.isfinite(high - low):
        raise InputError(f"{where} = {json.dumps(ends)}: low must be below high{', and above 0' if log else ''}")
    return Dimension(key, low, high, log=log, whole=isinstance(low, int) and isinstance(high, int))


def noise_key(scenario: Scenario) -> str | None:
    """The scenario's key that sets the noise, such as mechanism.flip_prob. None if there is no such key."""
    tree = scenario.model_dump(mode="json")
    return next((key for key in EITHER if value_at(tree, key) is not None), None)


def calibrated(scenario: Scenario, epsilon: float) -> Scenario | None:
    """The scenario with the key `mechanism.target_epsilon`, which sets the noise. None if the mechanism or the network
    does not allow a target.
    """
    if "target_epsilon" not in type(scenario.mechanism).model_fields:
        return None
    try:
        return scenario.replace(**{"mechanism.target_epsilon": epsilon})
    except InputError:
        return None


def usual_space(scenario: Scenario, noise: bool) -> Space:
    """The space that is searched by default: the keys of `USUAL` and the key of the noise. Keys that the scenario lacks
    are left out. The least size of clusters is searched only together with the number of clusters.

    Args:
        scenario: the scenario that is searched. noise: whether the key of the noise is searched. Otherwise a target ε
        fixes the noise.

    Raises:
        InputError: the scenario has none of these keys.
    """
    tree = scenario.model_dump(mode="json")
    ranges = {key: ends for key, ends in USUAL.items() if value_at(tree, key) is not None}
    if "clusters.count" not in ranges:
        ranges.pop("clusters.min_size", None)  # alone, a least size could only make clusters invalid
    own = noise_key(scenario) if noise else None
    if own is not None:
        key = "mechanism.target_epsilon" if calibrated(scenario, 1.0) is not None else own
        ranges = {key: NOISE[key], **ranges}
    if not ranges:
        raise InputError("--search: is needed; the scenario has none of the keys that are searched by default")
    return Space(tuple(_ranged("--search", key, (low, high), log) for key, (low, high, log) in ranges.items()))
