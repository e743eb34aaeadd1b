"""The objective written out in NumPy from its equations: what the gradient of each token's log-probability has to be.

Axes: E episodes, N tokens. Slopes are derivatives by the logarithm of the ratio.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from groupwise.config import TrainConfig
from groupwise.objective.corrections.correction import NoCorrection
from groupwise.objective.corrections.tis import Tis
from groupwise.objective.masks.m2po import M2po
from groupwise.objective.masks.off_policy import NoOffPolicyMask, SequenceMask
from groupwise.objective.reductions.constant_length import ConstantLength
from groupwise.objective.reductions.reduction import Reduction
from groupwise.objective.surrogates.aspo import Aspo
from groupwise.objective.surrogates.bapo import Bapo
from groupwise.objective.surrogates.ce_gppo import CeGppo
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.dppo import Dppo
from groupwise.objective.surrogates.dppo_kl import DppoKl
from groupwise.objective.surrogates.fipo import Fipo
from groupwise.objective.surrogates.gmpo import Gmpo
from groupwise.objective.surrogates.ipo import Ipo
from groupwise.objective.surrogates.ppo_clip import DualClipBounds
from groupwise.objective.surrogates.real import Real
from groupwise.objective.surrogates.reinforce import Reinforce
from groupwise.objective.surrogates.sapo import Sapo
from groupwise.objective.surrogates.seed_clip import SeedClip
from groupwise.objective.surrogates.topr import Topr
from groupwise.objective.surrogates.vespo import Vespo
from tests.options import own_cases
from tests.options.runs import Floats, Pass, Trace

Grid = Sequence[Sequence[int]]


class Streams:
    """The tensors of one pass, and sums over its episodes. trace: the run, for what no pass has."""

    def __init__(self, one: Pass, trace: Trace | None = None) -> None:
        inputs, self.trace = one.inputs, trace
        self.lengths_E = inputs.lengths_E.numpy()
        self.of_N = np.repeat(np.arange(len(self.lengths_E)), self.lengths_E)
        self.new_N, self.old_N = one.stream("new_logps_N"), one.stream("old_logps_N")
        self.weight_N = one.stream("weights_N")
        self.advantage_N = one.stream("advantages_N")
        self.sampler_N = one.stream("sampler_logps_N")
        self.ref_N = None if inputs.ref_logps_N is None else one.stream("ref_logps_N")
        self.mask_N = np.ones_like(self.new_N)
        if inputs.policy_mask_N is not None:
            self.mask_N = one.stream("policy_mask_N")

    def sums(self, values_N: Floats) -> Floats:
        """The sum over its sequence, at each token."""
        sums_E = np.zeros(len(self.lengths_E))
        np.add.at(sums_E, self.of_N, values_N)
        return np.asarray(sums_E[self.of_N])

    def means(self, values_N: Floats) -> Floats:
        return np.asarray(self.sums(values_N) / self.lengths_E[self.of_N])

    def to_go(self, values_N: Floats) -> Floats:
        """The sum from each token to the end of its sequence."""
        return np.array([values_N[n:][self.of_N[n:] == self.of_N[n]].sum() for n in range(len(values_N))])


def token_gradient(config: TrainConfig, one: Pass, trace: Trace | None = None) -> Floats:
    """Derivative of the whole loss by each token's log-probability; a bonus on the entropy acts beside it."""
    streams = Streams(one, trace)
    gradient_N = policy_gradient(config, streams)
    if one.inputs.kl_coefficient_E is not None:
        gradient_N = gradient_N + kl_gradient(config, streams, one)
    if one.inputs.drift_coefficient_N is not None:
        drift_N = one.stream("drift_coefficient_N")
        moved_N = streams.new_N - streams.old_N
        gradient_N = gradient_N + streams.weight_N * drift_N * np.sign(moved_N) * (np.abs(moved_N) >= 1e-4)
    return gradient_N


