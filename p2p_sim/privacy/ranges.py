"""The numbers that bounds take: their ranges, each refused in one line, and numbers of NumPy.

Numbers of NumPy are taken as the numbers of Python that they are: single precision would void a certified bound.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from p2p_sim.privacy.binomial_windows import LEAST

LARGEST_CLUSTER = 10_000_000
LARGEST_EPSILON = 700.0
"""Above ε₀ of every α of at least 1e-300."""


def check_cluster_size(cluster_size: int, least: int = 2, largest: int = LARGEST_CLUSTER) -> None:
    """Raise unless n is a whole number in this range."""
    if not isinstance(cluster_size, int) or not least <= cluster_size <= largest:
        raise ValueError(f"cluster_size = {cluster_size}: must be a whole number from {least} to {largest:,}")


def check_flip_prob(flip_prob: float, num_classes: int = 2, least: float = 0.0) -> None:
    """Raise unless α is 0 or lies in [least, (K-1)/K]."""
    largest = (num_classes - 1) / num_classes
    if flip_prob == 0.0 or least <= flip_prob <= largest:
        return
    span = f"lie in [0, {largest:g}]" if least == 0.0 else f"be 0, or lie in [{least:g}, {largest:g}]"
    raise ValueError(f"flip_prob = {flip_prob}: must {span}")


def check_sampling_rate(sampling_rate: float) -> None:
    """Raise unless θ lies in [1e-300, 1]."""
    if not LEAST <= sampling_rate <= 1.0:
        raise ValueError(f"sampling_rate = {sampling_rate}: must lie in [{LEAST:g}, 1]")


def check_epsilon(epsilon: float) -> None:
    """Raise unless ε is a number of at least 0."""
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon = {epsilon}: must be at least 0")


def check_positive_epsilon(epsilon: float) -> None:
    """Raise unless ε, of a noise scale or a target, is above 0 and finite."""
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon = {epsilon}: must be above 0 and finite")


def check_delta(delta: float) -> None:
    """Raise unless δ lies strictly between 0 and 1."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta = {delta}: must lie in (0, 1)")


Given = ParamSpec("Given")
Result = TypeVar("Result")
ASKED = {
    *("delta", "epsilon", "certified_delta", "profile", "satisfies", "user_delta"),
    *("advantage", "worst_advantage", "renyi", "gdp", "tradeoff", "pld"),
    *("best_share", "delta_of", "of_mean"),
}
"""Methods of accountants and of laws of runs that take numbers."""


def plain(value: Any) -> Any:
    """A number of NumPy, or those in a list or tuple, as numbers of Python; an array in double precision."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return float(value) if np.issubdtype(value.dtype, np.floating) else value.item()
    if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating):
        return value.astype(np.float64, copy=False)
    if type(value) in (list, tuple) and any(isinstance(one, np.generic | np.ndarray) for one in value):
        return type(value)(plain(one) for one in value)
    return value


def plain_arguments(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function of the same arguments, each `plain`."""

    @wraps(function)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return function(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return called


class PlainNumbers:
    """A data class whose fields, and the arguments of its `ASKED` methods, may be numbers of NumPy."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ASKED & vars(cls).keys():
            method = vars(cls)[name]
            if isinstance(method, staticmethod):
                setattr(cls, name, staticmethod(plain_arguments(method.__func__)))
            else:
                setattr(cls, name, plain_arguments(method))
        if "__post_init__" in vars(cls):
            check = vars(cls)["__post_init__"]

            @wraps(check)
            def checked(self: PlainNumbers) -> None:
                PlainNumbers.__post_init__(self)
                check(self)

            cls.__post_init__ = checked  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # only a data class comes here
            value = getattr(self, field.name)
            if (number := plain(value)) is not value:
                object.__setattr__(self, field.name, number)
