"""One numerical thread: with more, k-means and logistic regression differ in their last bits."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """A context in which every numerical library that is loaded by now computes with one thread."""
    found: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1)
    return found


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """The numerical libraries of this process.

    To look for them takes milliseconds, a good part of a small replicate. So it is done again only when modules were
    imported since, which is what loads libraries.

    Args:
        modules: how many are imported.
    """
    return ThreadpoolController()