def policy_gradient(config: TrainConfig, streams: Streams) -> Floats:
    """Of the policy term, with everything that multiplies it."""
    surrogate, ratio = config.objective.surrogate, config.objective.ratio.type
    advantage_N = streams.advantage_N
    if config.kl.in_reward:
        assert streams.ref_N is not None
        advantage_N = advantage_N - config.kl.coefficient * streams.to_go(streams.old_N - streams.ref_N)
    factor_N: Floats = streams.weight_N * engine_factor(config, streams) * kept(config, streams) * streams.mask_N
    difference_N = streams.new_N - streams.old_N
    if isinstance(surrogate, Gmpo):
        low, high = -surrogate.log_clip_low, surrogate.log_clip_high
        free_N = np.where(advantage_N > 0, difference_N <= high, difference_N >= low)
        bounded_N = np.where(free_N, difference_N, np.where(advantage_N > 0, high, low))
        pooled_N = -advantage_N * np.exp(streams.means(bounded_N))
        return np.asarray(free_N * streams.means(factor_N * pooled_N))
    log_ratio_N = {
        "token": lambda: difference_N,
        "sequence_geometric_mean": lambda: streams.means(difference_N),
        "gspo_token": lambda: streams.means(difference_N),
        "sequence_product": lambda: streams.sums(difference_N),
        "none": lambda: np.zeros_like(difference_N),
    }[ratio]()
    ratio_N = np.exp(log_ratio_N)
    positive_N = advantage_N > 0
    if isinstance(surrogate, Cispo):
        return np.asarray(-factor_N * advantage_N * np.clip(ratio_N, surrogate.floor, surrogate.cap))
    if surrogate.origin is not None:
        return factor_N * own_cases.surrogate_gradient(config, ratio_N, advantage_N)
    if isinstance(surrogate, Topr):
        taper_N = np.where(positive_N, 1.0, np.clip(ratio_N, surrogate.floor, surrogate.cap))
        return np.asarray(-factor_N * advantage_N * taper_N)
    if isinstance(surrogate, Real):
        return factor_N * real_slopes(surrogate, streams)
    if isinstance(surrogate, Vespo):
        k_N = np.where(positive_N, surrogate.k_positive, surrogate.k_negative)
        rate_N = np.where(positive_N, surrogate.lambda_positive, surrogate.lambda_negative)
        return np.asarray(-factor_N * advantage_N * ratio_N**k_N * np.exp(rate_N * (1 - ratio_N)))
    slope_N: Floats = factor_N * slopes(config, streams, ratio_N, advantage_N)
    if ratio == "sequence_geometric_mean":
        return streams.means(slope_N)
    return streams.sums(slope_N) if ratio == "sequence_product" else slope_N


def slopes(config: TrainConfig, streams: Streams, ratio_N: Floats, advantage_N: Floats) -> Floats:
    """Derivative of each token's surrogate by the logarithm of its ratio."""
    surrogate = config.objective.surrogate
    plain_N = -advantage_N * ratio_N
    if isinstance(surrogate, Reinforce):
        return plain_N
    if isinstance(surrogate, SeedClip):
        return np.where(ratio_N > 1 + surrogate.clip_high, 0.0, plain_N)
    if isinstance(surrogate, Sapo):
        positive, negative = surrogate.temperature_positive, surrogate.temperature_negative
        gate_N = 1 / (1 + np.exp(-np.where(advantage_N > 0, positive, negative) * (ratio_N - 1)))
        return plain_N * 4 * gate_N * (1 - gate_N)
    if isinstance(surrogate, Dppo):
        moved_N = np.exp(streams.new_N) - np.exp(streams.old_N)
        gone_N = np.where(advantage_N > 0, moved_N > surrogate.tv_high, moved_N < -surrogate.tv_low)
        return np.where(gone_N, 0.0, -advantage_N * np.minimum(ratio_N, surrogate.cap or np.inf))
    if isinstance(surrogate, DppoKl):
        mu_N = np.exp(streams.sampler_N if surrogate.reference == "sampler" else streams.old_N)
        pi_N = np.exp(streams.new_N)
        divergence_N = mu_N * np.log(mu_N / pi_N) + (1 - mu_N) * np.log((1 - mu_N) / (1 - pi_N))
        limit_N = np.where(advantage_N > 0, surrogate.kl_high, surrogate.kl_low)
        gone_N = (advantage_N * (pi_N - mu_N) > 0) & (divergence_N > limit_N)
        return np.where(gone_N, 0.0, -advantage_N * np.minimum(ratio_N, surrogate.cap or np.inf))
    if isinstance(surrogate, Ipo):
        gone_N = np.abs(np.exp(streams.new_N) - np.exp(streams.sampler_N)) > surrogate.tv
        return np.where(gone_N, 0.0, -advantage_N * np.minimum(ratio_N, surrogate.cap or np.inf))
    if isinstance(surrogate, Bapo):
        low, most = bapo_bounds(surrogate, streams, ratio_N, advantage_N)
        dual = surrogate.dual_clip or np.inf
        kept_N = np.where(advantage_N > 0, ratio_N <= most, (ratio_N >= low) & (ratio_N <= dual))
        return np.where(kept_N, plain_N, 0.0)
    if isinstance(surrogate, Aspo):
        turned_N = -advantage_N * np.minimum(np.where(advantage_N > 0, 1 / ratio_N, ratio_N), surrogate.cap)
        gone_N = np.where(advantage_N > 0, ratio_N > 1 + surrogate.clip_high, ratio_N < 1 - surrogate.clip_low)
        return np.where(gone_N, 0.0, turned_N)
    assert isinstance(surrogate, DualClipBounds)
    high = surrogate.dual_clip or np.inf
    if isinstance(surrogate, Fipo):
        plain_N = plain_N * influence(surrogate, streams, ratio_N, advantage_N)
    clipped_N = np.where(
        advantage_N > 0, ratio_N > 1 + surrogate.clip_high, (ratio_N < 1 - surrogate.clip_low) | (ratio_N > high)
    )
    if isinstance(surrogate, CeGppo):
        below, above = 1 - surrogate.clip_low, 1 + surrogate.clip_high
        kept_N = np.where(advantage_N > 0, surrogate.coefficient_high * above, surrogate.coefficient_low * below)
        return np.where((advantage_N < 0) & (ratio_N > high), 0.0, np.where(clipped_N, -advantage_N * kept_N, plain_N))
    return np.where(clipped_N, 0.0, plain_N)


