"""Checks of plug-ins: of the values that methods return, of methods' arguments, and of class attributes."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from p2p_sim.base.errors import InputError


def require(method: str, right: bool, wanted: str) -> None:
    """Raise InputError with the message `method` + `wanted`, unless the result of a plug-in's method is right.

    Args:
        method: names the plug-in and the method. right: whether the result is right. wanted: what the result must be.
    """
    if not right:
        raise InputError(f"{method}{wanted}")


def is_array(value: Any, kinds: str, shape: tuple[int | None, ...]) -> bool:
    """Whether a value is a NumPy array of this shape with one of these kinds of numbers.

    Args:
        kinds: letters of `numpy.dtype.kind`, such as "iu" for whole numbers.
        shape: the length along each axis; None stands for any length.
    """
    if not (isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == len(shape)):
        return False
    return all(wanted is None or length == wanted for length, wanted in zip(value.shape, shape, strict=True))


def described(value: Any) -> str:
    """The words for a value in messages: the type and shape of an array, or the class of another value."""
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def is_number(value: Any) -> bool:
    """Whether a value is a finite float, or an integer of at most 64 bits, of a Python or NumPy type. Truth values are
    no numbers.
    """
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool) and bool(-(2**63) <= value < 2**64)
    return isinstance(value, float | np.floating) and bool(np.isfinite(value))


def is_whole(value: Any, below: int) -> bool:
    """Whether a value is a whole number from 0 to `below` - 1, of a Python or NumPy type. True is no number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(0 <= value < below)


def wrong_attribute(derived: type, base: type) -> str:
    """The error for the first class attribute with a wrong type; empty if there is none. The base class declares the
    types.

    >>> from typing import Literal
    >>> class Base:
    ...     loss: ClassVar[Literal["log", "squared"]] = "log"
    >>> class Derived(Base):
    ...     loss = "hinge"
    >>> wrong_attribute(Derived, Base), wrong_attribute(Base, Base)
    ("loss = 'hinge': must be 'log' or 'squared'", '')
    """
    for name, declared in get_type_hints(base).items():
        value = getattr(derived, name, None)
        if get_origin(declared) is not ClassVar or isinstance(value, property):
            continue
        [kind] = get_args(declared)
        try:
            TypeAdapter(kind, config={"arbitrary_types_allowed": True}).validate_python(value, strict=True)
        except ValidationError as error:
            return f"{name} = {value!r}: {error.errors()[0]['msg'].replace('Input should', 'must')}"
    return ""


def misfit(derived: type, base: type) -> str:
    """The error for the first wrong public method of a class; empty if no method is wrong. A method must take the
    arguments of the base class's method. A name close to the name of a base class's method is probably misspelt, and so
    is wrong.

    >>> class Base:
    ...     def fit(self, features, weights): ...
    >>> class Learner(Base):
    ...     def fit(self, features): ...
    >>> misfit(Learner, Base), misfit(Base, Base)
    ('fit must take (self, features, weights)', '')
    >>> class Misspelt(Base):
    ...     def fits(self, features, weights): ...
    >>> misfit(Misspelt, Base)
    'fits: no base class has this method; did you mean fit?'
    """
    # methods of the base classes that the class does not override; it may have misspelt one of these names
    defined = {*vars(derived), *dir(BaseModel)}
    inherited = [name for cls in (*derived.__mro__[1:], base) for name in dir(cls) if name not in defined]
    for name, method in inspect.getmembers_static(derived, inspect.isfunction):
        earlier = [vars(cls)[name] for cls in (*derived.__mro__[1:], base) if name in vars(cls)]
        of_base = earlier[-1] if earlier else method
        if not (earlier or name.startswith("_")) and (near := get_close_matches(name, inherited, 1, 0.8)):
            return f"{name}: no base class has this method; did you mean {near[0]}?"
        if fault := _wrong_arguments(name, method, of_base):
            return fault
    return ""


def _wrong_arguments(name: str, method: Callable[..., Any], of_base: Any) -> str:
    """The error that says which arguments a method must take; empty if it takes the arguments of the base class's
    method. Private methods, and methods that no base class has, get no error.

    Args:
        of_base: what the base class defines under this name; `method` itself if there is nothing.
    """
    if method is of_base or name.startswith("_") or not inspect.isfunction(of_base):
        return ""
    parameters = inspect.signature(of_base).parameters
    named = [key for key, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    try:
        inspect.signature(method).bind(*parameters.keys() - set(named), **dict.fromkeys(named))
    except TypeError:
        return f"{name} must take ({', '.join(parameters)})"
    return ""
