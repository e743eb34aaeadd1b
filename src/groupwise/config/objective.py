"""Options of the objective: advantages, the policy loss, engine correction, masks, KL and entropy."""

from typing import Annotated, Literal

from pydantic import Field

from groupwise.options import Fraction, NonNegativeFloat, NonNegativeInt, Options, PositiveFloat, PositiveInt


class AdvantageOptions(Options):
    """From the rewards of a group to the advantage of each completion."""

    estimator: Literal["group", "gdpo", "max_rl", "pass_at_k"] = "group"
    """`group`: (total reward - baseline) / scale. `gdpo`: each reward normalised within its group, weighted, summed,
    and whitened over the step. `max_rl`: (total - mean) / mean. `pass_at_k`: the analytic advantages of pass@k."""

    baseline: Literal["group_mean", "leave_one_out", "none"] = "group_mean"
    """What a reward is compared with: the mean of its group, the mean of the others (RLOO), or nothing."""

    scale: Literal["none", "group_std", "batch_std"] = "none"
    """`none` (Dr. GRPO), the standard deviation of the group (GRPO), or that of the step's groups (LitePPO)."""

    pass_k: PositiveInt = 4
    """k of `pass_at_k`."""

    clip: NonNegativeFloat = 0.0
    """Advantages are limited to ±clip; 0 for no limit."""

    std_ddof: Literal[0, 1] = 1
    """1 divides the squares by G-1 (Bessel), 0 by G (population)."""

    std_epsilon: PositiveFloat = 1e-4
    """Added to the standard deviation."""


class ObjectiveOptions(Options):
    """The policy loss, as independent axes."""

    ratio: Literal["token", "sequence_geometric_mean", "gspo_token", "sequence_product", "none"] = "token"
    """π_new/π_old of the token (GRPO), of the sequence as its geometric mean (GSPO), the same with the token's own
    gradient (GSPO-token), of the sequence as the product, or 1 (REINFORCE)."""

    surrogate: Literal["ppo_clip", "cispo", "sapo", "reinforce", "dppo", "vespo", "gmpo", "seed_clip"] = "ppo_clip"
    """What is made of ratio and advantage. `seed_clip` is a printed variant of PPO's clip that is wrong for negative
    advantages, for teaching only."""

    clip_low: NonNegativeFloat = 0.2
    """`ppo_clip`: the ratio is clipped below at 1 - clip_low. `dppo` and `gmpo` bound what their name says by it."""

    clip_high: NonNegativeFloat = 0.28
    """`ppo_clip` and `seed_clip`: the ratio is clipped above at 1 + clip_high."""

    dual_clip: NonNegativeFloat = 0.0
    """`ppo_clip`: absolute upper bound of the ratio for negative advantages; 0 for none."""

    cispo_cap: PositiveFloat = 5.0
    """`cispo`: absolute upper bound of the detached weight π_new/π_old."""

    cispo_floor: NonNegativeFloat = 0.0
    """`cispo`: absolute lower bound of it."""

    sapo_temperature_positive: PositiveFloat = 1.0

    sapo_temperature_negative: PositiveFloat = 1.05

    vespo_k_positive: PositiveFloat = 2.0

    vespo_lambda_positive: PositiveFloat = 3.0

    vespo_k_negative: PositiveFloat = 3.0

    vespo_lambda_negative: PositiveFloat = 2.0

    reduction: Literal[
        "token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant_length", "group_token_mean"
    ] = "token_mean"
    """How tokens are weighted: mean over the tokens of the optimizer step (DAPO); mean over sequences of their token
    means (GRPO); mean over sequences of their sums; sum over a constant length (Dr. GRPO); mean over groups of their
    token means."""

    constant_length_tokens: NonNegativeInt = 0
    """The constant of `constant_length`; 0 stands for sampling.max_new_tokens."""

    truncated: Literal["train", "mask"] = "train"
    """`mask` leaves truncated answers out of numerator and denominator; they still count in their group's baseline."""

    old_logps: Literal["sampler", "trainer"] = "sampler"
    """Who states the log-probabilities of the policy that sampled: the engine, or the trainer in a pass of its own."""


class EngineCorrectionOptions(Options):
    """The weight π_old/π_sampler for what an engine computes otherwise than the trainer; detached."""

    form: Literal["none", "truncate", "band"] = "none"
    """`truncate`: min(weight, high) (TIS). `band`: 0 outside of low..high (IcePop, masked importance sampling)."""

    level: Literal["token", "sequence_product", "sequence_geometric_mean"] = "token"

    low: NonNegativeFloat = 0.5

    high: PositiveFloat = 2.0


class OffPolicyMaskOptions(Options):
    """DeepSeek-V3.2's mask of bad answers that the policy has left already; it acts on the policy term only."""

    against: Literal["none", "sampler", "old"] = "none"
    """Whose log-probabilities the policy is compared with: the engine's, as in the paper, or the trainer's old ones."""

    threshold_nats: PositiveFloat = 0.1
    """Largest mean of log(π/π_new) over the tokens of an answer with negative advantage."""


class KlOptions(Options):
    """Penalty for leaving the reference, the policy at step 0. It is not loaded when every coefficient is 0."""

    coefficient: NonNegativeFloat = 0.0
    """Of problems of every domain that states none of its own in domains.NAME.kl_coefficient."""

    estimator: Literal["k1", "k2", "k3"] = "k3"

    importance: Literal["none", "token", "sequence_product"] = "token"
    """Weight of the estimate: none (GRPO), the live ratio of the token (DeepSeek-V3.2) or of the sequence."""

    placement: Literal["loss", "reward"] = "loss"
    """In the loss, or as k1 in the reward of each token, with what follows it."""

    reduction: Literal["as_policy", "token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"] = "as_policy"
    """How the KL of tokens is weighted: as the policy loss, or by a reduction of its own. `sequence_mean_token_mean` is
    the length-normalised form."""

    refresh_reference_every_steps: NonNegativeInt = 0
    """The policy becomes the reference every so many steps; 0 for never."""


class EntropyOptions(Options):
    """What is done for the entropy of the policy."""

    coefficient: NonNegativeFloat = 0.0
    """Of the entropy bonus; where it starts when a target is set."""

    target_nats: NonNegativeFloat = 0.0
    """The coefficient moves towards this entropy after every step; 0 keeps it fixed."""

    coefficient_step: PositiveFloat = 0.005

    max_coefficient: PositiveFloat = 1.0

    train_top_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Train only on this share of tokens, those with the highest entropy."""

    covariance: Literal["none", "clip_cov", "kl_cov"] = "none"
    """What happens to the tokens with the highest covariance of log-probability and advantage: their policy gradient is
    dropped for some (Clip-Cov), or they are penalised for moving (KL-Cov)."""

    covariance_share: Fraction = 2e-4

    clip_cov_low: float = 1.0

    clip_cov_high: float = 5.0

    kl_cov_coefficient: PositiveFloat = 1.0