def influence(surrogate: Fipo, streams: Streams, ratio_N: Floats, advantage_N: Floats) -> Floats:
    """FIPO's f: each token by a sum over those behind it."""
    moved_N = np.where(ratio_N > (surrogate.dual_clip or np.inf), 0.0, streams.new_N - streams.old_N)
    factors = []
    for place, of in enumerate(streams.of_N):
        behind = moved_N[place:][streams.of_N[place:] == of]
        future = sum(moved * 0.5 ** (step / surrogate.half_life_tokens) for step, moved in enumerate(behind))
        factors.append(min(max(np.exp(future), surrogate.influence_low), surrogate.influence_high))
    f_N = np.array(factors)
    safe_N = (advantage_N < 0) & (ratio_N > (surrogate.safety_ratio or np.inf))
    return np.where(safe_N, 1.0 if surrogate.safety == "set" else np.minimum(f_N, 1.0), f_N)


def real_slopes(options: Real, streams: Streams) -> Floats:
    """Of REAL's loss by each answer's s, times answers ÷ groups, where a pass has all answers of the step.

    Group and reward of an answer are those of the completion that the engine gave these log-probabilities.
    """
    assert streams.trace is not None
    groups = [group for step in range(streams.trace.config.run.steps) for group in streams.trace.groups(step + 1)]
    known = {
        completion.logps.tobytes(): (place, float(total))
        for place, group in enumerate(groups)
        for completion, total in zip(group.completions, group.totals_G, strict=True)
    }
    ends_E = streams.lengths_E.cumsum()
    found = [
        known[streams.sampler_N[end - length : end].astype(np.float32).tobytes()]
        for end, length in zip(ends_E, streams.lengths_E, strict=True)
    ]
    s_E = streams.means(streams.new_N - streams.old_N)[ends_E - 1] / options.temperature
    slope_E = np.zeros_like(s_E)
    for place in {place for place, _ in found}:
        own = [e for e, (where, _) in enumerate(found) if where == place]
        rewards = [found[e][1] for e in own]
        middle = float(np.mean(rewards))
        above, below = (1.0, 0.0) if options.labels == "binary" else (middle + 1e-6, middle - 1e-6)
        exact = options.labels == "binary"
        right = [e for e, reward in zip(own, rewards, strict=True) if (reward == above if exact else reward > above)]
        wrong = [e for e, reward in zip(own, rewards, strict=True) if (reward == below if exact else reward < below)]
        if options.one_class == "skip" and not (right and wrong):
            continue
        for members, sign in ((right, -1.0), (wrong, 1.0)):
            odds = np.exp(sign * s_E[members])
            slope_E[members] = sign / options.temperature * odds / (1 + odds.sum())
    return np.asarray(slope_E * len(found) / len({place for place, _ in found}))[streams.of_N]


