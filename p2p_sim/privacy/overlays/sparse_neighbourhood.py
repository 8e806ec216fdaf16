"""The learner's view of one target in a sparse overlay, where few users fetch her label.

An overlay says who may ask whom. User i fetches from user j with probability W_ij. rate_i is the probability that what
user i fetched is seen. The *fetchers* of the target v are the users i with W_iv > 0. A *cell* is another user whose
noisy label is hidden and whom some fetcher may ask. Each cell is assigned to one of the fetchers who may ask it. Let
A_i be the cells of fetcher i. For a set S of users, let W_k(S) = Σ_(j in S) W_kj. In three steps, the proof of the
bound reveals more than the learner sees.

*Rings.* For a user k, let S_k be the cells of all fetchers except k. She submits a label of S_k with probability h_k =
rate_k · W_k(S_k). Give user k independent clocks, one for each cell of S_k. The clock of cell j rings with probability
1 - (1-h_k)^(W_kj/W_k(S_k)). Then some clock of k rings with probability h_k. The first to ring is the clock of j with
probability W_kj/W_k(S_k). So the rings can be drawn together with k's choice: she submits a label of S_k if and only if
one of her clocks rings. She then submits the label whose clock rings first. Reveal the labels of all cells for which a
clock rings, and whose clocks these are. A cell j stays hidden with probability u_j = Π_k (1-h_k)^(W_kj/W_k(S_k)),
independently of other cells.

*Samples.* Let X_i be the hidden cells of A_i. Suppose that no clock of fetcher i rang. Then her submission is seen and
comes from v or X_i with probability c (W_iv + W_i(X_i)), where c = rate_i/(1-h_i). Reveal any other submission. If a
clock of fetcher i rang, show an independent sample of this law for her as well. From this the learner can only gain.
Now each fetcher has a sample. Given the X_i, the samples are independent, because only fetcher i uses X_i. The X_i are
independent, because each cell is in only one A_i.

*Pairs.* A sample from v or X_i shows v's noisy label with probability w' = W_iv/(W_iv+W_i(X_i)). Otherwise it shows a
label that is 1 with a probability in [α, 1-α]. So the sample is a post-processing of the three-point pair with τ =
(1-w')α and w = w' (see `fetch_distribution`). In the terms of `symmetric_pairs` the pair has

    low = c α W_i(X_i),   high = low + c W_iv.

If X_i is empty, v's noisy label itself is shown. The curve max(0, high - r·low), a function of r, does not increase
with W_i(X_i). So weights may be rounded down. Each fetcher's pair is a mixture over X_i. The product of these pairs
over all fetchers bounds HS_r, the hockey-stick divergence of what is seen of v's noisy label. The factor keep and the
ratio r account for the flip of v's label (see `symmetric_pairs`). Both apply once.

*Members* of a coalition pool what they see with the learner. Suppose that no member fetched v's label. Then each label
that a member fetched has clocks of its own, with rate 1. The clocks use her fetch probabilities, given that she did
not fetch from v. Members' own labels, and who asked the members, are revealed.
"""

import itertools

import numpy as np

from p2p_sim.privacy.binomial_windows import UNIT, Floats
from p2p_sim.privacy.overlays.overlay_table import Ints, OverlayTable
from p2p_sim.privacy.overlays.symmetric_pairs import Pair, SymmetricLosses, product

_UNITS = 32
"""If the weights of a fetcher's cells differ, they are rounded down to multiples of their mean divided by `_UNITS`."""


def neighbourhood_law(table: OverlayTable, target: int) -> SymmetricLosses:
    """A law of the privacy loss that bounds what is seen of the target v's noisy label, for targets with few fetchers.

    The law holds given that no member of the coalition fetched the label.

    Args:
        table: the fetch probabilities and who sees what, with α in (0, 1/2]. target: v; the learner does not know v's
        noisy label.
    """
    askers, chances = table.fetchers(target)
    pooled = table.members[askers]
    inside = (table.rates[askers] > 0.0) & ~pooled
    fetchers, weights = askers[inside], chances[inside]
    # A_i: assign each cell to a fetcher who may ask it.
    asked = table.rows[fetchers].tocoo()
    free = ~table.revealed[asked.col] & (asked.col != target)
    hiding, cell = np.unique(asked.col[free], return_inverse=True)
    asker = asked.row[free]
    owner = _assign(cell, asker, asked.data[free] / weights[asker], len(fetchers))
    # Any other user who may ask a cell has a clock for it, with her own rate. Members have rate 1.
    asking = table.columns[:, hiding].tocoo()
    row, column, entries = _indices(asking.row, fetchers), asking.col, asking.data
    mine = owner[column] == row
    others, user = np.unique(asking.row[~mine], return_inverse=True)
    use = np.where(table.members[others], 1.0, table.rates[others])
    met = _indices(others, askers[pooled])  # members who may fetch v's label: suppose that they did not
    use[met >= 0] /= np.maximum(1.0 - chances[pooled][met[met >= 0]], 1e-300)
    hits, hidden = _rings(
        user,
        column[~mine],
        entries[~mine],
        rates=use,
        draws=np.where(table.members[others], table.draws, 1),
        num_cells=len(hiding),
    )
    # The law of each fetcher's hidden weight W_i(X_i), given that none of her clocks rang. Then her pair.
    hit, at = np.zeros(len(fetchers)), _indices(others, fetchers)
    hit[at[at >= 0]] = hits[at >= 0]
    laws, units = _hidden_weight(row[mine], entries[mine], hidden[column[mine]], len(fetchers))
    unhit = 1.0 - hit - 2.0 * UNIT * (2 + np.diff(table.rows.indptr)[fetchers])  # a sum, rounded down
    submits = table.rates[fetchers] / np.maximum(unhit, weights) * (1.0 + 1e-14)
    each = zip(laws, submits * table.flip_prob * units, submits.tolist(), weights.tolist(), strict=True)
    return product([_pair(law, low, rate=rate, weight=weight) for law, low, rate, weight in each])


