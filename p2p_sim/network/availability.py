"""When users are online: they may join late, leave for good, switch on and off, or follow a recorded trace."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from p2p_sim.base import Config, InputError, Streams
from p2p_sim.network.trace_file import TraceTable, read_trace
from p2p_sim.population import Shard, find_named

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Users = NDArray[np.integer]

KEY = "network.availability"
MOST_OF_USER = 10_000
"""Largest number of online periods drawn for one user."""
MOST_OF_SHARD = 50_000_000
"""Largest number of online periods drawn for one shard (a group of whole clusters); 50 million take about 4 GB."""


@dataclass(frozen=True)
class Availability:
    """The times at which each of m users is online: periods [begin, end), in seconds.

    The periods of a user ascend and neither overlap nor touch. So a user is offline at the end of each period. The
    methods `online` and `next_online` take two arrays of the same shape: users, numbered from 0, and times.

    indptr: (m+1,); user i has the periods indptr[i]..indptr[i+1]-1. begin, end: (P,) beginnings and ends of the P
    periods of all users; an end may be infinite.
    """

    indptr: NDArray[np.int64]
    begin: Floats
    end: Floats

    @staticmethod
    def of(user: Users, begin: Floats, end: Floats, num_users: int) -> "Availability":
        """The availability of users from P periods (user, begin, end): arrays (P,), sorted by user and beginning.

        Empty periods are dropped, and periods that touch are joined.
        """
        real = begin < end
        user, begin, end = user[real], begin[real], end[real]
        apart = (user[1:] != user[:-1]) | (begin[1:] > end[:-1])
        edge = np.ones(min(user.size, 1), dtype=np.bool_)
        opens, closes = np.concatenate([edge, apart]), np.concatenate([apart, edge])
        counts = np.bincount(user[opens], minlength=num_users)
        return Availability(np.concatenate([[0], np.cumsum(counts)]), begin[opens], end[closes])

    def online(self, users: Users, times: Floats) -> Bools:
        """Whether user users[j] is online at the time times[j], for each j."""
        begin = self._at(self.begin, users, self._period(users, times))
        return (begin <= times) & (begin < np.inf)

    def next_online(self, users: Users, times: Floats) -> Floats:
        """For each j, the first moment from times[j] on at which user users[j] is online; inf if there is none."""
        return np.maximum(self._at(self.begin, users, self._period(users, times)), times)

    def count_online(self, first: int, last: int, times: Floats) -> NDArray[np.int64]:
        """How many of the users `first` to `last - 1` are online at each time in `times`, an array of any shape."""
        part = slice(self.indptr[first], self.indptr[last])
        begun = np.searchsorted(np.sort(self.begin[part]), times, side="right")
        return np.asarray(begun - np.searchsorted(np.sort(self.end[part]), times, side="right"))

    def take(self, users: Users) -> "Availability":
        """The availability of some users (k,), renumbered in the order of `users`; a user may occur repeatedly."""
        counts = np.diff(self.indptr)[users]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        period = np.arange(indptr[-1]) + np.repeat(self.indptr[users] - indptr[:-1], counts)
        return Availability(indptr, self.begin[period], self.end[period])

    def _period(self, users: Users, times: Floats) -> NDArray[np.int64]:
        """For each j, the index (in `begin` and `end`) of the first period of user users[j] that ends after times[j].

        If there is no such period, the result is the index after the user's last period.
        """
        # a binary search for all users at once
        low, high = self.indptr[users], self.indptr[users + 1]
        while (low < high).any():
            middle = (low + high) // 2
            after = self.end.take(middle, mode="clip") > times
            low = np.where(after | (low == high), low, middle + 1)
            high = np.where(after, middle, high)
        return low

    def _at(self, values: Floats, users: Users, period: NDArray[np.int64]) -> Floats:
        """For each user, the entry of `values` at the index `period`; infinite after the user's last period.

        Args:
            values: (P,) one number for each online period. users: numbers of users. period: an index for each of these
            users.
        """
        out = np.full(period.shape, np.inf)
        exists = period < self.indptr[users + 1]
        out[exists] = values[period[exists]]
        return out


class AvailabilityLaw(Protocol):
    """A law from which users' online periods are drawn."""

    def draw(self, shard: Shard, streams: Streams, horizon_s: float) -> Availability | None:
        """Draw the online periods of a shard's users (a shard is a group of whole clusters); None: all are always
        online.

        Args:
            shard: the users. streams: the replicate's random streams. horizon_s: finite time, in seconds, until which
            users switch on and off. After the horizon each user stays online or offline. A later horizon does not
            change the periods before an earlier horizon. Joining, leaving and recorded periods do not depend on the
            horizon.
        """
        ...


