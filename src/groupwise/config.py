"""The typed tree of options.

Every field changes something or is refused. Units are in the names. `compose.py` builds the tree from recipes, files
and `key=value`; the checks between options are at the end of `TrainConfig`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Options(BaseModel):
    """Base of every section: unknown keys, wrong types and non-finite numbers are errors, values cannot change."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class ModelOptions(Options):
    """Which model is trained, and with which arithmetic."""

    path: str = "bundled"
    """`bundled`, a Hugging Face model folder, a `.gguf` file, or the id of a model on the hub."""

    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the matrix products. The weights that the optimizer updates are float32 in either case."""

    trainable: Literal["all", "all_but_embeddings"] = "all"
    """Which weights are trained. `all_but_embeddings` also leaves an output head alone that shares them."""


class PromptExample(Options):
    """One solved problem that is shown before the real one."""

    problem: str
    answer: str


class PromptOptions(Options):
    """How a problem becomes the prompt."""

    template: Literal["chat", "plain"] = "chat"
    """`chat` uses the tokenizer's chat template; `plain` joins the contents with blank lines."""

    system: str = ""
    """A system message put first; empty for none."""

    examples: list[PromptExample] = []
    """Solved problems shown first, as turns of the chat."""

    prefill: str = ""
    """Text that the model's turn begins with, for example `<think>`. It belongs to the prompt and is not trained."""


class Columns(Options):
    """Names of the columns of a problem file, where they are not recognised by themselves."""

    problem: str = ""
    """Column with the problem's text or its list of chat messages."""

    answer: str = ""
    """Column with the answer."""

    domain: str = ""
    """Column with the domain."""


class ProblemOptions(Options):
    """Where problems come from. A source is `arithmetic` (generated) or a file: .jsonl, .json, .parquet."""

    train: str = "arithmetic"
    """Problems to train on."""

    eval: str = ""
    """Problems to measure on, before and after. Empty: where training is on generated problems, others that it never
    meets; where it is on a file, none."""

    columns: Columns = Columns()

    eval_problems: NonNegativeInt = 512
    """How many problems the measurement uses (at most; a file may hold fewer). 0 for no measurement."""

    eval_samples_per_prompt: PositiveInt = 8
    """Samples for each problem of the measurement at the training temperature; pass@k is given for k up to this."""

    eval_every_steps: NonNegativeInt = 0
    """Also measure every so many steps; 0 for only before and after."""


class SamplingOptions(Options):
    """How completions are sampled. The same numbers serve every scorer of these completions."""

    temperature: PositiveFloat = 1.0

    max_new_tokens: PositiveInt = 512
    """Longest completion, in tokens. A completion that reaches it is truncated."""

    top_k: NonNegativeInt = 0
    """Sample from the most likely tokens only; 0 for all."""

    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sample from the smallest set of most likely tokens that has this probability."""

    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Sample from tokens that have at least this share of the most likely one's probability."""

    keep_mask: Literal["none", "replay"] = "none"
    """`replay` records which tokens top_k, top_p and min_p kept, at most 1024 at each position, and every scorer
    normalises over the same ones (DeepSeek-V3.2)."""

    engine_batch_sequences: PositiveInt = 256
    """How many sequences are decoded at once, at most."""


class BatchOptions(Options):
    """What one step consists of."""

    prompts_per_step: PositiveInt = 16
    """Groups that one step trains on."""

    samples_per_prompt: PositiveInt = 8
    """Completions of each problem: the size of the group."""

    minibatches_per_step: PositiveInt = 1
    """Optimizer steps in one pass over the groups of a step."""

    epochs_per_step: PositiveInt = 1
    """Passes over the groups of a step."""

    micro_batch_tokens: PositiveInt = 16384
    """Tokens in one forward and backward pass, at most, each prompt counted once. Changes memory, not the gradient."""

    logits_chunk_tokens: PositiveInt = 2048
    """Rows of logits that exist at one time. Changes memory, not the gradient."""


class ActiveSamplingOptions(Options):
    """Which groups are trained on. A group whose rewards are all equal has no signal."""

    filter: Literal["none", "correctness", "total", "any_component"] = "correctness"
    """What has to differ within a group for it to be trained on: its correctness, its total reward, any one reward, or
    nothing. With `none`, groups without signal stay in the denominators, and a KL or entropy term acts on them."""

    refill: bool = True
    """Sample further problems until the step has its groups."""

    max_prompts_per_step_factor: Annotated[float, Field(ge=1)] = 4.0
    """Budget of the refill: problems sampled in a step, at most, as a multiple of `batch.prompts_per_step`."""

    retire_pass_rate: Fraction = 0.0
    """Problems of a file of which at least this share of samples was right are not drawn again; 0 for never."""


