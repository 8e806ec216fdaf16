"""Many runs of tests that are collected once: each in a fork of the collected session, with one function changed."""

import functools
import importlib
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.validation.mutation import ROOT
from tests.validation.mutation.worker import OPTIONS, Clock, Outcome, forked, outcome

Runner = Callable[[list[str], dict[str, float], str, str, str], Outcome]
"""Of tests, seconds allowed to each, module, function, code: as `worker.run`, but only the function is changed."""


def with_collected(files: list[str], work: Callable[[Runner], None]) -> None:
    """Collect the tests of these files and call `work` with what runs some of them."""

    class Loop:
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            if session.testsfailed:
                raise SystemExit("the tests cannot be collected")
            work(functools.partial(_run, session))
            return True

    pytest.main([*OPTIONS, "-s", "-x", *files], plugins=[Loop()])


def _run(
    session: pytest.Session, tests: list[str], limits: dict[str, float], module: str, function: str, code: str
) -> Outcome:
    items = {item.nodeid: item for item in session.items}

    def work(log: Path) -> int:
        session.config.pluginmanager.register(Clock(log, limits))
        if code:
            change(module, function, code)
        chosen = [items[name] for name in tests]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                return 1
        return 0

    return outcome(*forked(work), changed=bool(code))


def change(module: str, function: str, code: str) -> None:
    """Give a function or method, wherever it was imported, the body that it has in `code`.

    Raises:
        LookupError: there is not exactly one such function, or it closes over other names.
    """
    path = str(ROOT / module)
    found: Any = importlib.import_module(module.removesuffix(".py").replace("/", "."))
    for name in function.split("."):
        found = vars(found)[name]
    for inner in ("fget", "func", "__func__"):  # of a property, a cached one, a class or static method
        found = getattr(found, inner, found)
    found = inspect.unwrap(found)
    bodies = [body for body in _bodies(compile(code, path, "exec")) if body.co_qualname == function]
    if len(bodies) != 1 or not isinstance(found, types.FunctionType) or found.__code__.co_qualname != function:
        raise LookupError(f"{module}: {function}")
    if bodies[0].co_freevars != found.__code__.co_freevars:
        raise LookupError(f"{module}: {function} closes over other names")
    found.__code__ = bodies[0]


def _bodies(code: types.CodeType) -> list[types.CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [*inner, *(deeper for body in inner for deeper in _bodies(body))]