class Stay(NamedTuple):
    """The times (m,), in seconds, at which each user of a shard joins and leaves; inf if a user never leaves."""

    joins: Floats
    leaves: Floats


class _Membership(Config):
    """Keys for users who join late or leave for good. A subclass decides who is online between joining and leaving."""

    late_share: float = Field(default=0.0, ge=0, le=1)
    """Expected share of users who join late, 0 to 1; the others are there from the start."""
    join_window_s: float | None = Field(default=None, gt=0, le=1e9)
    """Late users join at independent uniform times in (0, join_window_s]; in seconds, above 0 and at most 1e9."""
    leave_share: float = Field(default=0.0, ge=0, le=1)
    """Expected share of users who leave for good, 0 to 1."""
    leave_mean_s: float | None = Field(default=None, gt=0, le=1e9)
    """Mean of the exponential time from joining to leaving, of users who leave; in seconds, above 0 and at most 1e9."""

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        for share, time in (("late_share", "join_window_s"), ("leave_share", "leave_mean_s")):
            if (getattr(self, share) > 0) != (getattr(self, time) is not None):
                raise ValueError(f"{share} and {time} go together: give both (the share above 0) or neither")
        return self

    def _stay(self, shard: Shard, streams: Streams) -> Stay:
        """Draw the times (m,), in seconds, at which each user joins (0 unless late) and leaves (inf: never)."""
        joins, leaves = np.zeros(shard.size), np.full(shard.size, np.inf)
        if self.join_window_s is not None:
            rng = streams.generator("availability-join", shard.index)
            late, moment = rng.random(shard.size) < self.late_share, 1.0 - rng.random(shard.size)
            joins[late] = moment[late] * self.join_window_s
        if self.leave_mean_s is not None:
            rng = streams.generator("availability-leave", shard.index)
            gone, stay = rng.random(shard.size) < self.leave_share, rng.standard_exponential(shard.size)
            leaves[gone] = joins[gone] + stay[gone] * self.leave_mean_s
        return Stay(joins, leaves)


class Always(_Membership):
    """Each user is online from joining to leaving."""

    kind: Literal["always"] = "always"

    def draw(self, shard: Shard, streams: Streams, horizon_s: float) -> Availability | None:
        """Draw one period for each user; None if nobody joins late or leaves."""
        if self.join_window_s is None and self.leave_mean_s is None:
            return None
        stay = self._stay(shard, streams)
        return Availability.of(np.arange(shard.size), stay.joins, stay.leaves, shard.size)