def bapo_bounds(options: Bapo, streams: Streams, ratio_N: Floats, advantage_N: Floats) -> tuple[float, float]:
    """Algorithm 1 of BAPO on a pass that is the whole optimizer step, in hundredths so that nothing accumulates."""
    low, low_end, low_step = (round(100 * x) for x in (options.low_start, options.low_end, options.low_step))
    high, high_end, high_step = (round(100 * x) for x in (options.high_start, options.high_end, options.high_step))
    size_N = np.abs(advantage_N) * (np.exp(streams.old_N) if options.weighted_by_old else 1)
    dual = options.dual_clip or np.inf
    while True:
        bounded_N = np.where(advantage_N > 0, np.minimum(ratio_N, high / 100), np.maximum(ratio_N, low / 100))
        if options.contributions == "gradient":
            bounded_N = np.where((bounded_N == ratio_N) & ((advantage_N > 0) | (ratio_N <= dual)), ratio_N, 0)
        good, bad = ((bounded_N * size_N)[advantage_N * sign > 0].sum() for sign in (1, -1))
        whole = {"share": good + bad, "odds": bad, "printed": abs(good - bad)}[options.balance]
        may_rise = {"high": high < high_end, "low": low < low_end}
        if good >= options.target * whole or not any(may_rise.values()):
            return low / 100, high / 100
        first, then = ("high", "low") if options.order == "high_first" else ("low", "high")
        if (first if may_rise[first] else then) == "high":
            high = min(high + high_step, high_end)
        else:
            low = min(low + low_step, low_end)


def engine_factor(config: TrainConfig, streams: Streams) -> Floats:
    """What the engine correction multiplies the policy term with."""
    options = config.engine_correction
    if isinstance(options, NoCorrection):
        return np.ones_like(streams.new_N)
    pool: Callable[[Floats], Floats] = {
        "token": lambda values_N: values_N,
        "sequence_product": streams.sums,
        "sequence_geometric_mean": streams.means,
    }[options.level]
    weight_N = np.exp(pool(streams.old_N - streams.sampler_N))
    if isinstance(options, Tis):
        return np.minimum(weight_N, options.cap)
    return np.where((weight_N < options.low) | (weight_N > options.high), 0.0, weight_N)


def kept(config: TrainConfig, streams: Streams) -> Floats:
    """0 for what the off-policy mask leaves out of the policy term; M2PO's step is a single pass."""
    options = config.off_policy_mask
    if isinstance(options, NoOffPolicyMask):
        return np.ones_like(streams.new_N)
    if options.origin is not None:
        return own_cases.kept(config, streams.new_N - streams.old_N)
    assert isinstance(options, SequenceMask | M2po)
    behaviour_N = streams.sampler_N if options.reference == "sampler" else streams.old_N
    if isinstance(options, M2po):
        moved_N = streams.new_N - behaviour_N
        moved_on_N = streams.advantage_N * moved_N > 0
        left, limit = sorted(abs(moved_N[moved_on_N])), np.inf
        while left and np.mean(np.square(left)) > options.threshold:
            limit = left.pop()
        # Answers that are equal are as far up to rounding, and go together.
        return np.where(moved_on_N & (abs(moved_N) > limit * (1 - 1e-5)), 0.0, 1.0)
    assert isinstance(options, SequenceMask)
    left_N = streams.means(behaviour_N - streams.new_N) > options.threshold_nats
    return np.where(left_N & (streams.advantage_N < 0), 0.0, 1.0)


def kl_estimates(config: TrainConfig, streams: Streams) -> tuple[Floats, Floats]:
    """The plain estimate of each token and its derivative."""
    assert streams.ref_N is not None
    delta_N = streams.new_N - streams.ref_N
    return {
        "k1": (delta_N, np.ones_like(delta_N)),
        "k2": (delta_N**2 / 2, delta_N),
        "k3": (np.expm1(-delta_N) + delta_N, -np.expm1(-delta_N)),
    }[config.kl.estimator.type]


def kl_loss(config: TrainConfig, one: Pass) -> float:
    """The value of the KL term."""
    streams = Streams(one)
    estimate_N, _ = kl_estimates(config, streams)
    return float((kl_weights(one, streams) * importance(config, streams) * estimate_N).sum())


def importance(config: TrainConfig, streams: Streams) -> Floats:
    """The live ratio that the estimate is weighted with."""
    difference_N = streams.new_N - streams.old_N
    return {
        "none": lambda: np.ones_like(difference_N),
        "token": lambda: np.exp(difference_N),
        "sequence_product": lambda: np.exp(streams.sums(difference_N)),
    }[config.kl.importance]()


def kl_weights(one: Pass, streams: Streams) -> Floats:
    """Coefficient times weight of each token."""
    weight_N = streams.weight_N if one.inputs.kl_weights_N is None else one.stream("kl_weights_N")
    coefficients_N: Floats = one.stream("kl_coefficient_E")[streams.of_N]
    return weight_N * coefficients_N


def kl_gradient(config: TrainConfig, streams: Streams, one: Pass) -> Floats:
    """Of the KL term in the loss."""
    estimate_N, slope_N = kl_estimates(config, streams)
    weight_N, ratio_N = kl_weights(one, streams), importance(config, streams)
    own_N = weight_N * ratio_N * slope_N
    if config.kl.importance == "none":
        return own_N
    further_N = weight_N * ratio_N * estimate_N
    return own_N + (further_N if config.kl.importance == "token" else streams.sums(further_N))


