"""The learner's view of one target in a sparse overlay (the graph of who may ask whom), where few users fetch her
label.

W[i, j] = W_ij is the probability that user i fetches from user j. Let the target v's *fetchers* be the users i with
W[i, v] > 0. A *cell* is another user whose bit (noisy label) is hidden and whom some fetcher may ask. Each cell is
assigned to one of the fetchers who may ask it; A_i are the cells of fetcher i. In three steps, the proof of the bound
reveals more than the learner sees.

*Rings.* For a user k, let S_k be the cells of all fetchers except k, and W_k(S) = Σ_(j in S) W_kj for any set S. Let
rate_k be the probability that what k fetched is seen, and h_k = rate_k · W_k(S_k) the probability that k submits a bit
of S_k. Give user k independent clocks, one for each cell of S_k. The clock of cell j rings with probability
1 - (1-h_k)^(W_kj/W_k(S_k)). Then some clock of k rings with probability h_k, and the first one to ring is that of j
with probability W_kj/W_k(S_k). So the rings can be drawn together with k's choice: she submits a bit of S_k if and only
if a clock of hers rings, and then the bit whose clock rings first. Reveal the bits of all cells for which a clock
rings, and whose clocks these are. A cell j stays hidden with probability u_j = Π_k (1-h_k)^(W_kj/W_k(S_k)),
independently of other cells.

*Samples.* Let X_i be the hidden cells of A_i. Given that no clock of fetcher i rang, her submission is seen and comes
from v or X_i with probability c (W_iv + W_i(X_i)), where c = rate_i/(1-h_i); any other submission is revealed. If a
clock of fetcher i rang, show an independent sample of this law for her as well, from which the learner can only gain.
Now each fetcher has a sample. Given the X_i, the samples are independent, because only fetcher i uses X_i. The X_i are
independent, because each cell is in only one A_i.

*Pairs.* A sample from v or X_i shows v's bit b_v with probability w' = W_iv/(W_iv+W_i(X_i)), else a bit that is 1 with
a probability in [α, 1-α]. The sample is a post-processing of the three-point pair with τ = (1-w')α and w = w' (see
`fetch_distribution`). Therefore, in the terms of `symmetric_pairs`,

    low = c α W_i(X_i),   high = low + c W_iv.

If X_i is empty, the bit itself is shown. The curve max(0, high - r·low), as a function of r, does not increase with
W_i(X_i), so that weights may be rounded down. Each fetcher's pair is a mixture over X_i. The product of these pairs
over all fetchers bounds the divergence HS_r of what is seen of b_v. The factor keep and the ratio r, which account for
the flip of b_v (see `symmetric_pairs`), apply once.

A coalition's members pool what they see with the learner. Given that no member fetched the target's bit, each label
that a member fetched has clocks of its own, with rate 1 and the member's fetch probabilities given that she did not
fetch from the target. Members' own bits, and who asked them, are revealed.
"""

import itertools

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats
from p2p_sim.privacy.overlays.overlay_table import Ints, OverlayTable
from p2p_sim.privacy.overlays.symmetric_pairs import Pair, SymmetricLosses, product

_UNITS = 32
"""If the weights of a fetcher's cells differ, they are rounded down to multiples of their mean divided by `_UNITS`."""


