"""What the learner learned of one user's label: the exact posterior of what it saw in an ideal exchange.

The learner holds both labels of the target equally likely and knows the true labels of the n-1 others, `ones` of which
are 1. It sees t submissions of her cluster, k of which are 1. Which users submit does not depend on labels, and each
submission is the noisy label of a uniform member of the cluster. So given X noisy ones among the others and the
target's noisy bit z, k ~ Bin(t, (X + z)/n), and with L_z the mean of its probability over X = ones - Bin(ones, α) +
Bin(n-1-ones, α)

    Pr[view | label y] ∝ (1-α) L_y + α L_{1-y},   Pr[y = 1 | view] = ((1-α) L_1 + α L_0) / (L_0 + L_1).

The mean of |Pr[y = 1 | view] - 1/2| over views is half the total variation distance of the two laws, δ(0)/2: the
learner's advantage for these labels of the others. The accountant's advantage is the largest over all labels.
"""

from dataclasses import dataclass

import numpy as np

from p2p_sim.privacy.exchange.delta_evaluator import DeltaEvaluator
from p2p_sim.privacy.exchange.direct_sum import likelihoods
from p2p_sim.privacy.exchange.label_exchange import LabelExchange
from p2p_sim.replicate.observed_network import ObservedNetwork

LARGEST = 2_000
"""Most users of a cluster for which the posterior is computed, which then takes a second."""
_LOG_TAIL = -36.0
"""Logarithm of what sums over views may leave out; it is charged."""


@dataclass(frozen=True)
class Posterior:
    """What was learned of one user.

    users: n of her cluster. submissions, ones: t and k. posterior: probability that her label is 1.
    advantage: mean over views of the posterior's distance from 1/2. printed: the largest over all labels of the others.
    Both are rounded up.
    """

    users: int
    submissions: int
    ones: int
    posterior: float
    advantage: float
    printed: float


def learned_of(record: ObservedNetwork, user: int) -> Posterior | None:
    """What the learner learned of a user in a run; None where the law of what it saw is not known exactly."""
    labels, cluster = record.labels, record.cluster(user)
    first, last = record.cluster_offsets[cluster : cluster + 2].tolist()
    n = last - first
    if not labels.exact or not 2 <= n <= LARGEST:
        return None
    assert labels.flip_prob is not None
    # t and k: the noisy labels that the users of her cluster passed on
    submitted = labels.noisy[record.source[first:last][np.isfinite(record.submitted_s[first:last])]]
    ones = int(labels.true[first:last].sum() - labels.true[user])
    model = LabelExchange(n, labels.flip_prob, record.sampling_rate)
    posterior = posterior_of(model, ones, submitted.size, int(submitted.sum()))
    # δ(0)/2 for these labels; swapping the labels mirrors them
    here = DeltaEvaluator(model.setting, _LOG_TAIL).at(min(ones, n - 1 - ones), 0.0)
    return Posterior(n, submitted.size, int(submitted.sum()), posterior, here.upper / 2.0, model.advantage().upper)


def posterior_of(model: LabelExchange, ones: int, submissions: int, submitted_ones: int) -> float:
    """Probability that the target's label is 1, if `ones` of the others hold label 1 and this is what was submitted."""
    [(zero, one)] = likelihoods([model.setting.world(ones)], [submissions])
    a, b = float(zero[submitted_ones, 0]), float(one[submitted_ones, 0])
    return ((1.0 - model.flip_prob) * b + model.flip_prob * a) / (a + b)