class OnOff(_Membership):
    """Between joining and leaving, each user is online and offline in turn; all lengths of periods are independent.

    At time 0, a user is online with probability mean_on_s / (mean_on_s + mean_off_s), and a whole period begins. With
    exponential periods, this probability holds at every time. With Weibull periods, it holds only at time 0 and in the
    long run.
    """

    kind: Literal["on_off"] = "on_off"
    mean_on_s: float = Field(gt=0, le=1e9)
    """Mean time online at a stretch, seconds, above 0 and at most 1e9."""
    mean_off_s: float = Field(gt=0, le=1e9)
    """Mean time offline at a stretch, seconds, above 0 and at most 1e9."""
    law: Literal["exponential", "weibull"] = "exponential"
    """Law of the lengths of online and offline periods."""
    shape: float | None = Field(default=None, ge=0.2, le=20)
    """Shape of the Weibull law, 0.2 to 20; the means do not depend on it. Below 1, most periods are short and a few are
    very long."""

    @model_validator(mode="after")
    def _shape_is_weibulls(self) -> Self:
        if (self.law == "weibull") != (self.shape is not None):
            raise ValueError("law = 'weibull' needs a shape, law = 'exponential' takes none")
        return self

    def draw(self, shard: Shard, streams: Streams, horizon_s: float) -> Availability:
        """Draw periods up to the horizon. Raises InputError if a user, or the shard, would have too many periods."""
        rng = streams.generator("availability", shard.index)
        begins_on = rng.random(shard.size) < self.mean_on_s / (self.mean_on_s + self.mean_off_s)
        change = self._changes(begins_on, rng, horizon_s)
        begun = change[:, :-1] <= horizon_s
        # online and offline periods alternate: periods 0, 2, 4, ... are of the kind of period 0
        online = begun & (begins_on[:, None] ^ (np.arange(begun.shape[1]) % 2 == 1))
        user, begin, end = np.nonzero(online)[0], change[:, :-1][online], change[:, 1:][online]
        end[end > horizon_s] = np.inf
        stay = self._stay(shard, streams)
        begin, end = np.maximum(begin, stay.joins[user]), np.minimum(end, stay.leaves[user])
        return Availability.of(user, begin, end, shard.size)

    def _changes(self, begins_on: Bools, rng: np.random.Generator, horizon_s: float) -> Floats:
        """The times (m, R), in seconds, at which each of m users goes online or offline, ascending in each row.

        The first time is 0, and the last time of every user lies beyond the horizon. Each round draws one period for
        all users. So the times of a user do not depend on the number R of times.

        Args:
            begins_on: (m,), whether each user is online at time 0. rng: draws the lengths of the periods. horizon_s:
            the time, in seconds, up to which times are needed.

        Raises:
            InputError: there would be too many periods.
        """
        size, cycle = begins_on.size, self.mean_on_s + self.mean_off_s
        most = min(MOST_OF_USER, MOST_OF_SHARD // size)
        # a Weibull period is scale * E**(1/shape), with E standard exponential; its mean is scale * Γ(1 + 1/shape)
        power = 1.0 / (self.shape or 1.0)
        scales = np.array([self.mean_off_s, self.mean_on_s]) / math.gamma(1.0 + power)
        on, changes = begins_on, [np.zeros(size)]
        while changes[-1].min() <= horizon_s:
            if horizon_s > most * cycle or len(changes) > 2 * most:
                raise InputError(
                    f"{KEY}: mean_on_s = {self.mean_on_s:g} and mean_off_s = {self.mean_off_s:g} are too short: "
                    f"{horizon_s:g} s would need more than {most} periods a user"
                )
            periods = rng.standard_exponential(size)
            if self.shape is not None:
                np.power(periods, power, out=periods)
            periods *= scales[on.astype(np.intp)]
            periods += changes[-1]
            changes.append(periods)
            on = ~on
        return np.stack(changes, axis=1)


@dataclass(frozen=True)
class RecordedPeriods:
    """The periods of recorded users: user i of the population follows recorded user i modulo T.

    recorded: the periods of the T recorded users.
    """

    recorded: Availability

    def draw(self, shard: Shard, streams: Streams, horizon_s: float) -> Availability:
        """The recorded periods that the shard's users follow; nothing is drawn at random."""
        return self.recorded.take(np.arange(shard.start, shard.stop) % (len(self.recorded.indptr) - 1))


class AvailabilityTrace(Config):
    """Recorded online periods from a file; a user is offline outside of her periods."""

    kind: Literal["trace"] = "trace"
    path: str = Field(min_length=1)
    """A CSV file with a header line and the columns user, on_s and off_s. Each line is one online period of a user, in
    seconds from 0 to 1e9. The file's users are numbered 0 to T-1; user i of the population follows user i modulo T. The
    file is looked for beside the scenario file, in the data directory, then in the working directory."""

    def load(self, places: tuple[Path, ...]) -> RecordedPeriods:
        """A law with the recorded periods in the file. If a period is impossible, an InputError names the line."""
        path = find_named(self.path, places, f"{KEY}.path")
        table = read_trace(path, ("user", "on_s", "off_s"), f"{KEY}.path")
        table = table.take(np.lexsort((table.columns["on_s"], table.columns["user"])))
        user, begin, end = table.columns.values()
        _check(table, user != np.floor(user), "user", "must be a whole number from 0")
        _check(table, np.diff(user, prepend=-1.0) > 1, "user", "skips a number; users are numbered 0, 1, ...")
        _check(table, end <= begin, "off_s", "must be later than on_s")
        overlaps = np.append(False, (np.diff(user) == 0) & (begin[1:] < end[:-1]))
        _check(table, overlaps, "on_s", "lies within another period of this user")
        return RecordedPeriods(Availability.of(user.astype(np.int64), begin, end, int(user[-1]) + 1))


def _check(table: TraceTable, bad: Bools, name: str, allowed: str) -> None:
    """Raise an InputError that names the first bad row of a trace, if any row is bad.

    bad: (r,) marks the bad ones of r rows.
    name: the faulty column. allowed: end of the message, such as "must be later".
    """
    if bad.any():
        row = int(np.argmax(bad))
        cell = f"line {table.line[row]}: {name} = {table.columns[name][row]:.15g}"
        raise InputError(f"{KEY}.path = {str(table.path)!r}: {cell} {allowed}")


AvailabilityConfig = Annotated[Always | OnOff | AvailabilityTrace, Field(discriminator="kind")]
"""The kinds of availability in a scenario; `AvailabilityTrace.load` turns a trace into a law."""
