"""One huge replicate on many workers. Each worker runs some shards, and this process joins the outcomes.

A shard is a group of whole clusters with its own random streams. So the release does not depend on the number of
workers.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import cast

from p2p_sim.base import one_thread
from p2p_sim.mechanisms import Outcome
from p2p_sim.replicate import (
    Prepared,
    StatedRow,
    Streamed,
    exchange_streamed,
    measure,
    measure_streamed,
    prepare,
    prepare_streamed,
    streams,
)
from p2p_sim.sweeps.tasks import Batch, Done, Executor, Perform, Task, attempt

PARTS_PER_WORKER = 2


@dataclass(frozen=True)
class ShardsTask(Task):
    """A task for some of a replicate's shards: share number `index`, from 0, of `count` shares."""

    index: int = 0
    count: int = 1

    @property
    def whole(self) -> Task:
        """The task that runs the whole replicate."""
        return Task(self.point, self.replicate, self.scenario, self.folder, self.data_dir)


def _prepare(task: Task) -> Prepared | Streamed:
    """The users, the mechanism and the network of a replicate before the exchange. A `Streamed` draws users shard by
    shard. If the scenario does not allow this, the result is a `Prepared`, which holds all users in memory.
    """
    return prepare_streamed(task.case) if streams(task.case.scenario) else prepare(task.case)


_prepared = lru_cache(maxsize=1)(_prepare)
"""`_prepare` with a cache of one replicate. So a worker draws the users only once for several parts of a replicate."""


def perform_parts(batch: Batch) -> list[Done]:
    """The results of parts of a replicate, in the order of tasks. Every task is a `ShardsTask`, with an Outcome in
    place of a row.
    """
    return [attempt(task, lambda task: (_outcome(cast(ShardsTask, task)), None)) for task in batch]


def _outcome(part: ShardsTask) -> Outcome | None:
    """The outcome of one share of the shards. None if the share has no shards."""
    ready = _prepared(part.whole)
    people = ready.people if isinstance(ready, Streamed) else ready.population
    # all shares have nearly equal size; this share has the shards first..last-1
    first, last = (len(people.shards) * index // part.count for index in (part.index, part.index + 1))
    if first == last:
        return None
    if isinstance(ready, Streamed):
        return exchange_streamed(ready, (first, last))
    with one_thread():
        outcome = ready.mechanism.release_on(ready.network, ready.population, part=(first, last))
    return replace(outcome, overlay=None)  # the process that joins the outcomes has an overlay already


@dataclass(frozen=True)
class SplitShards:
    """An executor that divides every task among the workers of another executor."""

    inner: Executor
    workers = 1

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Yields the results of whole replicates, one by one. Workers run parts of a replicate, each with some shards.
        This process joins the outcomes and computes the row; meanwhile the workers run the next replicate.

        Args:
            batches: tasks of whole replicates. perform: not used. Every executor has this argument.
        """
        begin, count = time.perf_counter(), PARTS_PER_WORKER * self.inner.workers
        tasks = (task for batch in batches for task in batch)
        parts = ((ShardsTask(**asdict(task), index=index, count=count),) for task in tasks for index in range(count))
        shares: dict[Task, dict[int, Done]] = {}
        for results in self.inner.run(parts, perform_parts):
            for share in results:
                part = cast(ShardsTask, share.task)
                shares.setdefault(part.whole, {})[part.index] = share
                if len(shares[part.whole]) == count:
                    by_index = shares.pop(part.whole)
                    whole = _whole(part.whole, [by_index[index] for index in range(count)])
                    yield [replace(whole, wall_s=time.perf_counter() - begin)]
                    begin = time.perf_counter()


def _whole(task: Task, shares: list[Done]) -> Done:
    """The result of a replicate from the ordered results of all shares. If shares failed, the replicate
    fails with the error of the first of these shares.
    """
    for share in shares:
        if share.error is not None:
            return replace(share, task=task, row=None)

    def row(task: Task) -> StatedRow:
        """The row of the replicate, with the conditions of the row's ε."""
        case, ready = task.case, _prepare(task)
        parts = [share.row for share in shares if share.row is not None]
        if isinstance(ready, Streamed):
            return measure_streamed(case, ready, parts)
        joined = Outcome.join(parts, ready.network.overlay)
        return measure(case, ready.population, ready.mechanism, joined).stated

    return attempt(task, row)
