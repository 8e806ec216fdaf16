"""The learner's view of one target in a sparse overlay, where few users fetch her label.

Let the target's fetchers be the users i with W[i, v] > 0. Every other source of theirs, unless its bit is known, is
assigned to one of the fetchers who can ask it: A_i are the cells of i. Then more is revealed than anybody sees.

*Rings.* Let S_k be the cells that are somebody's but not k's, and h = rate_k · W_k(S_k) the probability that k submits
a bit of S_k. Give k independent clocks: cell j rings with probability 1 - (1-h)^(W_kj/W_k(S_k)). Some clock rings
with probability h, and the first is j with probability W_kj/W_k(S_k), so rings can be drawn together with her choice:
she submits a bit of S_k if and only if something rings, and then that of the first. Reveal the bits of all cells that
ring, and who rang them. A cell j stays hidden with probability u_j = Π_k (1-h_k)^(W_kj/W_k(S_k)), independently over j.

*Samples.* Let X_i be the hidden cells of A_i. Given that i did not ring, her submission is seen and comes from v or X_i
with probability c (W_iv + W_i(X_i)), c = rate_i/(1-h_i); anything else is revealed. To those who rang give an
independent sample of that law: the learner can only gain. Now each fetcher has a sample, whether she rang or not, and
given the X_i the samples are independent: nobody else uses X_i. The X_i are independent, their cells being distinct.

*Pairs.* A sample from v or X_i shows b_v with probability w' = W_iv/(W_iv+W_i(X_i)), else a bit that is one with
probability in [α, 1-α]. It is a post-processing of the three-point pair with τ = (1-w')α and w = w' (see `fetch`), so

    low = c α W_i(X_i),   high = low + c W_iv.

If X_i is empty the bit itself is shown. Curves max(0, high - r·low) do not increase in W_i(X_i), so weights may be
rounded down. The product over fetchers, X_i mixed, bounds the divergence of b_v; keep and r of the flip apply once.

Members of a coalition pooled with the learner: given that none fetched the target's bit, what they fetched is rings at
rate 1, by their law without the target, with clocks of its own for each of their draws; their own bits, and who asked
them, are revealed.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from p2p_sim.privacy.binomial_windows import UNIT, Floats
from p2p_sim.privacy.overlays.overlay_table import Ints, OverlayTable
from p2p_sim.privacy.overlays.symmetric_pairs import Pair, SymmetricLosses, product

_UNITS = 32
"""Steps into which the mean weight of a row's cells is cut if they are not equal."""


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The bound of a target's noisy bit by the few users who may fetch her label, in a table with α in (0, 1/2].

    Members' labels count as arrived whatever their rates are, since they see what they fetch.
    """

    table: OverlayTable

    def law(self, target: int) -> SymmetricLosses:
        """Loss law that bounds what is seen of the target's noisy bit, given that no member fetched it.

        Args:
            target: v, neither revealed nor a member.
        """
        table = self.table
        askers, _, chances = _gather(table.columns, np.array([target]))
        pooled = table.members[askers]
        inside = (table.rates[askers] > 0.0) & ~pooled
        fetchers, weights = askers[inside], chances[inside]
        # A_i: each cell, a hidden source of some fetcher, is assigned to one of them.
        cells, users, entries = _gather(table.rows, fetchers)
        row = _indices(users, fetchers)
        free = ~table.revealed[cells] & (cells != target)
        hiding, cell = np.unique(cells[free], return_inverse=True)
        owner = _assign(cell, row[free], entries[free] / weights[row[free]], len(fetchers))
        # Whoever else asks a cell may ring it: with her rate, members always.
        users, cells, entries = _gather(table.columns, hiding)
        row, cell = _indices(users, fetchers), _indices(cells, hiding)
        mine = owner[cell] == row
        others, user = np.unique(users[~mine], return_inverse=True)
        use = np.where(table.members[others], 1.0, table.rates[others])
        met = _indices(others, askers[pooled])  # their law without the target
        use[met >= 0] /= np.maximum(1.0 - chances[pooled][met[met >= 0]], 1e-300)
        draws = np.where(table.members[others], table.draws, 1)
        hits, hidden = _rings(user, cell[~mine], entries[~mine], rates=use, draws=draws, num_cells=len(hiding))
        # The law of each fetcher's hidden weight W_i(X_i), given that she did not ring; then her pair.
        hit, at = np.zeros(len(fetchers)), _indices(others, fetchers)
        hit[at[at >= 0]] = hits[at >= 0]
        laws, units = _hidden_weight(row[mine], entries[mine], hidden[cell[mine]], len(fetchers))
        length = table.rows.indptr[fetchers + 1] - table.rows.indptr[fetchers]
        unhit = 1.0 - hit - 2.0 * UNIT * (2 + length)  # a sum, rounded down
        submits = table.rates[fetchers] / np.maximum(unhit, weights) * (1.0 + 1e-14)
        each = zip(laws, units, submits.tolist(), weights.tolist(), strict=True)
        return product([self._pair(*fetcher) for fetcher in each])

    def _pair(self, law: Floats, unit: float, rate: float, weight: float) -> Pair:
        """The pair of laws of a fetcher's submission, mixed over her hidden weight: low = c α W_i(X_i), high = low + c
        W_iv.

        law: of the hidden weight W_i(X_i), in multiples of `unit`.

        Args:
            rate: c. weight: W_iv.
        """
        law = law * (1.0 + 8.0 * UNIT * len(law))  # each cell added at most 4u
        used = 1 + np.flatnonzero(law[1:] > 0.0)
        low = rate * self.table.flip_prob * unit * used
        leak = min(1.0, float(law[0]) * rate * weight * (1.0 + 1e-14))
        return Pair(law[used] * low, law[used] * (low + rate * weight), 1, leak)


class Entries(NamedTuple):
    """Entries of some lines of a table, (E,) each: the index within the line, the line, the value."""

    indices: Ints
    lines: Ints
    values: Floats


def _gather(table: "scipy.sparse.csr_array | scipy.sparse.csc_array", lines: Ints) -> Entries:
    """The entries of some rows of a csr array, or of some columns of a csc array, one line after the other."""
    first, last = table.indptr[lines].astype(np.int64), table.indptr[lines + 1].astype(np.int64)
    sizes = last - first
    at = np.repeat(last - np.cumsum(sizes), sizes) + np.arange(int(sizes.sum()))
    return Entries(table.indices[at].astype(np.int64), np.repeat(lines, sizes), table.data[at])


def _indices(users: Ints, among: Ints) -> Ints:
    """The place of each user in an ascending list of users, `among`; -1 where she is not in it."""
    if not among.size:
        return np.full(users.size, -1)
    at = np.minimum(np.searchsorted(among, users), among.size - 1)
    return np.where(among[at] == users, at, -1)


def _assign(cells: Ints, fetchers: Ints, shares: Floats, count: int) -> Ints:
    """For each cell, a user whose bit may hide, the one of `count` fetchers to whom it is assigned.

    Cells that the fewest may ask come first; each goes to the fetcher, among those who may ask it, with the least so
    far.

    Args:
        cells, fetchers, shares: entries of a table, cells numbered from 0 without gaps.
    """
    load = [0.0] * count
    counts = np.bincount(cells)
    owner = np.full(counts.size, -1)
    order = np.lexsort((cells, counts[cells]))
    cell_list, fetcher_list, share_list = cells[order].tolist(), fetchers[order].tolist(), shares[order].tolist()
    sizes, at = counts.tolist(), 0
    while at < len(cell_list):
        cell = cell_list[at]
        end = at + sizes[cell]
        best = min(range(at, end), key=lambda k: load[fetcher_list[k]])
        load[fetcher_list[best]] += share_list[best]
        owner[cell] = fetcher_list[best]
        at = end
    return owner


class Rings(NamedTuple):
    """How much is seen of the cells. hit: h_k, probability that user k's submission is a cell's bit. hidden: u_j, lower
    bound of the probability that cell j stays hidden.
    """

    hit: Floats
    hidden: Floats


def _rings(users: Ints, cells: Ints, entries: Floats, *, rates: Floats, draws: Ints, num_cells: int) -> Rings:
    """h_k = rate_k W_k(S_k) and u_j = Π_k (1-h_k)^(W_kj/W_k(S_k)), by the entries W[k, j] with j in S_k."""
    total = np.bincount(users, weights=entries, minlength=len(rates))
    hit = np.minimum(rates * total, 1.0)
    with np.errstate(divide="ignore"):
        clock = draws * np.log1p(-hit)
    used = hit[users] > 0.0
    users, cells, entries = users[used], cells[used], entries[used]
    log_hidden = np.bincount(cells, weights=clock[users] * entries / total[users], minlength=num_cells)
    return Rings(hit, np.where(log_hidden < 0.0, np.exp(log_hidden * (1.0 + 1e-14)) * (1.0 - 2.0**-50), 1.0))


class HiddenWeights(NamedTuple):
    """For each of F fetchers the law of her hidden weight W_i(X_i), (F, L), in multiples of `units`, (F,)."""

    laws: Floats
    units: Floats


def _hidden_weight(fetchers: Ints, entries: Floats, hidden: Floats, count: int) -> HiddenWeights:
    """For each of `count` fetchers, the law of the sum of the weights of her hidden cells, each hidden independently.

    fetchers: whose each cell is. entries: weight of each cell, rounded down. hidden: probability that it is hidden.
    """
    # A fetcher's unit is the weight of her cells if these are equal, else a part of their mean.
    order = np.argsort(fetchers, kind="stable")
    fetchers, entries, hidden = fetchers[order], entries[order], hidden[order]
    sizes = np.bincount(fetchers, minlength=count)
    least = np.full(count, np.inf)
    np.minimum.at(least, fetchers, entries)
    most, total = np.zeros(count), np.bincount(fetchers, weights=entries, minlength=count)
    np.maximum.at(most, fetchers, entries)
    equal = most - least <= 1e-12 * most
    units = np.where(sizes == 0, 1.0, np.where(equal, least, total / np.maximum(sizes, 1) / _UNITS))
    steps = np.floor(entries / units[fetchers] * (1.0 + 1e-12)).astype(np.int64)
    length = 1 + int(np.bincount(fetchers, weights=steps, minlength=count).max(initial=0.0))
    # The law of a sum: the k-th cell of all fetchers, with its chance to be hidden, for each k.
    law = np.zeros((count, length))
    law[:, 0] = 1.0
    starts = np.cumsum(sizes) - sizes
    places = np.arange(length)
    for rank in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > rank)
        entry = starts[rows] + rank
        before = law[rows]
        back = places - steps[entry][:, None]
        moved = np.where(back >= 0, np.take_along_axis(before, np.maximum(back, 0), axis=1), 0.0)
        chance = hidden[entry][:, None]
        law[rows] = before * (1.0 - chance) + moved * chance
    return HiddenWeights(law, units * (1.0 - 1e-11))
