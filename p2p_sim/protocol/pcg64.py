"""NumPy's PCG64 and its seeding in compiled code (numba, extra `[fast]`): the same numbers to the last bit.

The generator is s ← a·s + c modulo 2**128, its output a rotation of the halves' exclusive or (O'Neill 2014, PCG XSL RR
128/64). One step waits for the one before; `LANES` steps at once are s ← a^L·s + c·(1 + a + ... + a^(L-1)), so that the
processor works on many states side by side. A 128-bit number is two 64-bit words, the upper one first.
"""

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from p2p_sim.base.streams import Streams, purpose_key

LANES = 32
"""States that advance side by side."""
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_LOW = 2**64 - 1


def _halves(value: int) -> tuple[np.uint64, np.uint64]:
    return np.uint64(value >> 64 & _LOW), np.uint64(value & _LOW)


A_HIGH, A_LOW = _halves(MULTIPLIER)
LEAP_HIGH, LEAP_LOW = _halves(pow(MULTIPLIER, LANES, 2**128))
SUM_HIGH, SUM_LOW = _halves(sum(pow(MULTIPLIER, k, 2**128) for k in range(LANES)))


def entropy(streams: Streams, purpose: str) -> NDArray[np.uint32]:
    """The 32-bit words that seed a purpose's streams, but the last two: the shard and the attempt, which is 0."""
    root, replicate, key = (_words(number) for number in (streams.seed, streams.replicate, purpose_key(purpose)))
    padding = [0] * (4 - len(root))  # to the size of SeedSequence's pool
    return np.array(root + padding + replicate + key, dtype=np.uint32)


def _words(number: int) -> list[int]:
    """The lowest first; one at least."""
    return [number >> shift & 0xFFFFFFFF for shift in range(0, max(number.bit_length(), 1), 32)]


@njit(inline="always", cache=True)
def _times(a_high, a_low, b_high, b_low):
    """A product modulo 2**128; 32-bit parts, so that the loops around it become vector instructions."""
    a0, a1 = a_low & uint64(0xFFFFFFFF), a_low >> uint64(32)
    b0, b1 = b_low & uint64(0xFFFFFFFF), b_low >> uint64(32)
    low, cross, other = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> uint64(32)) + (cross & uint64(0xFFFFFFFF)) + other
    high = a1 * b1 + (cross >> uint64(32)) + (middle >> uint64(32))
    return high + a_high * b_low + a_low * b_high, a_low * b_low


@njit(inline="always", cache=True)
def _plus(a_high, a_low, b_high, b_low):
    low = a_low + b_low
    return a_high + b_high + uint64(low < a_low), low


@njit(inline="always", cache=True)
def _output(high, low):
    mixed, turn = high ^ low, high >> uint64(58)
    return (mixed >> turn) | (mixed << (-turn & uint64(63)))


@njit(cache=True)
def step(state):
    """Advance a stream (4,), the state's and the increment's halves, by one; the word it gives."""
    high, low = _times(state[0], state[1], A_HIGH, A_LOW)
    state[0], state[1] = _plus(high, low, state[2], state[3])
    return _output(state[0], state[1])


@njit(cache=True)
def uniform(state):
    """A multiple of 2**-53 in [0, 1)."""
    return np.float64(step(state) >> uint64(11)) * 2.0**-53


@njit(cache=True)
def fill(state, out):
    """Fill `out` (n,) with a stream's next words, and advance the stream by n."""
    n = out.size
    high, low = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64)
    lead = min(n, LANES)
    for lane in range(lead):
        out[lane] = step(state)
        high[lane], low[lane] = state[0], state[1]
    if n <= LANES:
        return
    c_high, c_low = _times(state[2], state[3], SUM_HIGH, SUM_LOW)
    full = n // LANES * LANES
    for start in range(LANES, full, LANES):
        for lane in range(LANES):
            a, b = _times(high[lane], low[lane], LEAP_HIGH, LEAP_LOW)
            a, b = _plus(a, b, c_high, c_low)
            high[lane], low[lane] = a, b
            out[start + lane] = _output(a, b)
    state[0], state[1] = high[LANES - 1], low[LANES - 1]
    for rest in range(full, n):
        out[rest] = step(state)


@njit(inline="always", cache=True)
def _hash(value, constant, factor):
    constant_next = uint32(constant * factor)
    value = uint32((value ^ constant) * constant_next)
    return value ^ (value >> uint32(16)), constant_next


@njit(inline="always", cache=True)
def _mix(x, y):
    mixed = uint32(uint32(0xCA01F9DD) * x - uint32(0x4973F715) * y)
    return mixed ^ (mixed >> uint32(16))


@njit(cache=True)
def seeded(words, shard, state):
    """`state` (4,), put at a stream's start: `SeedSequence`'s hashing of the words, the shard and attempt 0."""
    pool = np.empty(4, np.uint32)
    constant = uint32(0x43B0D7E5)
    for i in range(4):
        pool[i], constant = _hash(words[i], constant, uint32(0x931E8875))
    for source in range(4):
        for target in range(4):
            if source != target:
                value, constant = _hash(pool[source], constant, uint32(0x931E8875))
                pool[target] = _mix(pool[target], value)
    for source in range(4, words.size + 2):
        word = words[source] if source < words.size else uint32(shard if source == words.size else 0)
        for target in range(4):
            value, constant = _hash(word, constant, uint32(0x931E8875))
            pool[target] = _mix(pool[target], value)
    seeds = np.empty(8, np.uint32)
    constant = uint32(0x8B51F9DD)
    for i in range(8):
        seeds[i], constant = _hash(pool[i % 4], constant, uint32(0x58F38DED))
    start_high, start_low, high, low = seeds.view(np.uint64)
    state[2], state[3] = high << uint64(1) | low >> uint64(63), low << uint64(1) | uint64(1)
    state[0], state[1] = _plus(state[2], state[3], start_high, start_low)
    step(state)
    return state