def token_weights(config: TrainConfig, lengths_PG: Grid, trained_PG: Grid, reduction: Reduction) -> list[list[float]]:
    """The weights of the tokens of each group, end to end; sequences that are not trained leave all denominators."""
    own_constant = reduction.tokens if isinstance(reduction, ConstantLength) else 0
    constant = own_constant or config.sampling.max_new_tokens
    tokens_P = [sum(np.multiply(*pair)) for pair in zip(lengths_PG, trained_PG, strict=True)]
    sequences, groups = sum(map(sum, trained_PG)), sum(tokens > 0 for tokens in tokens_P)
    weights = []
    for lengths_G, trained_G, own_tokens in zip(lengths_PG, trained_PG, tokens_P, strict=True):
        of_group: list[float] = []
        for length, trained in zip(lengths_G, trained_G, strict=True):
            denominator = {
                "token_mean": sum(tokens_P),
                "sequence_mean_token_mean": sequences * length,
                "sequence_mean_token_sum": sequences,
                "constant_length": sequences * constant,
                "group_token_mean": groups * own_tokens,
            }[reduction.type]
            of_group += [1 / denominator if trained else 0.0] * length
        weights.append(of_group)
    return weights


def adamw(
    config: TrainConfig, before: Floats, gradients: list[Floats], steps: Sequence[int], decays: Floats | float = 1.0
) -> Floats:
    """AdamW (1711.05101, algorithm 2) over the gradients of a run, and the step, from 0, in which each was made.

    decays: 0 for a weight that does not decay.
    """
    options, weights = config.optimizer, before.copy()
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for index, (gradient, step) in enumerate(zip(gradients, steps, strict=True)):
        lr = learning_rate(config, step)
        gradient = gradient / max(1.0, float(np.linalg.norm(gradient)) / options.max_grad_norm)
        first = options.beta1 * first + (1 - options.beta1) * gradient
        second = options.beta2 * second + (1 - options.beta2) * gradient**2
        mean = first / (1 - options.beta1 ** (index + 1))
        root = np.sqrt(second / (1 - options.beta2 ** (index + 1)))
        weights = weights * (1 - lr * options.weight_decay * decays) - lr * mean / (root + options.epsilon)
    return weights


def muon(config: TrainConfig, before: Floats, gradients: list[Floats], steps: Sequence[int]) -> Floats:
    """Muon over the gradients of one matrix, as clipped: momentum with Nesterov's look ahead, made orthogonal by five
    steps of a quintic in bfloat16, 0.2·√max(rows, columns) long (2502.16982, equation 4)."""
    options, weights = config.optimizer, before.copy()
    # What is rounded to bfloat16 is float32, and rounded as that is: a bit of it may be half of a small singular value.
    moment = torch.zeros(before.shape)
    for gradient, step in zip(gradients, steps, strict=True):
        lr, own = learning_rate(config, step), torch.from_numpy(gradient).float()
        moment = torch.lerp(moment, own, 1 - options.momentum)
        ahead = torch.lerp(own, moment, options.momentum)
        wide = ahead.shape[0] <= ahead.shape[1]
        made = (ahead if wide else ahead.T).bfloat16()
        made = made / made.norm()
        for _ in range(5):
            # Each sum is rounded once: of small singular values nothing else would be left.
            square = made @ made.T
            both = torch.addmm(square, square, square, beta=-4.775, alpha=2.0315)
            made = torch.addmm(made, both, made, beta=3.4445)
        change = made.double().numpy()
        change = 0.2 * np.sqrt(max(weights.shape)) * (change if wide else change.T)
        weights = weights * (1 - lr * options.weight_decay) - lr * change
    return weights


def learning_rate(config: TrainConfig, step: int) -> float:
    """Of the step that has `step` finished ones before it, where the warm-up has at least one step."""
    options = config.optimizer
    # A fall to 0 ends at the step after the last.
    last = config.run.steps - (options.final_lr_fraction > 0)
    peak = max(options.warmup_steps - 1, 0)
    if step <= peak and options.warmup_steps:
        return options.lr * (step + 1) / options.warmup_steps
    share = (step - peak) / (last - peak) if last > peak else 0.0
    fallen = {"constant": 0.0, "linear": share, "cosine": (1 - np.cos(np.pi * share)) / 2}[options.schedule]
    return float(options.lr * (1 - fallen * (1 - options.final_lr_fraction)))
