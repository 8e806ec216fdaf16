"""Runs are the same everywhere: named, independent random streams come from one seed, and computing uses one thread.

A stream has the address (seed, replicate, purpose, shard, attempt). A replicate is one random repetition. The purpose
is a text that says what the numbers are for. A shard is a group of whole clusters that is simulated at once. An attempt
is a further number, such as the number of a repeated request. So a user's random numbers do not depend on the order of
events, on faults or on other shards. Two mechanisms on the same replicate have the same users and the same network, and
use the same numbers for noise. A further number, the noise salt, changes most streams. The salt does not change who the
users are, who knows whom, or which roles users have. The random numbers are for simulation only: they are not
cryptographic and must not protect anyone's real label.
"""

import hashlib
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from p2p_sim.base.errors import InputError

BLOCK = 65_536
"""Number of users whose random numbers are drawn in one go. Results depend on this constant: it fixes the order of
random numbers.
"""

CACHED = 8_192
"""How many random numbers are computed at a time. The processor's cache then holds intermediate results. No random
number depends on this constant.
"""
OF_THE_USERS = frozenset({"law", "population", "holdout", "clusters", "overlay"})
"""Purposes for which a noise salt changes nothing: who the users are and who knows whom. The salt also changes no
purpose that begins with "role-".
"""
GOLDEN = 0x9E3779B97F4A7C15
"""SplitMix64's step: 2**64 over the golden ratio, made odd."""


@dataclass(frozen=True)
class Streams:
    """All random streams of one replicate.

    Args:
        seed: root seed, a non-negative integer.
        replicate: index of the replicate, from 0.
        noise_salt: 0 to 2**32 - 1. Another salt changes all streams except the streams of users (`OF_THE_USERS`) and
        roles.
        home: the default shard, for requests that name no shard.
    """

    seed: int
    replicate: int
    noise_salt: int = 0
    home: int = 0

    def within(self, shard: int) -> "Streams":
        """These random streams with `shard` as the default shard. Requests that name no shard get the stream of this
        shard. A shard is a group of whole clusters that is simulated at once.
        """
        return replace(self, home=shard)

    def generator(self, purpose: str, shard: int | None = None, attempt: int = 0) -> np.random.Generator:
        """A fresh random generator at the start of the stream with this address. The same address always gives the same
        numbers. Different addresses give independent numbers.

        >>> one, two = Streams(1, 0).generator("flip"), Streams(1, 0).generator("flip")
        >>> bool(one.random() == two.random())
        True

        Args:
            purpose: any text that says what the numbers are for. shard: number of the group of clusters for which they
            are drawn; None: the default shard. attempt: a further number, such as the number of a repeated request.
        """
        return np.random.Generator(np.random.PCG64(self._sequence(purpose, shard, attempt)))

    def uniforms(self, purpose: str, shard: int | None = None, attempt: int = 0) -> "Uniforms":
        """A stream of uniform numbers in [0, 1). Each number is computed from its index, in any order. The same
        arguments always give the same numbers. Different arguments give independent numbers.

        >>> numbers = Streams(1, 0).uniforms("retry")
        >>> bool(numbers.at(np.array([7]))[0] == numbers.at(np.arange(10))[7])
        True

        Args:
            purpose: any text that says what the numbers are for. shard: number of the group of clusters for which they
            are drawn; None: the default shard. attempt: a further number, such as the number of a repeated request.
        """
        [state] = self._sequence(purpose, shard, attempt).generate_state(1, np.uint64)
        return Uniforms(int(state))

    def integer_seed(self, purpose: str) -> int:
        """A seed below 2**31 from a purpose's stream. Some libraries take no generator, such as scikit-learn."""
        return int(self.generator(purpose).integers(2**31))

    def _sequence(self, purpose: str, shard: int | None, attempt: int) -> np.random.SeedSequence:
        purpose_key = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:4], "big")
        address: tuple[int, ...] = (self.replicate, purpose_key, self.home if shard is None else shard, attempt)
        if self.noise_salt and purpose not in OF_THE_USERS and not purpose.startswith("role-"):
            address = (*address, self.noise_salt)
        return np.random.SeedSequence(self.seed, spawn_key=address)


NOISE = frozenset({"flip", "half"})
"""Purposes of the noise on labels."""