def neighbourhood_law(table: OverlayTable, target: int) -> SymmetricLosses:
    """A law of the privacy loss that bounds what is seen of the target v's noisy label, given that no coalition member
    fetched it; members are passive users who pool what they see with the learner.

    The law suits targets whose label few users may fetch. The proof reveals some other noisy labels; those that stay
    hidden hide v's noisy label. What a user fetched counts as seen with the probability that her submission arrives;
    what a member fetched is always seen.

    Args:
        table: the fetch probabilities and who sees what, with α in (0, 1/2]. target: v; the learner does not know v's
        noisy label.
    """
    askers, chances = table.fetchers(target)
    pooled = table.members[askers]
    inside = (table.rates[askers] > 0.0) & ~pooled
    fetchers, weights = askers[inside], chances[inside]
    # A_i: each cell, a user with a hidden label whom some fetcher may ask, is assigned to one such fetcher.
    asked = table.rows[fetchers].tocoo()
    free = ~table.revealed[asked.col] & (asked.col != target)
    hiding, cell = np.unique(asked.col[free], return_inverse=True)
    asker = asked.row[free]
    owner = _assign(cell, asker, asked.data[free] / weights[asker], len(fetchers))
    # Any other user who may ask a cell has a clock for it, with her own rate; members have rate 1.
    asking = table.columns[:, hiding].tocoo()
    row, column, entries = _indices(asking.row, fetchers), asking.col, asking.data
    mine = owner[column] == row
    others, user = np.unique(asking.row[~mine], return_inverse=True)
    use = np.where(table.members[others], 1.0, table.rates[others])
    met = _indices(others, askers[pooled])  # members who might have fetched from the target: given that they did not
    use[met >= 0] /= np.maximum(1.0 - chances[pooled][met[met >= 0]], 1e-300)
    hits, hidden = _rings(
        user,
        column[~mine],
        entries[~mine],
        rates=use,
        draws=np.where(table.members[others], table.draws, 1),
        num_cells=len(hiding),
    )
    # The law of each fetcher's hidden weight W_i(X_i), given that none of her clocks rang; then her pair.
    hit, at = np.zeros(len(fetchers)), _indices(others, fetchers)
    hit[at[at >= 0]] = hits[at >= 0]
    laws, units = _hidden_weight(row[mine], entries[mine], hidden[column[mine]], len(fetchers))
    unhit = 1.0 - hit - 2.0 * UNIT * (2 + np.diff(table.rows.indptr)[fetchers])  # a sum, rounded down
    submits = table.rates[fetchers] / np.maximum(unhit, weights) * (1.0 + 1e-14)
    each = zip(laws, submits * table.flip_prob * units, submits.tolist(), weights.tolist(), strict=True)
    return product([_pair(law, low, rate=rate, weight=weight) for law, low, rate, weight in each])


def _pair(law: Floats, low: float, *, rate: float, weight: float) -> Pair:
    """What the submission of a user i shows of the target v's noisy label: two laws that mirror each other, with one
    part for each positive hidden weight.

    The proof assigns some users to i. Her hidden weight is the probability that she fetches from those of them whose
    noisy labels stay hidden. In a part, she shows the wrong value of v's noisy label with probability
    low = c α · (hidden weight), the right value with probability high = low + c W_iv, and otherwise nothing. If the
    hidden weight is 0, a submission of v's noisy label counts as recognised.

    Args:
        law: (L,), the probabilities of hidden weights of 0, 1, ..., L-1 units. low: c α times the unit. rate: c, the
        probability that her submission arrives, divided by the probability that none of her clocks rings. weight: W_iv,
        the probability that she fetches from v.
    """
    law = law * (1.0 + 8.0 * UNIT * len(law))  # each cell added a rounding error of at most 4u, u = `UNIT`
    used = 1 + np.flatnonzero(law[1:] > 0.0)
    leak = min(1.0, float(law[0]) * rate * weight * (1.0 + 1e-14))
    return Pair(law[used] * (low * used), law[used] * (low * used + rate * weight), 1, leak)


def _indices(users: Ints, among: Ints) -> Ints:
    """The index of each user in `among`, an ascending array of users; -1 where she is not in it."""
    if not among.size:
        return np.full(users.size, -1)
    at = np.minimum(np.searchsorted(among, users), among.size - 1)
    return np.where(among[at] == users, at, -1)


