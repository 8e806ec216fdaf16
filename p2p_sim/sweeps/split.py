"""One huge replicate over many workers: each runs some of the shards, the driver puts them together.

Shards are whole clusters with random streams of their own, so that the release is the same as of a run in one piece.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from threadpoolctl import threadpool_limits

from p2p_sim.base.errors import RunFailed
from p2p_sim.mechanisms.outcome import Outcome
from p2p_sim.replicate.run import Exchanged, Prepared, Result, complete, prepare
from p2p_sim.sweeps.work import Batch, Done, Executor, Perform, Task, done, failed

PARTS_PER_WORKER = 2


@dataclass(frozen=True)
class Part(Task):
    """The share `index` of `count` of a replicate's shards."""

    index: int = 0
    count: int = 1


@lru_cache(maxsize=1)
def _prepared(task: Task) -> Prepared:
    """The users of a replicate; a worker that runs several of its parts draws them once."""
    return prepare(task.case)


def perform_parts(batch: Batch) -> list[Done]:
    """Run parts of a replicate; what comes back in place of a row is an Outcome."""
    return [done(task, lambda part: (_outcome(part), None)) for task in batch]


def _outcome(part: Task) -> Outcome | None:
    """What a share of the shards leaves behind; None where there are fewer shards than shares and it has none."""
    assert isinstance(part, Part)
    ready = _prepared(Task(part.point, part.replicate, part.scenario, part.folder, part.data_dir))
    first, last = _range(ready.population.num_shards, part.index, part.count)
    if first == last:
        return None
    with threadpool_limits(1):
        outcome = ready.mechanism.release_on(ready.network, ready.population, study=True, part=(first, last))
    return replace(outcome, overlay=None)  # the driver has its own


def _range(total: int, index: int, count: int) -> tuple[int, int]:
    """Shards first to last - 1 of one share."""
    return total * index // count, total * (index + 1) // count


@dataclass(frozen=True)
class SplitShards:
    """An executor that spreads every single task over the workers of another one."""

    inner: Executor
    workers = 1

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Results one by one; `perform` is not used, since the driver puts each replicate together."""
        for batch in batches:
            for task in batch:
                yield [self._whole(task)]

    def _whole(self, task: Task) -> Done:
        begin, count = time.perf_counter(), PARTS_PER_WORKER * self.inner.workers
        parts = [Part(**asdict(task), index=index, count=count) for index in range(count)]
        try:
            found: dict[int, Outcome | None] = {}
            for results in self.inner.run(iter([(part,) for part in parts]), perform_parts):
                for share in results:
                    if share.error is not None:
                        return replace(share, task=task, row=None)
                    assert isinstance(share.task, Part)
                    found[share.task.index] = share.row
            result = _result(task, [part for index in range(count) if (part := found[index]) is not None])
            return Done(task, result.row, None, time.perf_counter() - begin, result.terms)
        except RunFailed:
            raise
        except Exception as fault:  # of this replicate alone
            return failed(task, fault, time.perf_counter() - begin)


def _result(task: Task, parts: list[Outcome]) -> Result:
    """The replicate from its parts."""
    case = task.case
    ready = prepare(case)
    outcome = Outcome.join(parts, ready.network.overlay)
    return complete(case, Exchanged(ready.population, ready.mechanism, outcome))
