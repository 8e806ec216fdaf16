"""One numerical thread: with more, k-means and logistic regression differ in their last bits."""

import sys
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController

_LIBRARIES: dict[int, ThreadpoolController] = {}
"""The numerical libraries of this process, by the number of modules that were imported when they were looked for."""


def one_thread() -> AbstractContextManager[Any]:
    """A context in which every numerical library that is loaded by now computes with one thread."""
    modules = len(sys.modules)
    # the search takes milliseconds, a good part of a small replicate; only an import loads further libraries
    libraries = _LIBRARIES.get(modules)
    if libraries is None:
        libraries = ThreadpoolController()
        _LIBRARIES.clear()
        _LIBRARIES[modules] = libraries
    context: AbstractContextManager[Any] = libraries.limit(limits=1)
    return context