def _assign(cells: Ints, fetchers: Ints, shares: Floats, count: int) -> Ints:
    """For each of C cells, the number of the fetcher to whom it is assigned, (C,). The labels of a fetcher's cells hide
    whether she submits the label of the target v.

    Fetchers are the `count` users who may fetch v's label; cells are the other users with hidden noisy labels from whom
    some fetcher may fetch. Cells that few fetchers may ask are assigned first. Each cell goes to one of the fetchers
    who may ask it: the one whose cells so far have the least sum of shares.

    Args:
        cells, fetchers, shares: (E,) each, for each pair of a cell j, numbered from 0 without gaps, and a fetcher i who
        may ask it: j, i and W_ij/W_iv, the ratio of i's fetch probabilities for j and v.
    """
    load = [0.0] * count
    counts = np.bincount(cells)
    owner = np.full(counts.size, -1)
    cell_list, fetcher_list, share_list = cells.tolist(), fetchers.tolist(), shares.tolist()
    order = np.lexsort((cells, counts[cells])).tolist()
    for cell, entries in itertools.groupby(order, key=cell_list.__getitem__):
        entry = min(entries, key=lambda k: load[fetcher_list[k]])
        load[fetcher_list[entry]] += share_list[entry]
        owner[cell] = fetcher_list[entry]
    return owner


def _rings(
    users: Ints, cells: Ints, entries: Floats, *, rates: Floats, draws: Ints, num_cells: int
) -> tuple[Floats, Floats]:
    """For each of K users k, the probability h_k that she submits the noisy label of a foreign cell, (K,); and for each
    of C cells j, a lower bound of the probability u_j that the cell's noisy label stays hidden, (C,).

    Cells are users whose noisy labels may hide the target's; each is assigned to one user who may fetch it. The foreign
    cells S_k of user k are those that she may fetch from and that are not assigned to her. Let W_kj be the probability
    that she fetches from j, and W_k(S_k) the sum of W_kj over S_k. Then h_k = rate_k W_k(S_k). The proof reveals the
    label of each cell of S_k independently at random, such that it reveals at least one label with probability h_k.
    This is done R_k times for user k, once for each label that she fetched. So
    u_j = Π_k (1-h_k)^(R_k W_kj/W_k(S_k)).

    Args:
        users, cells, entries: (E,) each, k, j and W_kj for each j in S_k. rates, draws: (K,) each, for each user the
        probability that what she fetched is seen, and R_k, how many labels she fetched. num_cells: C.
    """
    total = np.bincount(users, weights=entries, minlength=len(rates))
    hit = np.minimum(rates * total, 1.0)
    with np.errstate(divide="ignore"):
        clock = draws * np.log1p(-hit)
    used = hit[users] > 0.0
    users, cells, entries = users[used], cells[used], entries[used]
    log_hidden = np.bincount(cells, weights=clock[users] * entries / total[users], minlength=num_cells)
    return hit, np.where(log_hidden < 0.0, np.exp(log_hidden * (1.0 + 1e-14)) * (1.0 - 2.0**-50), 1.0)


def _hidden_weight(fetchers: Ints, entries: Floats, hidden: Floats, count: int) -> tuple[Floats, Floats]:
    """How well each of F = `count` fetchers hides the target's label: the law of her hidden weight, as probabilities of
    0 to L-1 units, (F, L), and her unit, (F,).

    A fetcher is a user who may fetch the target's label. Certain other users, her cells, are assigned to her; the noisy
    label of each cell stays hidden or is revealed. Her hidden weight is the sum of her fetch probabilities for the
    cells that stay hidden. Her unit is the weight of one cell if all her cells have equal weights, else 1/32 of the
    mean weight of her cells.

    Args:
        fetchers, entries, hidden: (C,) each: for each cell its fetcher, its weight (the probability that she fetches
        from it) and the probability that it stays hidden; cells are hidden independently. Weights are rounded down to
        multiples of the unit.
    """
    # A fetcher's unit is the weight of her cells if their weights are equal, else a fraction of their mean.
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
    # The laws of the sums: in each round add the next cell of every fetcher, with the probability that it is hidden.
    law = np.zeros((count, length))
    law[:, 0] = 1.0
    starts = np.cumsum(sizes) - sizes
    for rank in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > rank)
        entry = starts[rows] + rank
        before = law[rows]
        back = np.arange(length) - steps[entry][:, None]
        moved = np.where(back >= 0, np.take_along_axis(before, np.maximum(back, 0), axis=1), 0.0)
        chance = hidden[entry][:, None]
        law[rows] = before * (1.0 - chance) + moved * chance
    return law, units * (1.0 - 1e-11)
