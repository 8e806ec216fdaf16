"""One huge replicate on many workers: each worker runs some of the shards, and this process joins the outcomes.

A shard is a group of whole clusters with random streams of its own. So the release does not depend on how shards are
divided among workers.
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
    """A task that runs a share of a replicate's shards: share number `index` of `count` shares."""

    index: int = 0
    count: int = 1

    @property
    def whole(self) -> Task:
        """The task that runs the whole replicate."""
        return Task(self.point, self.replicate, self.scenario, self.folder, self.data_dir)


def _prepare(task: Task) -> Prepared | Streamed:
    """The users, the mechanism and the network of a task's replicate, before anything is exchanged. If the scenario
    allows it, the result is a `Streamed`: users are drawn shard by shard (a shard is a group of whole clusters) and not
    held in memory. Otherwise it is a `Prepared`, which holds all users.
    """
    return prepare_streamed(task.case) if streams(task.case.scenario) else prepare(task.case)


_prepared = lru_cache(maxsize=1)(_prepare)
"""Prepares a replicate and keeps the result until another one is prepared. So a worker that runs several parts of a
replicate draws the users only once."""


def perform_parts(batch: Batch) -> list[Done]:
    """The results of parts of a replicate, each part a `ShardsTask`; a result has an Outcome instead of a row."""
    return [attempt(task, lambda task: (_outcome(cast(ShardsTask, task)), None)) for task in batch]


def _outcome(part: ShardsTask) -> Outcome | None:
    """The outcome of one share of the shards; None if the share is empty, since there are fewer shards than shares."""
    ready = _prepared(part.whole)
    people = ready.people if isinstance(ready, Streamed) else ready.population
    # shares of nearly equal size; this share has the shards first..last-1
    first, last = (len(people.shards) * index // part.count for index in (part.index, part.index + 1))
    if first == last:
        return None
    if isinstance(ready, Streamed):
        return exchange_streamed(ready, (first, last))
    with one_thread():
        outcome = ready.mechanism.release_on(ready.network, ready.population, part=(first, last))
    return replace(outcome, overlay=None)  # the process that joins the outcomes has its own


@dataclass(frozen=True)
class SplitShards:
    """An executor that divides every single task among the workers of another executor."""

    inner: Executor
    workers = 1

    def run(self, batches: Iterator[Batch], perform: Perform) -> Iterator[list[Done]]:
        """Yields the results of whole replicates, one by one. The workers run parts of a replicate, each with some of
        the replicate's shards (groups of whole clusters); this process joins the outcomes of the parts and computes the
        row. Meanwhile the workers go on with the next replicate.

        Args:
            batches: tasks of whole replicates. perform: not used, because a part needs another function than a whole
            replicate; every executor has this argument.
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
    """The result of a replicate, from the results of all its shares in their order. If a share failed, the replicate
    failed.
    """
    for share in shares:
        if share.error is not None:
            return replace(share, task=task, row=None)

    def row(task: Task) -> StatedRow:
        """The row of the replicate, with the conditions of its privacy bounds."""
        case, ready = task.case, _prepare(task)
        parts = [share.row for share in shares if share.row is not None]
        if isinstance(ready, Streamed):
            return measure_streamed(case, ready, parts)
        joined = Outcome.join(parts, ready.network.overlay)
        return measure(case, ready.population, ready.mechanism, joined).stated

    return attempt(task, row)
