"""The keys of a sweep file, and the axes and figures of a sweep in Python."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field, ValidationError, model_validator

from p2p_sim.base import Config, InputError, is_a, refusal

MOST_POINTS = 1_000_000
"""Largest number of points of a sweep, and of values of an axis."""


class Axis(Config):
    """One direction of a sweep: a key and its values, or several keys that change together."""

    key: str | None = None
    """Dotted key of the scenario, such as mechanism.flip_prob."""
    keys: tuple[str, ...] | None = Field(default=None, min_length=2)
    """Several keys that change together. Each entry of `values` is then a list with a value for each key."""
    values: tuple[Any, ...] | None = Field(default=None, min_length=1)
    """The values, at least one. Give this, `linear` or `log`."""
    linear: tuple[float, float, int] | None = None
    """[first, last, count]: evenly spaced values, both ends included."""
    log: tuple[float, float, int] | None = None
    """[first, last, count]: evenly spaced on a logarithmic scale, both ends included and above 0."""
    labels: tuple[str, ...] | None = None
    """Names of the values in tables, texts and figures, one for each value; absent: the values themselves."""

    @model_validator(mode="after")
    def _of_one_form(self) -> "Axis":
        if (self.key is None) == (self.keys is None):
            raise ValueError("give either key or keys")
        if sum(form is not None for form in (self.values, self.linear, self.log)) != 1:
            raise ValueError("give one of values, linear and log")
        if self.keys is not None and self.values is None:
            raise ValueError("keys need values, a list for each point of the axis")
        return self

    @model_validator(mode="after")
    def _complete(self) -> "Axis":
        if self.keys is not None and any(
            not isinstance(value, list | tuple) or len(value) != len(self.keys) for value in self.values or ()
        ):
            raise ValueError(f"values: each must be a list of {len(self.keys)} values, one for each key")
        for ends in (self.linear, self.log):
            if ends is not None and (not 2 <= ends[2] <= MOST_POINTS or (ends is self.log and min(ends[:2]) <= 0)):
                raise ValueError(
                    f"{list(ends)}: must be [first, last, count] with a count from 2 to {MOST_POINTS:,}; "
                    "for log, first and last must be above 0"
                )
        if self.labels is not None and len(self.labels) != len(self.steps):
            raise ValueError(f"labels: {len(self.labels)} for {len(self.steps)} values")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The dotted keys that change along the axis."""
        return self.keys if self.keys is not None else (str(self.key),)

    @property
    def steps(self) -> list[tuple[Any, ...]]:
        """The steps along the axis, in order. A step is a tuple with a value for each of `names`."""
        # twelve digits give 0.3, not 0.30000000000000004
        if self.linear is not None:
            return [(float(f"{value:.12g}"),) for value in np.linspace(*self.linear[:2], self.linear[2])]
        if self.log is not None:
            return [(float(f"{value:.12g}"),) for value in np.geomspace(*self.log[:2], self.log[2])]
        return [tuple(value) if self.keys is not None else (value,) for value in self.values or ()]


class Plot(Config):
    """A figure of the sweep. Columns of the rows are drawn."""

    x: str
    """Column on the horizontal axis."""
    y: str
    """Column on the vertical axis."""
    group: str | None = None
    """Column whose values become lines."""
    facet: str | None = None
    """Column whose values become panels."""
    fit: bool = False
    """Whether to draw the curve that theory predicts, fitted to the points."""


class SweepFile(Config):
    """The keys of a sweep file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Name of the output directory: letters, digits, dots, dashes and underscores."""
    base: str = Field(min_length=1)
    """The base scenario: a file beside the sweep file, or the name of a shipped scenario."""
    replicates: int | None = Field(default=None, ge=1)
    """Repetitions of each point, at least 1. Absent: the base scenario's number."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Dotted keys of the base scenario to change for all points."""
    axes: tuple[Axis, ...] = Field(min_length=1)
    """The sweep runs over all combinations of the axes' values."""
    plots: tuple[Plot, ...] = ()
    """Figures to draw."""


def axes_of(axes: Any) -> list[Axis]:
    """The axes of a sweep, from a mapping of dotted keys to values. The values of a key may be a list, a range, an
    array or a column of a data frame.

    Raises:
        InputError: `axes` is something else.
    """
    if not isinstance(axes, Mapping) or not axes:
        raise InputError(f"axes {is_a(axes)}: must map keys to lists of values, such as {_EXAMPLE}")
    parsed = []
    for key, values in axes.items():
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__") or np.ndim(values) == 0:
            raise InputError(f"axes: {key} {is_a(values)}: must be a list of values, such as {_EXAMPLE}")
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        try:
            parsed.append(Axis(key=key, values=plain))
        except ValidationError as error:
            raise refusal(error, Axis).within(f"axes: {key}") from None
    return parsed


def plots_of(plots: Any) -> list[Plot]:
    """The figures of a sweep, from a list of mappings. The keys of a mapping are the fields of `Plot`.

    Raises:
        InputError: `plots` is something else.
    """
    if not isinstance(plots, list | tuple) or not all(isinstance(entry, Mapping) for entry in plots):
        raise InputError(f"plots {is_a(plots)}: must be a list of mappings, such as {_PLOTS}")
    try:
        return [Plot(**entry) for entry in plots]
    except ValidationError as error:
        raise refusal(error, Plot).within("plots") from None


_EXAMPLE = '{"mechanism.flip_prob": [0.1, 0.2]}'
_PLOTS = '[{"x": "epsilon_upper", "y": "error_rate"}]'