def _pair(law: Floats, low: float, *, rate: float, weight: float) -> Pair:
    """The pair of laws that bounds what fetcher i's sample shows of v's noisy label.

    W_iv is the probability that she fetches from v. X_i are the users assigned to her whose noisy labels stay hidden.
    Her hidden weight W_i(X_i) is the probability that she fetches from X_i. Her sample comes from v with probability
    c W_iv, and from X_i with probability c W_i(X_i). Each positive hidden weight gives one part: its probability times
    low = c α W_i(X_i), and times high = low + c W_iv. If the hidden weight is 0, a sample from v shows v's noisy label
    itself.

    Args:
        law: (L,), the probabilities of hidden weights of 0, 1, ..., L-1 units. low: c α times the unit. rate: c.
        weight: W_iv.
    """
    law = law * (1.0 + 8.0 * UNIT * len(law))  # each cell added a rounding error of at most 4u, u = `UNIT`
    used = 1 + np.flatnonzero(law[1:] > 0.0)
    leak = min(1.0, float(law[0]) * rate * weight * (1.0 + 1e-14))
    return Pair(law[used] * (low * used), law[used] * (low * used + rate * weight), 1, leak)


def _indices(users: Ints, among: Ints) -> Ints:
    """The index of each user in `among`, an ascending array of users; -1 if she is not in the array."""
    if not among.size:
        return np.full(users.size, -1)
    at = np.minimum(np.searchsorted(among, users), among.size - 1)
    return np.where(among[at] == users, at, -1)


def _assign(cells: Ints, fetchers: Ints, shares: Floats, count: int) -> Ints:
    """For each of C cells, the number of the fetcher to whom the cell is assigned, (C,).

    Cells that few fetchers may ask are assigned first. Each cell goes to a fetcher who may ask it: to the fetcher with
    the least sum of shares so far.

    Args:
        cells, fetchers, shares: (E,) each, for each pair of a cell j and a fetcher i who may ask it: j, i and the share
        W_ij/W_iv. Cells are numbered from 0 without gaps. count: the number of fetchers.
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
    """The probability h_k of each of K users, (K,), and a lower bound of the probability u_j of each of C cells, (C,).

    W_kj is the probability that user k fetches from cell j. S_k are the cells assigned to fetchers other than k, and
    W_k(S_k) is the sum of their W_kj. User k submits a label of S_k with probability h_k. Cell j stays hidden with
    probability u_j. Each of the R_k labels that user k fetched may reveal the cell. So
    u_j = Π_k (1-h_k)^(R_k W_kj/W_k(S_k)).

    Args:
        users, cells, entries: (E,) each, k, j and W_kj for each j in S_k. rates, draws: (K,) each, rate_k and R_k.
        num_cells: C.
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
    """The law of each fetcher's hidden weight W_i(X_i) for F = `count` fetchers, (F, L), and her unit of weights, (F,).

    W_i(X_i) is the probability that fetcher i asks one of X_i, her cells that stay hidden. Her cells are the users
    assigned to her. A row of the law has the probabilities of 0 to L-1 units. The unit is the weight W_ij of one cell
    if all her cells have equal weights. Otherwise it is 1/32 of their mean weight. Weights are rounded down to
    multiples of the unit.

    Args:
        fetchers, entries, hidden: (C,) each: for each cell j its fetcher i, the weight W_ij, and the probability that
        the cell stays hidden. Cells are hidden independently.
    """
    # The unit of each fetcher.
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
    # The laws of the sums. In each round add the next cell of every fetcher, with the probability that the cell is
    # hidden.
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
