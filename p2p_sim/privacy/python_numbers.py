"""Numbers of NumPy are taken as the numbers of Python that they are: single precision would void a certified bound."""

import dataclasses
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

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