class PublicStreams(Streams):
    """The streams of a replicate that a protocol may use: all except the streams of noise and users.

    The class guards only against accidents, because code in the same process can read everything.
    """

    def _sequence(self, purpose: str, shard: int | None, attempt: int) -> np.random.SeedSequence:
        if purpose in NOISE | OF_THE_USERS:
            raise InputError(f"the random stream {purpose!r} is not for protocols")
        return super()._sequence(purpose, shard, attempt)

    @classmethod
    def of(cls, streams: Streams) -> "PublicStreams":
        """The streams of the same replicate (seed and repetition) for a plug-in's protocol. The protocol must know
        neither the noise on labels nor how the users were drawn, so some purposes raise an InputError. "flip" and
        "half" belong to the noise. "law" and "population" belong to the users with their labels. "holdout" is for the
        rows kept for tests, "clusters" for the grouping of users, and "overlay" for who may ask whom.
        """
        return cls(streams.seed, streams.replicate, streams.noise_salt)


@dataclass(frozen=True)
class Uniforms:
    """A stream of uniform numbers, each computed from its index alone.

    All streams lie at random places on SplitMix64's single cycle of 2**64 states. If S streams use at most L numbers
    each, the probability of any overlap is below S² L / 2**64.

    Args:
        state: the generator's state before number 0, 0 to 2**64 - 1.
    """

    state: int

    def at(self, index: NDArray[np.integer]) -> NDArray[np.float64]:
        """The numbers with these indices (from 0, any shape), multiples of 2**-53 in [0, 1)."""
        flat = np.ravel(index)
        out = np.empty(flat.size)
        for start in range(0, flat.size, CACHED):
            words = splitmix64(self.state, flat[start : start + CACHED])
            words >>= np.uint64(11)
            # the words are below 2**53, and signed integers convert faster
            np.multiply(words.view(np.int64), 2.0**-53, out=out[start : start + CACHED])
        return out.reshape(np.shape(index))


def splitmix64(state: int, index: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Outputs (m,) of SplitMix64 (Steele, Lea and Flood 2014) for the indices (m,), from 0. `state` is the start.

    The generator adds a constant to the state and scrambles the sum. So any output can be computed alone.
    """
    words = index.astype(np.uint64)
    words *= np.uint64(GOLDEN)
    words += np.uint64((state + GOLDEN) % 2**64)
    shifted = np.empty_like(words)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= np.right_shift(words, np.uint64(shift), out=shifted)
        words *= np.uint64(factor)
    words ^= np.right_shift(words, np.uint64(31), out=shifted)
    return words


def bernoulli(rng: np.random.Generator, probability: float, size: int) -> NDArray[np.bool_]:
    """`size` independent bits, each True with `probability` in [0, 1], exact to 2**-69.

    A bit is True if a random number is below the probability, the threshold. A random 16-bit integer is compared with
    the threshold's leading 16 bits. If both are equal, a fresh 53-bit number is compared with the rest of the
    threshold. This is three times faster than comparing doubles. Single precision would be wrong for probabilities such
    as 1e-6.
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability = {probability}: must lie in [0, 1]")
    # the threshold's leading 16 bits and the rest of it, in [0, 1)
    leading, rest = divmod(probability * 65_536.0, 1.0)
    out = np.empty(size, dtype=np.bool_)
    if leading == 65_536:  # probability is 1
        out.fill(True)
        return out
    threshold = np.uint16(int(leading))
    for start in range(0, size, BLOCK):
        count = min(BLOCK, size - start)
        words = rng.bit_generator.random_raw(-(-count // 4)).view(np.uint16)[:count]
        hits = np.less(words, threshold, out=out[start : start + BLOCK])
        ties = np.flatnonzero(words == threshold)
        hits[ties] = rng.random(ties.size) < rest
    return out


_libraries = lru_cache(maxsize=1)(lambda modules: ThreadpoolController())
"""A cache of this process's numerical libraries. The argument is the number of imported modules. If this number has
changed, the process is searched for libraries again. This search takes milliseconds, a good part of a small replicate's
time.
"""


def one_thread() -> AbstractContextManager[Any]:
    """A context in which every numerical library that is already loaded uses one thread.

    With more threads, k-means and logistic regression differ in the last bits of their results.
    """
    context: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1)
    return context