class RewardOptions(Options):
    """How a completion is paid: `correctness_weight` · correct + `format_weight` · format."""

    answer: Literal["boxed", "last_number"] = "boxed"
    """Where the answer stands: in the last \\boxed{}, or as the last number; in either case after the reasoning."""

    correctness_weight: NonNegativeFloat = 1.0

    format_weight: NonNegativeFloat = 0.0
    """Weight of the format reward for one non-empty <think>…</think> before the answer."""

    format_when: Literal["always", "correct"] = "always"
    """`correct` pays the format only to a right answer."""

    overlong_buffer_tokens: NonNegativeInt = 0
    """Soft penalty of long answers (DAPO eq. 13): over the last so many tokens before sampling.max_new_tokens it grows
    linearly to -1. 0 for none."""


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

    by_domain: dict[str, NonNegativeFloat] = {}
    """Coefficients of single domains, instead of `coefficient`."""

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


class OptimizerOptions(Options):
    """AdamW and its schedule."""

    lr: PositiveFloat = 1e-6
    """Peak learning rate."""

    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9

    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95

    epsilon: PositiveFloat = 1e-8

    weight_decay: NonNegativeFloat = 0.0

    max_grad_norm: PositiveFloat = 1.0
    """The gradient is scaled down to this norm when it is longer."""

    warmup_steps: NonNegativeInt = 0
    """Steps over which the learning rate rises linearly to its peak."""

    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls after the warm-up."""

    final_lr_fraction: Fraction = 0.0
    """Where the fall ends, as a share of the peak."""


class RunOptions(Options):
    """How long the run is, where it is written, and what it is seeded with."""

    steps: PositiveInt = 200

    seed: NonNegativeInt = 0

    output: str = ""
    """Folder of the run; empty for runs/NAME-NUMBER."""

    checkpoint_every_steps: NonNegativeInt = 50
    """0 for a checkpoint only at the end and at Ctrl-C."""

    keep_checkpoints: PositiveInt = 2
    """How many of the newest checkpoints stay."""

    rollouts_every_steps: NonNegativeInt = 10
    """Every so many steps all completions of the step are written to rollouts/; 0 for never."""

    threads: NonNegativeInt = 0
    """CPU threads; 0 for the faster choice of a short probe."""


class TrainConfig(Options):
    """All options of `groupwise train`."""

    run: RunOptions = RunOptions()
    model: ModelOptions = ModelOptions()
    prompt: PromptOptions = PromptOptions()
    problems: ProblemOptions = ProblemOptions()
    sampling: SamplingOptions = SamplingOptions()
    batch: BatchOptions = BatchOptions()
    active_sampling: ActiveSamplingOptions = ActiveSamplingOptions()
    rewards: RewardOptions = RewardOptions()
    advantage: AdvantageOptions = AdvantageOptions()
    objective: ObjectiveOptions = ObjectiveOptions()
    engine_correction: EngineCorrectionOptions = EngineCorrectionOptions()
    off_policy_mask: OffPolicyMaskOptions = OffPolicyMaskOptions()
    kl: KlOptions = KlOptions()
    entropy: EntropyOptions = EntropyOptions()
    optimizer: OptimizerOptions = OptimizerOptions()


class SftConfig(Options):
    """All options of `groupwise sft`."""

    model: str = "bundled"
    """`bundled`, a Hugging Face model folder, a `.gguf` file, or the id of a model on the hub."""

    data: str
    """JSONL with `prompt` (text or chat messages) and `completion` (text)."""

    output: str
    """Folder for the trained model."""

    seed: NonNegativeInt = 0
    steps: PositiveInt = 1000
    sequences_per_step: PositiveInt = 32
    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon` updates matrices by orthogonalised momentum and everything else by AdamW."""

    lr: PositiveFloat = 1e-4
    """Peak learning rate of AdamW."""

    muon_lr: PositiveFloat = 0.02
    """Peak learning rate of Muon."""

    weight_decay: NonNegativeFloat = 0.0
    max_grad_norm: PositiveFloat = 1.0
    warmup_steps: NonNegativeInt = 50
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    final_lr_fraction: Fraction = 0.05
    micro_batch_tokens: PositiveInt = 16384
    logits_chunk_tokens: PositiveInt = 2048
    threads: NonNegativeInt = 0
    """CPU threads; 0 for the faster choice of a short probe."""
