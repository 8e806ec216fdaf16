"""What runs on the workers of a cluster, and whether they are fit for it."""

import functools
import importlib.metadata
import platform
import warnings
from collections.abc import Mapping
from types import MappingProxyType

from p2p_sim.base.errors import InputError
from p2p_sim.base.packages import version
from p2p_sim.sweeps.tasks import Batch, Done, Perform, one_line, sent

Versions = dict[str, str]
_MUST_AGREE = ("p2p-sim", "model version")


class OtherModelError(Exception):
    """A worker has another version of the simulator."""


def versions() -> Versions:
    """Versions that rows may depend on, of this process; imports the simulator, so that no task waits for it."""
    import p2p_sim.replicate.run  # noqa: F401
    from p2p_sim.base.plugins import codes, packages
    from p2p_sim.scenario import MODEL_VERSION

    return {
        "p2p-sim": version(),
        "model version": str(MODEL_VERSION),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "scipy")},
        **{_plug_in(name): version for name, version in packages().items()},
        **{_code_of(name): digest[:16] for name, digest in codes().items()},
    }


def _plug_in(name: str) -> str:
    return f"plug-in {name}"


def _code_of(name: str) -> str:
    return f"{_plug_in(name)} with code"


def compare(
    where: str,
    here: Versions,
    found: Mapping[str, Versions | BaseException],
    packages: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Compare what workers answered with what this process has.

    Args:
        where: address of the scheduler, for messages.
        here: versions of this process.
        found: the answer of each worker, by its address: its versions, or why it has none.
        packages: plug-ins that are needed; of others, versions do not matter.

    Raises:
        InputError: if a worker lacks the simulator or a plug-in, or has another version of it.
    """
    needed = {key(name) for name in packages for key in (_plug_in, _code_of)}
    here = {name: version for name, version in here.items() if not name.startswith(_plug_in("")) or name in needed}
    for worker, answer in sorted(found.items()):
        if isinstance(answer, BaseException):
            why = one_line(answer)
            raise InputError(f"dask {where}: {worker} cannot run p2p-sim ({why}); install the same version everywhere")
        for name in here:
            if answer.get(name) == here[name]:
                continue
            differs = f"dask {where}: {worker} has {_shown(name, answer)}, this process {here[name]}"
            if name in _MUST_AGREE or name in needed:
                raise InputError(f"{differs}; install the same version everywhere")
            warnings.warn(f"{differs}; rows may differ in their last digits", stacklevel=2)


def _shown(name: str, answer: Versions) -> str:
    return f"{name} {answer[name]}" if name in answer else f"no {name}"


def perform_there(perform: Perform, batch: Batch, model_version: int) -> list[Done]:
    """Perform a batch on a worker, one that joined late included, with one numerical thread.

    Raises:
        OtherModelError: if the worker simulates another model.
    """
    from p2p_sim.scenario import MODEL_VERSION

    if model_version != MODEL_VERSION:
        raise OtherModelError(f"model version {MODEL_VERSION} instead of {model_version}")
    _one_thread()
    return [sent(done) for done in perform(batch)]


@functools.cache
def _one_thread() -> None:
    """For good: the limit that each replicate sets and lifts is shared by all threads of a worker."""
    from threadpoolctl import threadpool_limits

    import p2p_sim.replicate.run  # noqa: F401

    threadpool_limits(1)
